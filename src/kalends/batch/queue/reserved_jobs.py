"""Jobs that run in reservations: each reservation has a small queue of its own, on its own nodes.

A slot is what a reservation has locked of the machine: nodes, from its start to its end. A job runs in one
slot. It begins when its nodes are free there for all of its time, in order of submission: who is behind may
begin before only if that delays nobody in front. When the reservation is moved, its jobs go with it. A job
with a fixed start has a slot of its own.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kalends.batch.queue.facts import NodeClaim
from kalends.batch.queue.job import BatchJob
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.jobs import JobRequest
from kalends.scheduling.profile import Profile

PLANNED_MAX: Final = 500
"""At most this many jobs that wait in one reservation are planned; the rest wait behind them."""


LATE_S_MAX: Final = 60
"""A job may begin so much later than its time allows, and has so much less: a site is not always there in
the second in which a reservation begins."""


UNUSED: Final = "was not used in time, and its nodes were given to others"
DONE: Final = "was for a job in step, which has ended here"


class Reserved(NamedTuple):
    """A reservation of a user. Nobody's jobs run in what another user says to be the same."""

    id: str
    user: str


class PlannedStart(NamedTuple):
    job: BatchJob
    slot: NodeClaim
    start_s: int


@dataclass(slots=True)
class ReservedJobs:
    """Slots, and the jobs for them that are not over. `width` says how many nodes a job really takes."""

    width: Callable[[JobRequest], int]
    slots: dict[int, NodeClaim] = field(default_factory=dict)
    """By the booking in the calendar; those that are over are forgotten when something changes."""
    _of: dict[Reserved, list[NodeClaim]] = field(default_factory=dict)
    """By their reservation, in order of their starts."""
    _jobs: dict[Reserved, dict[int, BatchJob]] = field(default_factory=dict)
    _able_until: dict[Reserved, int] = field(default_factory=dict)
    """Until then each of its jobs that waits could begin in one of its slots, as these are now."""
    _past: OrderedDict[Reserved, str] = field(default_factory=OrderedDict)
    """Why a reservation has no slot any more."""

    def check(self, user: str, request: JobRequest, now: int) -> None:
        """Raise where a job of `user` can never run in the reservation that it names.

        `NotFound` without such a reservation of theirs here, `Conflict` if it is over or gone, `InvalidInput`
        for more nodes or time than it has.
        """
        reserved = Reserved(request.reservation, user)
        own = self._of.get(reserved, ())
        if not own:
            raise self._gone(reserved)
        left = [each for each in own if each.end > now]
        if not left:
            raise Conflict(
                "that reservation has ended", where="reservation", remedy="book another one"
            )
        length_s = max(time_of(request), _least_s(request))
        if any(self._can_hold(request, each, now, length_s) for each in left):
            return
        offers = ", ".join(
            f"{each.nodes} nodes for {format_duration(each.end - max(each.start, now))}"
            for each in left
        )
        raise InvalidInput(
            f"the job does not fit into that reservation, which has {offers}",
            where="reservation",
            remedy="ask for fewer nodes or less time, or extend the reservation",
        )

    def add(self, job: BatchJob) -> None:
        """Take a job that waits, for the first time or again."""
        reserved = _reserved(job)
        self._jobs.setdefault(reserved, {})[job.number] = job
        self._able_until.pop(reserved, None)

    def drop(self, job: BatchJob) -> None:
        """Forget a job that is over."""
        jobs = self._jobs[_reserved(job)]
        del jobs[job.number]
        if not jobs:
            del self._jobs[_reserved(job)]
            self._able_until.pop(_reserved(job), None)

    def has_jobs(self, reserved: Reserved) -> bool:
        """Return whether jobs of a reservation wait or run."""
        return reserved in self._jobs

    # The calendar

    def slots_of(self, reserved: Reserved) -> tuple[NodeClaim, ...]:
        """Return the slots of a reservation, in order of their starts."""
        return tuple(self._of.get(reserved, ()))

    def give_back(self, slot: NodeClaim, why: str = UNUSED) -> None:
        """Close this slot to jobs: it was not used in time, or all its jobs have run."""
        self._take_out(slot.booking)
        if reserved_by(slot) not in self._of:
            self._remember(reserved_by(slot), why)

    def change(
        self, gone: Collection[int], came: Collection[NodeClaim], now: int
    ) -> list[BatchJob]:
        """Take other slots.

        Return the jobs on nodes whose slots are gone before their end. `stay` says which of them have a place
        in others.
        """
        lost = {booking: self._take_out(booking) for booking in gone if booking in self.slots}
        for each in came:
            if each.reservation:
                self._put_in(each)
        over = [each for each in self.slots.values() if each.end <= now]
        for each in over:
            self._take_out(each.booking)
        for each in (*lost.values(), *over):
            if (reserved := reserved_by(each)) not in self._of:
                self._remember(reserved, "has ended" if each.end <= now else "was cancelled")
        return [
            job
            for jobs in self._jobs.values()
            for job in jobs.values()
            if job.on_nodes and job.slot in lost and lost[job.slot].end > now
        ]

    def stay(
        self, jobs: Iterable[BatchJob], came: Iterable[NodeClaim], now: int
    ) -> dict[int, list[BatchJob]]:
        """Return which `jobs` stay on their nodes in which of the slots that came: who began first."""
        left = sorted(jobs, key=lambda job: (job.started_s, job.number))
        found: dict[int, list[BatchJob]] = {}
        for slot in came:
            nodes = slot.nodes if slot.start <= now < slot.end else 0
            for job in list(left):
                if _reserved(job) == reserved_by(slot) and len(job.nodes) <= nodes:
                    nodes -= len(job.nodes)
                    found.setdefault(slot.booking, []).append(job)
                    left.remove(job)
        return found

    # The small queues

    def hopeless(self, now: int) -> list[tuple[BatchJob, str]]:
        """Return the jobs that can never begin any more, with the reason."""
        found = []
        for reserved, jobs in self._jobs.items():
            if now <= self._able_until.get(reserved, -1):
                continue
            slots = [each for each in self._of.get(reserved, ()) if each.end > now]
            why = self._past.get(reserved, "has ended")
            why = "has no nodes or no time left for it" if slots else why
            until_s = limits.TIME_S_MAX
            for job in jobs.values():
                if job.on_nodes:
                    continue
                latest_s = max([self._latest_s(job.request, each) for each in slots], default=-1)
                if latest_s < now:
                    what = "reservation" if job.request.reservation else "time"
                    found.append((job, f"its {what} {why}"))
                else:
                    until_s = min(until_s, latest_s)
            self._able_until[reserved] = until_s
        return found

    def _latest_s(self, request: JobRequest, slot: NodeClaim) -> int:
        """Return the last second in which such a job could begin in a slot; -1: it has too few nodes."""
        if self.width(request) > slot.nodes or slot.end - slot.start < _least_s(request):
            return -1
        return slot.end - _least_s(request)

    def ready(self, now: int) -> list[tuple[BatchJob, NodeClaim]]:
        """Return the queued jobs that can begin now, in which slots."""
        return [
            (job, slot)
            for reserved, jobs in self._jobs.items()
            if any(_has_room(slot, jobs.values(), now) for slot in self._of.get(reserved, ()))
            for job, slot, start_s in self._planned_in(reserved, now)
            if start_s <= now
        ]

    def planned(self, now: int) -> Iterator[PlannedStart]:
        """Yield when queued jobs begin at the latest: if those before them take all their time."""
        for reserved in self._jobs:
            yield from self._planned_in(reserved, now)

    def _planned_in(self, reserved: Reserved, now: int) -> Iterator[PlannedStart]:
        jobs = self._jobs[reserved]
        waiting = sorted(number for number, job in jobs.items() if job.phase == "queued")
        slots = [each for each in self._of.get(reserved, ()) if each.end > now] if waiting else []
        free = [_free_in(slot, jobs.values(), now) for slot in slots]
        for number in waiting[:PLANNED_MAX]:
            job = jobs[number]
            nodes = self.width(job.request)
            for slot, profile in zip(slots, free, strict=True):
                start_s = _start_in(slot, profile, nodes, job.request, now)
                if start_s is not None:
                    profile.take(nodes, start_s, slot_end_of(job.request, slot, start_s))
                    yield PlannedStart(job, slot, start_s)
                    break

    def next_due_s(self, now: int) -> int | None:
        """Return when a slot with jobs begins or ends next; None: never."""
        times = [
            time_s
            for reserved in self._jobs
            for slot in self._of.get(reserved, ())
            for time_s in (slot.start, slot.end)
            if time_s > now
        ]
        return min(times, default=None)

    def _can_hold(self, request: JobRequest, slot: NodeClaim, now: int, length_s: int) -> bool:
        fits = self.width(request) <= slot.nodes
        return fits and slot.end - max(slot.start, now) >= length_s

    def _put_in(self, slot: NodeClaim) -> None:
        self.slots[slot.booking] = slot
        self._able_until.pop(reserved_by(slot), None)
        there = self._of.setdefault(reserved_by(slot), [])
        insort(there, slot, key=lambda each: (each.start, each.booking))

    def _take_out(self, booking: int) -> NodeClaim:
        slot = self.slots.pop(booking)
        self._able_until.pop(reserved_by(slot), None)
        there = self._of[reserved_by(slot)]
        there.remove(slot)
        if not there:
            del self._of[reserved_by(slot)]
        return slot

    def _remember(self, reserved: Reserved, why: str) -> None:
        self._past[reserved] = why
        if len(self._past) > limits.JOBS_REMEMBERED_MAX:
            self._past.popitem(last=False)

    def _gone(self, reserved: Reserved) -> Conflict | NotFound:
        why = self._past.get(reserved)
        if why is None:
            return NotFound(
                "no reservation of yours with this id has nodes of this machine",
                where="reservation",
                remedy="kalends list shows your reservations, with their resources",
            )
        return Conflict(f"that reservation {why}", where="reservation", remedy="book another one")


def _reserved(job: BatchJob) -> Reserved:
    return Reserved(job.reservation, job.principal.user)


def reserved_by(slot: NodeClaim) -> Reserved:
    """Return whose reservation a slot is of."""
    return Reserved(slot.reservation, slot.user)


def slot_end_of(request: JobRequest, slot: NodeClaim, start_s: int) -> int:
    """Return when the time of a job is over that begins at `start_s` in a slot."""
    return min(start_s + time_of(request), slot.end) if time_of(request) else slot.end


def time_of(request: JobRequest) -> int:
    """Return the longest time of a job on its nodes; 0: until its slot ends."""
    return request.limit_on(request.nodes)


def _least_s(request: JobRequest) -> int:
    """Return the time without which a job does not begin: a little less than it asks for, if it is late."""
    if time_of(request) and not request.at:
        return max(time_of(request) - LATE_S_MAX, 1)
    return request.warning.before_s + 1 if request.warning and not request.at else 1


def _has_room(slot: NodeClaim, jobs: Iterable[BatchJob], now: int) -> bool:
    """Return whether any of its nodes are free now."""
    if not slot.start <= now < slot.end:
        return False
    return slot.nodes > sum(
        len(job.nodes) for job in jobs if job.on_nodes and job.slot == slot.booking
    )


def _free_in(slot: NodeClaim, jobs: Iterable[BatchJob], now: int) -> Profile:
    begin = max(slot.start, now)
    busy = [
        (now, max(job.until_s, now + 1), len(job.nodes))
        for job in jobs
        if job.on_nodes and job.slot == slot.booking
    ]
    return Profile.of(begin, slot.nodes, busy)


def _start_in(
    slot: NodeClaim, free: Profile, nodes: int, request: JobRequest, now: int
) -> int | None:
    begin = max(slot.start, now)
    if time_of(request):
        start_s = free.within(nodes, time_of(request), begin, slot.end)
        if start_s is not None:
            return start_s
    for time_s in (begin, *(each for each in free.times if begin < each < slot.end)):
        if free.fits(nodes, time_s, slot.end) and slot.end - time_s >= _least_s(request):
            return time_s
    return None
