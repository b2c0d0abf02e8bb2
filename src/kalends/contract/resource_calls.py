"""Calls about resources and their calendars: a site answers for its own, a broker asks its sites."""

from __future__ import annotations

from datetime import UTC
from typing import Literal

from kalends.contract.bodies import Answer, Body, NotebookForm
from kalends.contract.fields import ResourceName, TimeS
from kalends.core.full_times import date_and_time
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
    caller, in words. `now` is the time of the answer: before it nothing is free, and nothing closed.
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

    def __repr__(self) -> str:
        # Imported here because only people at a terminal ask for it.
        from kalends.core.markup import local_time

        start, end = local_time(self.start, UTC), local_time(self.end, UTC)
        when = f"{date_and_time(start)} to {date_and_time(end)} UTC"
        return f"<CalendarView {self.resource.name}: {when}, {len(self.slots)} slots taken>"
