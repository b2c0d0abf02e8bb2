"""Requests: terms, duration, window, preferences, priority, agent.

The Python form is these types; the text form of the terms is in `kalends.core.language`, and both
mean the same. Everything is a plain immutable value; `Request.check()` raises for what can never be
right, whoever made it.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.conversion import convert
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.full_times import format_time
from kalends.core.intervals import Interval
from kalends.core.money import Parts, Rate
from kalends.core.request_parts import CLOCK_CHANGE_S as CLOCK_CHANGE_S
from kalends.core.request_parts import DAY_S as DAY_S
from kalends.core.request_parts import Alternative as Alternative
from kalends.core.request_parts import Attribute as Attribute
from kalends.core.request_parts import AttributePreference as AttributePreference
from kalends.core.request_parts import Operator as Operator
from kalends.core.request_parts import RequestValue
from kalends.core.request_parts import Term as Term
from kalends.core.request_parts import TimePreference as TimePreference
from kalends.core.request_parts import WindowPreference as WindowPreference
from kalends.core.request_parts import WindowPreferences as WindowPreferences
from kalends.core.request_parts import Windows as Windows
from kalends.core.request_parts import has_windows as has_windows
from kalends.core.request_parts import parts_of as parts_of
from kalends.core.request_parts import span_of as span_of
from kalends.core.request_parts import term_interval as term_interval
from kalends.core.resources import AttributeValue
from kalends.core.scripts import Arguments
from kalends.core.transport import Traffic
from kalends.core.windows import check_window

Owner = Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.NAME_PATTERN)))]
"""The name of a site, or "" for the only one."""

Project = Annotated[str, Meta(pattern=ids.whole(ids.PROJECT_PATTERN))]
"""A project that pays, by its name at an owner."""

_RESOURCE = re.compile(ids.RESOURCE_PATTERN)
_ATTRIBUTE = re.compile(ids.ATTRIBUTE_PATTERN)


class Request(RequestValue, frozen=True, kw_only=True):
    """A request: one of `alternatives`, all its terms at a common start.

    The greatest sum of weights wins, then the earliest start, then the alternative that stands first.

    The reservation starts no earlier than `not_before` and every stage ends by `not_after` (integer
    seconds UTC). A window exactly as long as the stages fixes the start, which may then have just begun;
    in any other window no start is in the past. `not_after` 0 leaves the
    end to the owners' horizons. `agent` names the script that chooses slots at the sites: one that
    the user has uploaded, by name or hash, or ``ready:NAME``; `arguments` are passed to it. If it fails,
    the site's default chooses, unless the agent must run: then nothing is booked.

    `at_most` is the budget at each owner's site, in parts of a credit (`kalends.core.money`); the name ""
    stands for the only site that is asked. `projects` pay at each site, where "" stands for every other
    one; without a project, the user does. With `prefer_price`, the cheapest start wins among those with
    the greatest weights. `rates` say what a credit of each owner is worth to this user, in thousandths:
    prices of several owners are compared by them alone.

    `traffic_mb_per_s` is what each unit exchanges with all others together, where a virtual site splits a
    term over its members (``midwest/members``): megabytes (10^6 bytes) a second.
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
    at_most: Annotated[dict[Owner, Parts], Meta(max_length=limits.TERMS_OF_ALL_MAX)] = {}
    projects: Annotated[dict[Owner, Project], Meta(max_length=limits.TERMS_OF_ALL_MAX)] = {}
    rates: Annotated[dict[Owner, Rate], Meta(max_length=limits.TERMS_OF_ALL_MAX)] = {}
    prefer_price: bool = False
    traffic_mb_per_s: Traffic = 0.0
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
        if any(map(has_windows, declared.alternatives)):
            # Imported here: most requests have no windows, and need no zones.
            from kalends.core.permitted_starts import check_windows

            check_windows(declared)
        _check_arguments(declared)
        _check_budget(declared)
        _check_traffic(declared)
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


def _check_traffic(request: Request) -> None:
    if not request.traffic_mb_per_s:
        return
    terms = [term for each in request.alternatives for term in each.terms]
    if not any(ids.is_members(term.resource) for term in terms):
        raise InvalidInput(
            "no part of the request is split over the members of a virtual site",
            where="traffic_mb_per_s",
            remedy=f"write e.g. {ids.members_of('midwest')}:48, or leave it out",
        )


def _check_budget(request: Request) -> None:
    if "" in request.rates:
        raise InvalidInput(
            "a rate without the name of a site", where="rates", remedy="write sdsc=1,caltech=20"
        )
    sites = {ids.site_of(term.resource) for each in request.alternatives for term in each.terms}
    if "" in request.at_most and (len(request.at_most) > 1 or len(sites) > 1):
        named = sorted(sites - {""}) or sorted(set(request.at_most) - {""})
        raise InvalidInput(
            "one budget for several sites: credits of one owner are nothing at another",
            where="at_most",
            remedy=f"give one for each site, e.g. {','.join(f'{each}=40' for each in named)}",
        )


def span(request: Request) -> tuple[int, int]:
    """Return the earliest begin and the latest end of all stages, in seconds from the common start.

    ``(0, 3600)`` for a plain hour; the first is negative if a stage begins before the start. Over
    all alternatives together.
    """
    spans = [span_of(request, alternative) for alternative in request.alternatives]
    return min(begin for begin, _ in spans), max(end for _, end in spans)


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
    _check_windows(alternative, where)
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
    _check_windows(term, where)
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


def _check_windows(part: Alternative | Term, where: str) -> None:
    for number, window in enumerate(part.windows):
        check_window(window, f"{where}.windows[{number}]")
    for number, preference in enumerate(part.preferences):
        check_window(preference.window, f"{where}.preferences[{number}].window")
        _check_weight(preference.weight, f"{where}.preferences[{number}].weight")


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
