"""The parts of a request: terms, alternatives, windows and preferences; plain immutable values."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Protocol

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.intervals import Interval
from kalends.core.resources import AttributeValue
from kalends.core.windows import TimeWindow

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in"]


class RequestValue(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of the request's parts: immutable values, unknown fields refused."""


class Attribute(RequestValue, frozen=True, kw_only=True):
    """One comparison, e.g. ``memory>=64``; `value` is a tuple for ``in`` only."""

    name: Annotated[str, Meta(pattern=ids.whole(ids.ATTRIBUTE_PATTERN))]
    operator: Operator
    value: AttributeValue | tuple[AttributeValue, ...]


class AttributePreference(RequestValue, frozen=True, kw_only=True):
    """A `weight` for each resource picked by the term that meets this comparison."""

    attribute: Attribute
    weight: float


DAY_S: Final = 86_400
CLOCK_CHANGE_S: Final = 7_200
"""The most by which a clock change makes a local day shorter than 24 hours."""


class WindowPreference(RequestValue, frozen=True, kw_only=True):
    """A `weight` for what begins within an occurrence of `window`; weights of several windows add up."""

    window: TimeWindow
    weight: float


Windows = Annotated[tuple[TimeWindow, ...], Meta(max_length=limits.WINDOWS_MAX)]
WindowPreferences = Annotated[tuple[WindowPreference, ...], Meta(max_length=limits.WINDOWS_MAX)]


class Term(RequestValue, frozen=True, kw_only=True):
    """One resource by name, or `count` different resources by attributes, `units` of each.

    `offset_s` moves this stage from the common start; `duration_s` 0 means the request's duration.
    `units_max` above `units` makes the term moldable: `units_weight` is earned by the full amount,
    and of it the share that lies above the least amount for anything between (more is better, unless
    the weight is negative), separately for each picked resource. `preferred` are attributes that a
    picked resource may lack. The stage lies within one of `windows` (none: at any time), and earns each of
    `preferences` if it begins there.
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
    windows: Windows = ()
    preferences: WindowPreferences = ()


class Alternative(RequestValue, frozen=True, kw_only=True):
    """Terms that are wanted together; `weight` is a preference among alternatives.

    Each stage lies within one of `windows` (none: at any time), and in one of its term's. Each of
    `preferences` is earned by a common start in it.

    Every weight is at most `limits.WEIGHT_MAX`, of either sign. Weights count as the decimal numbers
    that they are written as, and are added exactly: 0.1 and 0.2 make 0.3.
    """

    terms: Annotated[tuple[Term, ...], Meta(min_length=1, max_length=limits.TERMS_MAX)]
    weight: float = 0.0
    windows: Windows = ()
    preferences: WindowPreferences = ()


class TimePreference(RequestValue, frozen=True, kw_only=True):
    """A `weight` for common starts within ``[start, end)``; weights of several windows add up."""

    start: int
    end: int
    weight: float


class WithDuration(Protocol):
    """A request, as far as the times of its stages depend on it."""

    @property
    def duration_s(self) -> int: ...


def term_interval(request: WithDuration, term: Term, start: int) -> Interval:
    """Return when `term` takes its resources if the common start is `start`."""
    begin = start + term.offset_s
    return Interval(begin, begin + (term.duration_s or request.duration_s))


def span_of(request: WithDuration, alternative: Alternative) -> tuple[int, int]:
    """Return the span of one `alternative`, see `span`."""
    stages = [term_interval(request, term, 0) for term in alternative.terms]
    return min(stage.start for stage in stages), max(stage.end for stage in stages)


def has_windows(alternative: Alternative) -> bool:
    """Return whether any window is demanded or preferred in `alternative`."""
    return any(part.windows or part.preferences for part in parts_of(alternative))


def parts_of(alternative: Alternative) -> tuple[Alternative | Term, ...]:
    """Return `alternative` and its terms: the parts that may have windows."""
    return alternative, *alternative.terms
