"""Calls about series: a request at every occurrence of a recurrence rule."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Key, RequestId, ResourceName, TimeS, Units, WaitMs
from kalends.contract.request_views import RequestState
from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.errors import Problem, Refusal
from kalends.core.repeat import TEXT_MAX
from kalends.core.requests import Request

SeriesMode = Literal["all", "as-many"]
"""Book all occurrences or none; or each that can be had, whatever becomes of the others."""

Day = Annotated[str, Meta(pattern=ids.whole(ids.DAY_PATTERN))]


class BookSeries(Body, frozen=True, kw_only=True):
    """Book `request` at every occurrence of `rule`, an RFC 5545 rule with an end, in `zone`.

    The request has a fixed start. The rule counts from there: its local date and hour in `zone`. Occurrences
    on the days `skip` are left out. Each may begin up to `give_s` earlier or later. Occurrences beyond an
    owner's horizon are refused before anything is booked, unless the series is to `keep_going`: each is then
    asked for as soon as the horizon allows. `key` makes the call repeatable, as that of a single booking. The
    answer comes after at most `wait_ms`; what is not decided by then continues.
    """

    key: Key
    request: Request
    rule: Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
    zone: Annotated[str, Meta(min_length=1, max_length=64)]
    mode: SeriesMode = "all"
    skip: Annotated[tuple[Day, ...], Meta(max_length=limits.SERIES_MAX)] = ()
    give_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0
    keep_going: bool = False
    wait_ms: WaitMs = 30_000


class FindSeries(Body, frozen=True, kw_only=True):
    """Find the hours at which the most occurrences of `rule` suit `request` now; nothing is booked.

    The first occurrence begins at or after the earliest start of the request, in the first week that the
    rule allows. Each occurrence lies between `opens_s` and `closes_s` of its local day in `zone` (seconds on
    its clock). Days `skip` are left out.
    """

    request: Request
    rule: Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
    zone: Annotated[str, Meta(min_length=1, max_length=64)]
    opens_s: Annotated[int, Meta(ge=0, lt=86_400)] = 0
    closes_s: Annotated[int, Meta(gt=0, le=86_400)] = 86_400
    skip: Annotated[tuple[Day, ...], Meta(max_length=limits.SERIES_MAX)] = ()
    count: Annotated[int, Meta(ge=1, le=100)] = 5


class SeriesRef(Body, frozen=True, kw_only=True):
    id: RequestId


class RetrySeries(Body, frozen=True, kw_only=True):
    """Book again what could not be had, as much as possible; a repeated call books nothing twice."""

    id: RequestId
    wait_ms: WaitMs = 30_000


class CancelSeries(Body, frozen=True, kw_only=True):
    """Cancel the occurrence of this name, with `following` also all later ones; "": all.

    What is over stays as it is.
    """

    id: RequestId
    occurrence: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.LOCAL_PATTERN)))] = ""
    following: bool = False
    wait_ms: WaitMs = 30_000


class ChangeSeries(Body, frozen=True, kw_only=True):
    """Change the occurrence of this name, with `following` also all later ones; "": all.

    ``move`` takes one of `start`, that of the named occurrence, and `by_s`, which may be negative: each
    occurrence is moved by the same time of the local clock in the zone of the series. ``extend`` and
    ``shrink`` take one of `by_s` and `duration_s`; ``shrink`` also takes `units`, the amounts that are kept.
    What has begun stays as it is, unless it is named. Occurrences that wait for an owner's horizon are
    changed, too.

    A series that was booked all or none is changed all or none. `key` makes the call repeatable.
    """

    id: RequestId
    key: Key
    what: Literal["move", "extend", "shrink"]
    occurrence: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.LOCAL_PATTERN)))] = ""
    following: bool = False
    start: TimeS = 0
    by_s: Annotated[int, Meta(ge=-limits.DURATION_S_MAX, le=limits.DURATION_S_MAX)] = 0
    duration_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0
    units: Annotated[dict[ResourceName, Units], Meta(max_length=limits.TERMS_MAX)] = {}
    wait_ms: WaitMs = 30_000


class SeriesHour(Answer, frozen=True, kw_only=True):
    """A series whose first occurrence begins at the local time `first` would have `fits` of `of` occurrences.

    The same holds for each later start of that day until `last`. `missed` are the local days of the others;
    `start` is the instant of `first` (seconds UTC).
    """

    first: str
    last: str
    start: int
    fits: int
    of: int
    missed: tuple[str, ...] = ()


class SeriesHours(Answer, frozen=True, kw_only=True):
    """The best hours for a series, those with the fewest misses first; among equals the earliest.

    There are none if no occurrence fits at any. Hours were tried every `step_s`. If some lie beyond the
    horizon of a resource, that is `horizon_of`, and bookings end by `bookable_until` (seconds UTC).
    `refusals` say which sites could not be asked.
    """

    hours: tuple[SeriesHour, ...]
    step_s: int
    horizon_of: str = ""
    bookable_until: int = 0
    refusals: tuple[Refusal, ...] = ()


class OccurrenceView(Answer, frozen=True, kw_only=True):
    """An occurrence: `name` is its local time by the rule, `nominal` that instant (seconds UTC).

    `id` is its newest request ("": it was not asked for yet), from `start` to `end`. `problem` is the reason
    if it could not be had, `nearest` the nearest start that was free just now (seconds UTC; 0: none, or not
    looked for). `opens`: it is asked for then, once an owner's horizon allows (0: it was asked for).
    `changing` is the id of a change of it that is under way. `unchanged` is the reason if this call was to
    change it and could not: it stands as it was.
    """

    name: str
    nominal: int
    id: str = ""
    state: RequestState | Literal["not-asked"] = "not-asked"
    start: int = 0
    end: int = 0
    problem: Problem | None = None
    nearest: int = 0
    opens: int = 0
    changing: str = ""
    unchanged: Problem | None = None


class SeriesView(Answer, frozen=True, kw_only=True):
    """A series, with its occurrences in order."""

    id: str
    user: str
    text: str
    rule: str
    zone: str
    mode: SeriesMode
    duration_s: int
    created_at: int
    note: str = ""
    give_s: int = 0
    keeps_going: bool = False
    occurrences: tuple[OccurrenceView, ...]
