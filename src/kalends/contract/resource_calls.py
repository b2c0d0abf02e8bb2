"""Calls about resources, calendars and possible starts: a site answers for its own, a broker asks sites."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body, NotebookForm
from kalends.contract.fields import ResourceName, TimeS
from kalends.contract.request_views import ClaimView
from kalends.core.errors import Refusal
from kalends.core.full_times import date_and_time
from kalends.core.requests import Request
from kalends.core.resources import ResourceInfo, Slot


class ListResources(Body, frozen=True, kw_only=True):
    pass


class SiteStatus(Answer, frozen=True, kw_only=True):
    """A site as the broker sees it, with the broker's experience of its bids for jobs.

    The site answers within `answer_ms` half of the time (0: it was not asked yet), and a job would wait
    there for about `wait_s`. After a missing answer, it is not asked for `rests_s` (0: it is asked). The
    caller's last `learned_jobs` ran for `learned_share` of their limits: those at this site, or at others if
    there were none. `through` are the virtual sites on the way, separated by slashes; "": none. `version` is
    that of its kalends at the last connection ("older": not reported), and `lacks` are features that the
    broker knows and the site does not.
    """

    site: str
    url: str
    state: Literal["up", "down"]
    detail: str = ""
    answer_ms: int = 0
    wait_s: int = 0
    rests_s: int = 0
    through: str = ""
    learned_share: float = 1.0
    learned_jobs: int = 0
    version: str = ""
    lacks: tuple[str, ...] = ()


class Resources(Answer, NotebookForm, frozen=True, kw_only=True):
    resources: tuple[ResourceInfo, ...]
    sites: tuple[SiteStatus, ...] = ()


class ShowCalendar(Body, frozen=True, kw_only=True):
    """Slots of `resource` that touch ``[start, end)``, as the caller may see them."""

    resource: ResourceName
    start: TimeS
    end: TimeS


class CalendarView(Answer, NotebookForm, frozen=True, kw_only=True):
    """`free` lists the units that the caller could book now: ``(start, end, units)``; `slots` the taken ones.

    Complete up to `until`. Not a promise: others may book in the meantime. If a batch system is behind the
    resource, bookings by others there were last seen at `as_of`. `rules` are the owner's rules for the
    caller, in words. `now` is the time of the answer: before it nothing is free, and nothing closed. `prices`
    say what a unit costs the caller: ``(start, end, price)``, in 1/1,000 credit for an hour; none: nothing.
    """

    resource: ResourceInfo
    start: int
    end: int
    until: int
    free: tuple[tuple[int, int, int], ...]
    slots: tuple[Slot, ...]
    as_of: int = 0
    rules: tuple[str, ...] = ()
    now: int = 0
    prices: tuple[tuple[int, int, int], ...] = ()

    def __repr__(self) -> str:
        # Imported here because only people at a terminal ask for it.
        from kalends.core.markup import local_time

        start, end = local_time(self.start, UTC), local_time(self.end, UTC)
        when = f"{date_and_time(start)} to {date_and_time(end)} UTC"
        return f"<CalendarView {self.resource.name}: {when}, {len(self.slots)} slots taken>"


class Find(Body, frozen=True, kw_only=True):
    """Find the best `count` starts at which `request` is free now; nothing is booked.

    With `explain` the answer also prices each start, lists the bookings in the way of better ones, and
    shows how candidates would be polled.
    """

    request: Request
    count: Annotated[int, Meta(ge=1, le=100)] = 5
    explain: bool = False


class Price(Answer, frozen=True, kw_only=True):
    """The cost of a start to others, as far as the caller may see it.

    `idle_unit_s`: units x seconds left in gaps too short for another booking like it, more than
    without it; `delays`: queued requests whose next possible start it would take away; `delayed_jobs` of the
    queues of machines, the longest delay of them being `longest_delay_s`: the client fills these in.
    """

    idle_unit_s: int = 0
    delays: int = 0
    delayed_jobs: int = 0
    longest_delay_s: int = 0


class Candidate(Answer, frozen=True, kw_only=True):
    """A possible start; `weight` is the sum of met preferences, and `alternative` counts from 0.

    `costs` has the price at each site that has prices, in 1/3,600,000 credit of that site.
    """

    start: int
    end: int
    claims: tuple[ClaimView, ...]
    alternative: int = 0
    weight: float = 0.0
    price: Price | None = None
    costs: dict[str, int] = {}


class Obstacle(Answer, frozen=True, kw_only=True):
    """A booking that would have to move, with the others of its list, for a start at `start`."""

    start: int
    resource: str
    slot: Slot


class PollPoint(Answer, frozen=True, kw_only=True):
    """A poll of `polled` candidates: the expected delay, and the chance that they are enough."""

    polled: int
    delay_ms: float
    chance: float


class PollView(Answer, frozen=True, kw_only=True):
    """The polling of one ``N of {...}`` term: `chosen` of `candidates`, of which `needed` must be free.

    `busy` is the learned probability that a candidate is taken; `curve` the cost over the number polled.
    """

    term: int
    needed: int
    candidates: int
    chosen: int
    busy: float
    curve: tuple[PollPoint, ...] = ()


class Found(Answer, NotebookForm, frozen=True, kw_only=True):
    """Possible starts, best first; if there is none, `refusals` name the resources in the way.

    With `explain`, `obstacles` are the fewest bookings, as far as the caller may see them, that would have
    to move: for any start at all, or for the best one that the owners' rules allow, if that is better than
    all candidates. Without `fewest`, these are enough, but fewer might be. No obstacles means that none were
    found within the work allowed for one call. `as_of` is when sites last saw the bookings in the batch
    systems behind the candidates' resources. `approval` are the candidates' resources whose owners must
    approve the caller's bookings.
    """

    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    fewest: bool = True
    polls: tuple[PollView, ...] = ()
    as_of: dict[str, int] = {}
    approval: tuple[str, ...] = ()
