"""Requests: terms, duration, window, preferences, priority, agent.

The Python form is these types; the text form of the terms is in `kalends.core.language`, and both
mean the same. Everything is a plain immutable value; `Request.check()` raises for what can never be
right, whoever made it.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.conversion import convert
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.full_times import format_time
from kalends.core.intervals import Interval
from kalends.core.resources import AttributeValue
from kalends.core.scripts import Arguments

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in"]

_RESOURCE = re.compile(ids.RESOURCE_PATTERN)
_ATTRIBUTE = re.compile(ids.ATTRIBUTE_PATTERN)


class _Value(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of the request's parts: immutable values, unknown fields refused."""


class Attribute(_Value, frozen=True, kw_only=True):
    """One comparison, e.g. ``memory>=64``; `value` is a tuple for ``in`` only."""

    name: Annotated[str, Meta(pattern=ids.whole(ids.ATTRIBUTE_PATTERN))]
    operator: Operator
    value: AttributeValue | tuple[AttributeValue, ...]


class AttributePreference(_Value, frozen=True, kw_only=True):
    """A `weight` for each resource picked by the term that meets this comparison."""

    attribute: Attribute
    weight: float


DAY_S: Final = 86_400
CLOCK_CHANGE_S: Final = 7_200
"""The most by which a clock change makes a local day shorter than 24 hours."""


class Term(_Value, frozen=True, kw_only=True):
    """One resource by name, or `count` different resources by attributes, `units` of each.

    `offset_s` moves this stage from the common start; `duration_s` 0 means the request's duration.
    `units_max` above `units` makes the term moldable: `units_weight` is earned by the full amount,
    and of it the share that lies above the least amount for anything between (more is better, unless
    the weight is negative), separately for each picked resource. `preferred` are attributes that a
    picked resource may lack.
    """

    resource: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.RESOURCE_PATTERN)))] = ""
    attributes: Annotated[tuple[Attribute, ...], Meta(max_length=limits.ATTRIBUTES_MAX)] = ()
    count: Annotated[int, Meta(ge=1, le=limits.SELECTED_MAX)] = 1
    units: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)] = 1
    units_max: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    units_weight: float = 1.0
    preferred: Annotated[
        tuple[AttributePreference, ...], Meta(max_length=limits.ATTRIBUTES_MAX)
    ] = ()
    offset_s: Annotated[int, Meta(ge=-limits.OFFSET_S_MAX, le=limits.OFFSET_S_MAX)] = 0
    duration_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0


class Alternative(_Value, frozen=True, kw_only=True):
    """Terms that are wanted together; `weight` is a preference among alternatives.

    Every weight is at most `limits.WEIGHT_MAX`, of either sign. Weights count as the decimal numbers
    that they are written as, and are added exactly: 0.1 and 0.2 make 0.3.
    """

    terms: Annotated[tuple[Term, ...], Meta(min_length=1, max_length=limits.TERMS_MAX)]
    weight: float = 0.0


class TimePreference(_Value, frozen=True, kw_only=True):
    """A `weight` for common starts within ``[start, end)``; weights of several windows add up."""

    start: int
    end: int
    weight: float


class Request(_Value, frozen=True, kw_only=True):
    """A request: one of `alternatives`, all its terms at a common start.

    The greatest sum of weights wins, then the earliest start, then the alternative that stands first.

    The reservation starts no earlier than `not_before` and every stage ends by `not_after` (integer
    seconds UTC). A window exactly as long as the stages fixes the start, which may then have just begun;
    in any other window no start is in the past. `not_after` 0 leaves the
    end to the owners' horizons. `agent` names the script that chooses slots at the sites: one that
    the user has uploaded, by name or hash, or ``ready:NAME``; `arguments` are passed to it. If it fails,
    the site's default chooses, unless the agent must run: then nothing is booked.
    """

    alternatives: Annotated[
        tuple[Alternative, ...], Meta(min_length=1, max_length=limits.ALTERNATIVES_MAX)
    ]
    duration_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]
    not_before: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    not_after: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    preferences: Annotated[tuple[TimePreference, ...], Meta(max_length=limits.PREFERENCES_MAX)] = ()
    priority: Annotated[int, Meta(ge=-limits.PRIORITY_MAX, le=limits.PRIORITY_MAX)] = 0
    agent: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.AGENT_PATTERN)))] = ""
    arguments: Arguments = {}
    agent_must_run: bool = False
    note: Annotated[str, Meta(max_length=200)] = ""

    def check(self, *, from_wire: bool = False) -> None:
        """Raise `InvalidInput` for an invalid request, whatever its origin.

        `where` in the error is the path of the fault, such as ``alternatives[0].terms[1].units``. First
        checks types and single values against their declarations (a request `from_wire` already was;
        Python code may have ignored them), and then their relations.
        """
        declared = self if from_wire else _declared(self)
        _check_size(declared)
        for number, alternative in enumerate(declared.alternatives):
            check_alternative(alternative, f"alternatives[{number}]")
            _check_growing(declared, alternative, f"alternatives[{number}]")
            _check_window(declared, alternative, f"alternatives[{number}]")
        for number, preference in enumerate(declared.preferences):
            _check_preference(preference, f"preferences[{number}]")
        _check_arguments(declared)
        _check_text(self.note, "note")
        if declared != self:
            raise InvalidInput("a list instead of a tuple", where="request", remedy="use tuples")


def _check_size(request: Request) -> None:
    """Limit terms and comparisons, because each costs work for every resource."""
    terms = [term for alternative in request.alternatives for term in alternative.terms]
    asked = [*(each for term in terms for each in term.attributes)]
    asked += [each.attribute for term in terms for each in term.preferred]
    comparisons = {(each.name, each.operator, repr(each.value)) for each in asked}
    for number, most, what in (
        (len(terms), limits.TERMS_OF_ALL_MAX, "terms in all alternatives together"),
        (len(comparisons), limits.COMPARISONS_MAX, "different comparisons of attributes"),
    ):
        if number > most:
            raise InvalidInput(
                f"{number} {what}, at most {most} are allowed",
                where="alternatives",
                remedy="ask for less, or make several requests",
            )


def _check_arguments(request: Request) -> None:
    for where in ("arguments", "agent_must_run"):
        if getattr(request, where) and not request.agent:
            raise InvalidInput(
                "given without an agent", where=where, remedy="name the agent, or leave it out"
            )
    for name, value in request.arguments.items():
        if not isinstance(value, bool):
            _check_value(value, f"arguments.{name}")


def term_interval(request: Request, term: Term, start: int) -> Interval:
    """Return when `term` takes its resources if the common start is `start`."""
    begin = start + term.offset_s
    return Interval(begin, begin + (term.duration_s or request.duration_s))


def span(request: Request) -> tuple[int, int]:
    """Return the earliest begin and the latest end of all stages, in seconds from the common start.

    ``(0, 3600)`` for a plain hour; the first is negative if a stage begins before the start. Over
    all alternatives together.
    """
    spans = [span_of(request, alternative) for alternative in request.alternatives]
    return min(begin for begin, _ in spans), max(end for _, end in spans)


def span_of(request: Request, alternative: Alternative) -> tuple[int, int]:
    """Return the span of one `alternative`, see `span`."""
    stages = [term_interval(request, term, 0) for term in alternative.terms]
    return min(stage.start for stage in stages), max(stage.end for stage in stages)


def shortest_stage_s(request: Request) -> int:
    """Return the length of the shortest stage of any alternative."""
    return min(
        term.duration_s or request.duration_s
        for alternative in request.alternatives
        for term in alternative.terms
    )


def _declared(request: Request) -> Request:
    """Check `request` against its declared types and bounds, like one from the wire."""
    try:
        return convert(msgspec.to_builtins(request), Request)
    except TypeError as error:
        raise InvalidInput(
            f"the request has a value of the wrong type: {error}",
            where="request",
            remedy="use the types of kalends.core.requests",
        ) from error


def _check_window(request: Request, alternative: Alternative, where: str) -> None:
    begin, end = span_of(request, alternative)
    length_s = end - begin
    if request.not_after and request.not_after <= request.not_before:
        raise InvalidInput(
            f"the latest end is not after the earliest start: {format_time(request.not_after, 'UTC')}, and "
            f"{format_time(request.not_before, 'UTC')}",
            where="not_after",
            remedy="give a later end, or an earlier start",
        )
    shortest_s = length_s - CLOCK_CHANGE_S if length_s >= DAY_S else length_s
    if request.not_after and request.not_after - request.not_before < shortest_s:
        window_s = request.not_after - request.not_before
        raise InvalidInput(
            f"the stages take {format_duration(length_s)} together, "
            f"the window is only {format_duration(window_s)} long: from "
            f"{format_time(request.not_before, 'UTC')} to {format_time(request.not_after, 'UTC')}",
            where=where,
            remedy="widen the window or shorten the duration",
        )
    if request.not_before + length_s > limits.TIME_S_MAX:
        raise InvalidInput(
            "the stages end after the year 3000",
            where="not_before",
            remedy="give times in seconds, not milliseconds",
        )


def check_alternative(alternative: Alternative, where: str) -> None:
    """Raise `InvalidInput` for terms that can never be right, in any request; `where` is the path."""
    _check_weight(alternative.weight, f"{where}.weight")
    for number, term in enumerate(alternative.terms):
        _check_term(term, f"{where}.terms[{number}]")
    claims = sum(term.count for term in alternative.terms)
    if claims > limits.CLAIMS_MAX:
        raise InvalidInput(
            f"{claims} resources in one alternative, at most {limits.CLAIMS_MAX} are allowed",
            where=f"{where}.terms",
            remedy="ask for fewer, or in several requests",
        )


def _check_term(term: Term, where: str) -> None:
    if bool(term.resource) == bool(term.attributes):
        raise InvalidInput(
            "a term has both a resource and attributes"
            if term.resource
            else "a term has neither a resource nor required attributes",
            where=where,
            remedy="give either `resource` or required `attributes`",
        )
    if term.resource and not _RESOURCE.fullmatch(term.resource):
        raise InvalidInput(
            f"{term.resource!r} is not a resource name",
            where=f"{where}.resource",
            remedy="write site/name in lower case",
        )
    if term.resource and term.count != 1:
        raise InvalidInput(
            f"there is only one {term.resource}, but the term asks for {term.count} different ones",
            where=f"{where}.count",
            remedy=f"for {term.count} units of it set `units`: {term.resource}:{term.count}",
        )
    if term.units_max and term.units_max < term.units:
        raise InvalidInput(
            f"at most {term.units_max} units is less than at least {term.units}",
            where=f"{where}.units_max",
            remedy="give the smaller amount first, or leave units_max at 0",
        )
    _check_weight(term.units_weight, f"{where}.units_weight")
    if term.units_weight != 1.0 and term.units_max <= term.units:
        raise InvalidInput(
            "the amount is fixed, and has a weight",
            where=f"{where}.units_weight",
            remedy="give units_max above units, or leave the weight out",
        )
    for number, attribute in enumerate(term.attributes):
        _check_attribute(attribute, f"{where}.attributes[{number}]")
    _check_preferred(term, where)


def _check_preferred(term: Term, where: str) -> None:
    if len(term.attributes) + len(term.preferred) > limits.ATTRIBUTES_MAX:
        raise InvalidInput(
            f"more than {limits.ATTRIBUTES_MAX} comparisons in one term",
            where=f"{where}.preferred",
            remedy="leave out the least important",
        )
    if term.preferred and term.resource:
        raise InvalidInput(
            "preferred attributes, but the resource is given by name",
            where=f"{where}.preferred",
            remedy="give a weight to the alternative instead",
        )
    for number, preference in enumerate(term.preferred):
        _check_attribute(preference.attribute, f"{where}.preferred[{number}].attribute")
        _check_weight(preference.weight, f"{where}.preferred[{number}].weight")


def _check_growing(request: Request, alternative: Alternative, where: str) -> None:
    """Allow one growing amount of a resource at a time, because several would compete for it."""
    growing: dict[str, list[Interval]] = {}
    for number, term in enumerate(alternative.terms):
        if not term.resource or term.units_max <= term.units:
            continue
        stage = term_interval(request, term, 0)
        others = growing.setdefault(term.resource, [])
        if any(stage.overlaps(other) for other in others):
            raise InvalidInput(
                f"two amounts of {term.resource} may grow at one time",
                where=f"{where}.terms[{number}].units_max",
                remedy="give all but one of them a fixed amount",
            )
        others.append(stage)


def _check_attribute(attribute: Attribute, where: str) -> None:
    if not _ATTRIBUTE.fullmatch(attribute.name):
        raise InvalidInput(
            f"{attribute.name!r} is not an attribute name",
            where=f"{where}.name",
            remedy="use lower case letters, digits, - _ and ., after a first letter",
        )
    several = isinstance(attribute.value, tuple)
    if several != (attribute.operator == "in") or attribute.value == ():
        raise InvalidInput(
            "`in` compares with a tuple of at least one value"
            if attribute.operator == "in"
            else f"`{attribute.operator}` compares with one value",
            where=f"{where}.value",
            remedy="write kind in (sgi, pentium), or kind=sgi",
        )
    if isinstance(attribute.value, bool) and attribute.operator not in ("=", "!="):
        raise InvalidInput(
            f"true and false have no order for `{attribute.operator}`",
            where=f"{where}.operator",
            remedy="compare them with = or !=",
        )
    for value in attribute.value if isinstance(attribute.value, tuple) else (attribute.value,):
        _check_value(value, f"{where}.value")


def _check_value(value: AttributeValue, where: str) -> None:
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, float):
        _check_finite(value, where)
    elif not -(1 << 63) <= value < 1 << 63:
        raise InvalidInput(
            f"{value} has more than 64 bits", where=where, remedy="use a larger unit, or a float"
        )


def _check_preference(preference: TimePreference, where: str) -> None:
    _check_weight(preference.weight, f"{where}.weight")
    if preference.end <= preference.start:
        raise InvalidInput(
            "the preferred time ends before it begins",
            where=f"{where}.end",
            remedy="give an `end` later than `start`",
        )


def _check_weight(weight: float, where: str) -> None:
    _check_finite(weight, where)
    if abs(weight) > limits.WEIGHT_MAX:
        raise InvalidInput(
            f"{weight} is not between {-limits.WEIGHT_MAX:,.0f} and {limits.WEIGHT_MAX:,.0f}",
            where=where,
            remedy="give smaller weights in the same proportions",
        )


def _check_finite(value: float, where: str) -> None:
    if not math.isfinite(value):
        raise InvalidInput(f"{value} is not a number", where=where, remedy="give a finite number")


def _check_text(text: str, where: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput("the text has a lone surrogate", where=where, remedy="write it in UTF-8")
