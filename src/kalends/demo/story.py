"""The steps of the demo at a facility, and their results.

Everything goes through the public client, as any user's program would do it; `Teller` shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

import kalends
from kalends.client.client import Client
from kalends.contract.calls import CalendarView, Candidate, RequestView, Story
from kalends.contract.job_calls import JobView
from kalends.core.errors import NoCommonTime
from kalends.core.intervals import Interval, align_up
from kalends.core.requests import Alternative, Request, Term
from kalends.demo.facility import DURATION, MACHINE, OPERATOR, TEXT, UNITS, USER, Facility
from kalends.demo.narrator import Teller
from kalends.demo.one_job import run_one
from kalends.demo.together import all_of, until
from kalends.demo.workload import JobBooking, job_bookings

IN_FLIGHT_MAX: Final = 32
MARGIN_S: Final = 4 * 3_600
"""Calendars are shown until this long after the reservation."""


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the demo, for programs; the calendars are those of `UNITS`, in that order."""

    environment: dict[str, str]
    jobs_booked: int
    request: str
    found: Candidate
    before: tuple[CalendarView, ...]
    reservation: RequestView
    after: tuple[CalendarView, ...]
    job: JobView
    story: Story
    cancelled: RequestView
    free_again: dict[str, int]


async def play(
    facility: Facility, teller: Teller, now_s: int, clock: Callable[[], float]
) -> DemoReport:
    """Fill the machine's calendar, co-allocate three resources, run a job as well, and cancel all again.

    Raises the client's errors, and `Unavailable` when a site does not do what the broker says.
    """
    began_s = clock()
    jobs = await fill(facility, now_s)
    teller.filled(jobs, clock() - began_s)
    async with kalends.connect(facility.broker_url, token=facility.token(USER)) as client:
        found = await client.find(TEXT, duration=DURATION, count=1)
        if not found.candidates:
            raise NoCommonTime("no common time for the demo", refusals=found.refusals)
        candidate = found.candidates[0]
        teller.found(candidate)
        shown = Interval(align_up(now_s, 3_600), candidate.end + MARGIN_S)

        before = await _calendars(client, shown)
        teller.before(before)
        booked = await client.book(TEXT, duration=DURATION, note="the demo")
        booked = await until(
            lambda: client.show(booked.id),
            lambda view: all(claim.confirmed for claim in view.claims),
            "the sites have not locked what the broker decided",
        )
        teller.booked(booked)
        reserved = Interval(booked.start, booked.end)
        after = await _calendars(client, shown)
        teller.after(after, reserved)
        seen = await run_one(facility)
        teller.ran(seen)
        story = await client.why(booked.id)
        teller.why(story)

        cancelled = await client.cancel(booked.id)
        again = await until(
            lambda: _calendars(client, shown),
            lambda views: all(
                slot.reservation != booked.id for view in views for slot in view.slots
            ),
            "the sites have not given back what was cancelled",
        )
        free = {view.resource.name: free_units(view, reserved) for view in again}
        teller.cancelled(cancelled, free)
    return DemoReport(
        environment=facility.environment(), jobs_booked=jobs, request=TEXT, found=candidate, before=before,
        reservation=booked, after=after, job=seen.running, story=story, cancelled=cancelled, free_again=free,
    )  # fmt: skip


async def fill(facility: Facility, now_s: int) -> int:
    """Book a day of jobs on `MACHINE` as its operator; how many they were."""
    async with kalends.connect(facility.broker_url, token=facility.token(OPERATOR)) as client:
        listed = (await client.resources()).resources
        grain_s = next(resource.grain_s for resource in listed if resource.name == MACHINE)
        jobs = job_bookings(now_s, grain_s)
        await all_of((client.book(_request(job)) for job in jobs), IN_FLIGHT_MAX)
    return len(jobs)


def free_units(view: CalendarView, interval: Interval) -> int:
    """Return the units that the calendar's reader could book during all of `interval`."""
    inside = [step for step in view.free if Interval(step[0], step[1]).overlaps(interval)]
    covered_s = sum(min(end, interval.end) - max(start, interval.start) for start, end, _ in inside)
    return min(units for _, _, units in inside) if covered_s == interval.length_s else 0


def _request(job: JobBooking) -> Request:
    term = Term(resource=MACHINE, units=job.nodes)
    return Request(
        alternatives=(Alternative(terms=(term,)),),
        duration_s=job.interval.length_s,
        not_before=job.interval.start,
        not_after=job.interval.end,
        note="a job of the machine's users",
    )


async def _calendars(client: Client, shown: Interval) -> tuple[CalendarView, ...]:
    views = (client.calendar(name, start=shown.start, end=shown.end) for name in UNITS)
    return tuple(await all_of(views))
