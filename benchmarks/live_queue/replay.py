"""A log told to the queue of a machine as its site would tell it, on a virtual clock.

What the simulator knows at once the queue is told, event by event: jobs are submitted as requests, shepherds
begin, programs end and stand still, time passes. In one second submissions come first, then ends in the order
in which the programs began, then the mere passing of time: as in `kalends.simulation.kernel`.

One rule tells a live machine from a simulated one. There a job that has used its whole time is gone in that
very second, before its end was told; here it has its nodes until it is told, and is expected a little later.
`short_of_limits` makes a log in which nobody runs to the limit: on such logs both start the same jobs at the
same times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import structs

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Continue, Resize, StandStill, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.registry import looks_at_priorities
from kalends.scheduling.reservations import Reservation
from kalends.simulation.job import SimulatedJob

MACHINE: Final = "lab/box"
PRIORITIES: Final = range(16)
"""Numbers of priority that a log's jobs may have; each is a class of the machine."""


class Started(NamedTuple):
    """A job of the log, by its number there, has got nodes."""

    job: int
    now: int
    nodes: int


class Event(NamedTuple):
    """What the queue was told at `now`, and what it has started for that."""

    now: int
    submitted: int
    """The number, in the queue, of a job that was submitted; 0: something else has happened."""
    started: tuple[Started, ...]


class _End(NamedTuple):
    now: int
    begun: int
    """The number of its start: what breaks ties."""
    number: int


def short_of_limits(jobs: Iterable[SimulatedJob]) -> Iterator[SimulatedJob]:
    """Return the jobs anew; each asks for a second more where it would use all that it asked for."""
    for job in jobs:
        changed = copy(job)
        changed.requested_s = max(job.requested_s, job.run_s + 1)
        yield changed


def terms_of(policy: str, machine: str, shares: Mapping[int, int]) -> f.Terms:
    """Return terms without any limits, with the shares of users by their numbers."""
    return f.Terms(
        machine=machine,
        policy=policy,
        classes={f"p{number}": number for number in PRIORITIES},
        default_class="p0",
        class_members={f"p{number}": ("everyone",) for number in PRIORITIES},
        fair_share=f.FairShares(shares={_name(user): share for user, share in shares.items()}),
    )


def _name(user: int) -> str:
    return f"user{user}"


class LiveReplay:
    """One log on one machine under one policy: `events` lets it happen.

    `jobs` are in order of submission; `shares` are those of their users, 1 if not given. `store` is
    given the facts of each event, as the site's store is. With `restarted`, the queue is made anew after
    so many facts each time, from the bytes of all of them.
    """

    def __init__(
        self,
        jobs: Iterable[SimulatedJob],
        *,
        policy: str,
        machine: str,
        reservations: Sequence[Reservation] = (),
        shares: Mapping[int, int] = MappingProxyType({}),
        store: Callable[[Sequence[f.JournalEntry]], object] = len,
        restarted: int = 0,
    ) -> None:
        self._arrivals = iter(jobs)
        self._store = store
        self._restarted = restarted
        self._next = next(self._arrivals, None)
        self.numbers: dict[int, int] = {}
        """The number of each job in the queue, by its number in the log."""
        self._jobs: dict[int, SimulatedJob] = {}
        self._ends: list[_End] = []
        self._ends_s: dict[int, int] = {}
        self._runs: dict[int, int] = {}
        """The number of each job's run that counts."""
        self.pauses: dict[int, list[tuple[int, int]]] = {}
        """When jobs of the log stood still, by their numbers there."""
        self._left_s: dict[int, int] = {}
        """How long each job that stands still would run yet."""
        self._begun = 0
        self._stored: list[tuple[int, int, bytes]] = []
        self._facts = 0
        began_s = self._next.submit_s if self._next else 0
        self.queue = self._opened(terms_of(policy, machine, shares), began_s)
        self._reserve(reservations)

    def events(self) -> Iterator[Event]:
        """Let the log happen, event by event."""
        while (now := self._next_event_s()) is not None:
            yield from self._happened(now)

    def starts(self) -> dict[int, Started]:
        """Let all of the log happen; return the start of each job."""
        return {start.job: start for event in self.events() for start in event.started}

    def _next_event_s(self) -> int | None:
        """Return when something happens; None: never, for no job is left."""
        if self._next is None and not self.queue.flow.table.jobs:
            return None
        due_s = self.queue.next_due_s()
        times = [] if due_s is None else [due_s]
        times += [end.now for end in self._ends[:1]]
        if self._next is not None:
            times.append(self._next.submit_s)
        return min(times)

    def _happened(self, now: int) -> Iterator[Event]:
        """Tell the submissions of this second, and then the next end, or that it has come."""
        while self._next is not None and self._next.submit_s <= now:
            number = self._submit(self._next, now)
            self._next = next(self._arrivals, None)
            yield Event(now, number, self._carry_out(now))
        if self._ends and self._ends[0].now <= now:
            _, begun, number = heappop(self._ends)
            if begun != self._runs[number]:
                return
            job = self._jobs.pop(number)
            kind: f.EndKind = "limit" if job.run_s >= job.requested_s else "exit"
            self.queue.ended(number, 1, f.JobEnding(kind=kind, ran_s=job.run_s), now)
        else:
            self.queue.advance(now)
        yield Event(now, 0, self._carry_out(now))

    def _submit(self, job: SimulatedJob, now: int) -> int:
        request, key = request_of(job), f"key-{job.id:08}"
        if not looks_at_priorities(self.queue.flow.policy):
            request = structs.replace(request, priority="")
        number, _ = self.queue.submit(Principal(_name(job.user)), request, key, now)
        self._jobs[number] = job
        self.numbers[job.id] = number
        return number

    def _carry_out(self, now: int) -> tuple[Started, ...]:
        """Store the facts, do what was decided, and tell what has come of it."""
        started: list[Started] = []
        while actions := self._stored_effects():
            for action in actions:
                if isinstance(action, Start):
                    started.append(self._begin(action, now))
                elif isinstance(action, Resize):
                    self._expect_end(action.job.number)
                elif isinstance(action, StandStill):
                    self._stand(action, now)
                elif isinstance(action, Continue):
                    self._let_go_on(action, now)
        if self._restarted and self._facts >= self._restarted:
            self._facts = 0
            self.queue = self._opened(None, now)
        return tuple(started)

    def _begin(self, start: Start, now: int) -> Started:
        number, job = start.job.number, self._jobs[start.job.number]
        self._ends_s[number] = now + job.run_s
        self._expect_end(number)
        self.queue.begun(number, start.attempt, now)
        return Started(job.id, now, len(start.nodes))

    def _stand(self, stop: StandStill, now: int) -> None:
        number = stop.job.number
        self._left_s[number] = self._ends_s[number] - now
        self._begun += 1
        self._runs[number] = self._begun
        self.pauses.setdefault(self._jobs[number].id, []).append((now, -1))
        self.queue.stopped(number, stop.attempt, stop.stop, now)

    def _let_go_on(self, action: Continue, now: int) -> None:
        number = action.job.number
        pauses = self.pauses[self._jobs[number].id]
        pauses[-1] = pauses[-1][0], now
        self._ends_s[number] = now + self._left_s.pop(number)
        self._expect_end(number)

    def _expect_end(self, number: int) -> None:
        """Let a job that gets nodes, or is to change, end after all that end in that second before it."""
        self._begun += 1
        self._runs[number] = self._begun
        heappush(self._ends, _End(self._ends_s[number], self._begun, number))

    def _stored_effects(self) -> list[Action]:
        effects = self.queue.take_effects()
        self._store(effects.entries)
        self._facts += len(effects.entries)
        if self._restarted:
            self._stored += [
                (entry.number, entry.now, f.encode_fact(entry.fact)) for entry in effects.entries
            ]
        return effects.actions

    def _opened(self, terms: f.Terms | None, now: int) -> BatchQueue:
        entries = [
            f.JournalEntry(number, at_s, f.decode_fact(body)) for number, at_s, body in self._stored
        ]
        return BatchQueue(MACHINE, terms, now, entries)

    def _reserve(self, reservations: Collection[Reservation]) -> None:
        """Claim them in order of time, as the simulator gives them nodes; before anything else."""
        claims = [
            f.NodeClaim(number, each.start_s, each.end_s, each.nodes)
            for number, each in enumerate(sorted(reservations), 1)
        ]
        self.queue.claims_changed((), claims, self.queue.last_s)
        self._carry_out(self.queue.last_s)


def request_of(job: SimulatedJob) -> JobRequest:
    """Return what the user of a log's job would have asked for."""
    molds = job.molds
    limits_s = molds.requested_s if molds is not None and not molds.scales else ()
    return JobRequest(
        machine=MACHINE,
        nodes=job.nodes,
        sizes=molds.sizes if molds is not None else (),
        malleable=molds is not None and molds.malleable,
        shape=job.shape,
        limit_s=max(limits_s, default=job.requested_s),
        limits_s=limits_s,
        command=("true",),
        priority=f"p{job.priority}",
        terminal=job.interactive,
    )
