"""The start of every waiting job under any policy: a frozen copy of the scheduler runs on without new jobs.

Gehring and Ramme 1996 (section 4.1) freeze the waiting room; Smith, Taylor and Foster 1999 simulate the
scheduler forward with predicted run times. Here the policy itself is copied and run, so a prediction is
exact for every policy if the run times are right and no job is submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from heapq import heappop, heappush
from typing import Any, Final

import msgspec

from kalends.core.errors import Conflict
from kalends.scheduling.job import Job, until_after_change
from kalends.scheduling.policy import places_of
from kalends.scheduling.profile import NEVER
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler

EVENTS_MAX: Final = 50_000
"""Maximum number of ends and wakes that a prediction looks ahead."""

ExpectedEnd = Callable[[Job, int], int]
"""The expected end of a running job: after now, and at `Job.until_s` at the latest."""


def requested_end(job: Job, now: int) -> int:
    """Return the requested time as the run time of a job."""
    return job.until_s


def expected_change(job: Job, now: int) -> int:
    """Return when a requested change of a job will be done: after the usual time, or a little after now."""
    assert job.before is not None
    assert job.molds is not None
    usual_s = job.before.asked_s + job.molds.reconfiguration_s
    return usual_s if usual_s >= now else usual_s + (1 << (now - usual_s).bit_length())


def predicted_starts(
    scheduler: Scheduler,
    now: int,
    *,
    expected_end: ExpectedEnd = requested_end,
) -> dict[Job, int]:
    """Return when each waiting job starts if no more are submitted and all run as expected.

    `now` is the time of the last event. Exact if run times are the requested ones, and otherwise exact
    for a machine on which the expected ends come true. The scheduler is not changed. Jobs that do not
    start within `EVENTS_MAX` events, or never, are left out; those predicted are in order of submission.
    """
    if expected_end is requested_end:
        known = _known_starts(scheduler, now)
        if known is not None:
            return known
    future = Future(scheduler, now, expected_end)
    waiting = list(scheduler.policy.waiting())
    unknown = {future.copy_of(job) for job in waiting}
    for _ in range(EVENTS_MAX):
        if not unknown or not future.step():
            break
        unknown.difference_update(future.touched)
    starts = [(job, future.start_of(job)) for job in waiting]
    return {job: start_s for job, start_s in starts if start_s is not None}


def predicted_start(
    scheduler: Scheduler,
    job: Job,
    now: int,
    *,
    expected_end: ExpectedEnd = requested_end,
) -> int | None:
    """Return the same for one waiting job, and stop as soon as it starts.

    None if it does not start within `EVENTS_MAX` events.
    """
    if expected_end is requested_end:
        known = _known_starts(scheduler, now)
        if known is not None:
            return known[job]
    future = Future(scheduler, now, expected_end)
    copied = future.copy_of(job)
    for _ in range(EVENTS_MAX):
        if not future.step():
            return None
        if copied.granted:
            return future.now
    return None


class Future:
    """A copy of a scheduler that runs on, event by event; the original is never touched."""

    def __init__(self, scheduler: Scheduler, now: int, expected_end: ExpectedEnd) -> None:
        self.now = now
        self.touched: list[Job] = []
        """Jobs that started, stopped or changed at the last event."""
        self._copies = copied_jobs(scheduler)
        self._scheduler = scheduler.frozen(self._copies)
        self._expected_end = expected_end
        self._began: dict[Job, int] = {}
        running = self._scheduler.cluster.ends
        self._ends: list[tuple[int, int, Job, bool]] = []
        """Next events of running jobs: time, number of the run, and whether it is a change of size."""
        self._valid: dict[int, int] = {}
        self._begun = 0
        # Ends of the same second come in the order in which the runs began.
        for job in sorted((job for _, _, job in running), key=lambda job: (job.start_s, job.order)):
            self._run(job)
        # An end that is due now may be outstanding: it comes after all other events of its second.
        self._wake_s = self._scheduler.wake_at(now - 1)
        if any(job.stopping for _, _, job in scheduler.cluster.ends):
            # Other jobs wait for their nodes.
            self._wake_s = now

    def copy_of(self, job: Job) -> Job:
        """Return the copy of a job of the original scheduler."""
        copied: Job = self._copies[id(job)]
        return copied

    def start_of(self, job: Job) -> int | None:
        """Return the start in the copy of a job that waits in the original; None if it has not started."""
        return self._began.get(self.copy_of(job))

    def step(self) -> bool:
        """Proceed to the next event; return false if there is none."""
        wake_s, ends = self._wake_s, self._ends
        while ends and self._valid.get(ends[0][2].order) != ends[0][1]:
            heappop(ends)
        if wake_s is not None and (not ends or wake_s < ends[0][0]):
            self.now, self._wake_s = max(wake_s, self.now), None
            self.touched = self._scheduler.wake(self.now)
        elif ends:
            time_s, _, job, changes = heappop(ends)
            del self._valid[job.order]
            self.now = max(time_s, self.now)
            self.touched = self._change(job) if changes else self._scheduler.end(job, self.now)
        else:
            return False
        for job in self.touched:
            self._resume(job)
        if self._wake_s != self.now:
            self._wake_s = self._scheduler.wake_at(self.now)
        return True

    def _resume(self, job: Job) -> None:
        if not job.granted:
            self._valid.pop(job.order, None)
            return
        self._began.setdefault(job, self.now)
        self._run(job)

    def _run(self, job: Job) -> None:
        """Expect the next event of a running job: its end, or its requested change."""
        molds = job.molds
        if molds is not None and molds.when_begun and not molds.malleable:
            job.molds = msgspec.structs.replace(molds, malleable=True)
        end_s = self._expected_end(job, self.now)
        change_s = expected_change(job, self.now) if job.target else NEVER
        self._begun += 1
        self._valid[job.order] = self._begun
        heappush(self._ends, (min(end_s, change_s), self._begun, job, change_s <= end_s))

    def _change(self, job: Job) -> list[Job]:
        assert job.molds is not None
        until_s = until_after_change(job, job.molds.reconfiguration_s, self.now)
        touched = self._scheduler.resized(job, self.now, until_s)
        if job not in touched:
            self._run(job)
        return touched


def copied_jobs(scheduler: Scheduler) -> dict[int, Any]:
    """Return a memo for `Scheduler.frozen` with the jobs, which are most of what a scheduler holds."""
    running = scheduler.cluster.ends
    copies: dict[int, Any] = {id(job): copy(job) for job in scheduler.policy.waiting()}
    copies.update((id(job), copy(job)) for _, _, job in running)
    copies[id(running)] = [(until_s, order, copies[id(job)]) for until_s, order, job in running]
    return copies


def _known_starts(scheduler: Scheduler, now: int) -> dict[Job, int] | None:
    """Return the starts known to the policy by its method ``known_starts(now)``, if it has one."""
    ask = getattr(scheduler.policy, "known_starts", None)
    known: Iterator[tuple[Job, int]] | None = None if ask is None else ask(now)
    return None if known is None else dict(known)


def delays(
    scheduler: Scheduler, wanted: Reservation, now: int, starts: Mapping[Job, int]
) -> dict[int, int] | None:
    """Return by how much waiting jobs, by id, would start later with a `wanted` reservation.

    `starts` are their starts without it (`predicted_starts`), `now` is the time of the last event. All jobs
    are assumed to take their requested time, and no more to be submitted. A job that would no longer start is
    left out. None if running jobs or other reservations leave the reservation no room. The scheduler is not
    changed.
    """
    copies = copied_jobs(scheduler)
    twin = scheduler.frozen(copies)
    cluster = twin.policy.cluster
    cluster.live = True
    try:
        cluster.reserve(wanted, now, planned=places_of(twin.policy))
    except Conflict:
        return None
    finally:
        cluster.live = False
    twin.wake(now)
    with_it = {job.id: start_s for job, start_s in predicted_starts(twin, now).items()}
    return {
        job.id: with_it[job.id] - start_s
        for job, start_s in starts.items()
        if with_it.get(job.id, start_s) > start_s
    }
