"""Use of slots by jobs, read from the accounting of batch systems, one period after the other.

Accounts come late, and may be read again: each piece begins a while before the last one ended, and what is
stored has the name of its job, so nothing counts twice. How far they are read is stored with what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kalends.backends.records import ListFinishedJobs, SystemAnswer
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.provision.errands import Errands
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.provision.slot_accounts import SlotAccounts
from kalends.resource_servers.participation.provision.slots import JobsRead, SlotJob
from kalends.resource_servers.participation.provision.systems import Systems

PIECE_S: Final = 86_400
PIECE_S_MIN: Final = 60
"""The time that is read at once; less where an answer does not come, or is too long."""

AGAIN_S: Final = 3_600
"""So much is read again each time: a controller may tell its accounting late of what has ended."""

AFTER_S: Final = 86_400
"""Jobs may outlast their slot for so long."""

GONE_S: Final = 30 * 86_400
"""Accounting that is away for longer is not waited for."""

ANSWER_MS_MAX: Final = 240_000
RETRY_MS: Final = 10_000


@dataclass(eq=False, slots=True)
class _SystemAccounts:
    """Progress of reading the accounting of one system."""

    backend: ResourceBackend
    until: int
    due_ms: int
    piece_s: int = PIECE_S
    reading: bool = False
    known: frozenset[SlotJob] = frozenset()
    """What the last piece had."""
    problem: str = ""


@dataclass(eq=False)
class JobImport:
    """Reads the accounting of each system again and again."""

    errands: Errands
    systems: Systems
    accounts: SlotAccounts
    outbox: ParticipantOutbox
    _of: dict[str, _SystemAccounts] = field(init=False, default_factory=dict)

    def begin(
        self, backends: Iterable[ResourceBackend], until: Mapping[str, int], now: Moment
    ) -> None:
        """Read for `backends` from now on, behind what is read `until` then."""
        for each in backends:
            if each.system not in self._of:
                begin = until.get(each.system, 0)
                known = self._of[each.system] = _SystemAccounts(each, begin, now.monotonic_ms)
                if not each.traits.tells_use:
                    known.problem = "it does not report the usage of jobs"

    def read_until(self, system: str) -> int:
        """Return until when all jobs are known that have ended (seconds UTC); 0 for never."""
        return self._of[system].until

    def problem(self, system: str) -> str:
        """Return why the accounting of `system` is not read, or ""."""
        return self._of[system].problem

    def advance(self, now: Moment) -> None:
        for name, each in self._of.items():
            if not each.reading and each.due_ms <= now.monotonic_ms:
                self._read(name, each, now)

    def next_deadline_ms(self) -> int | None:
        return min((each.due_ms for each in self._of.values() if not each.reading), default=None)

    def _read(self, name: str, one: _SystemAccounts, now: Moment) -> None:
        clock_s = self.systems.clock_s(name, now)
        if not clock_s:
            one.due_ms = now.monotonic_ms + min(one.backend.usage_ms, RETRY_MS)
            return
        tells = one.backend.traits.tells_use
        self.accounts.forget(name, clock_s - GONE_S if tells else clock_s)
        if not tells:
            one.due_ms = now.monotonic_ms + one.backend.usage_ms
            return
        slots = [each for each in self.accounts.of_system(name) if each.start < clock_s]
        waiting = [each.start for each in slots if each.end + AFTER_S > one.until]
        begin = max(one.until, min(waiting, default=clock_s))
        since, until = max(begin - AGAIN_S, 0), min(begin + one.piece_s, clock_s)
        users = sorted({each.account for each in slots if each.end + AFTER_S > since})
        if not users or until <= since:
            if one.until:  # Else nothing was ever read, and nobody knows whether it can be.
                one.until = max(one.until, until)
            one.problem = ""
            one.due_ms = now.monotonic_ms + one.backend.usage_ms
            return
        one.reading = True
        errand = ListFinishedJobs(since, until, tuple(users))

        def then(answer: SystemAnswer, now: Moment) -> None:
            one.reading = False
            if answer.outcome == "done" and answer.jobs is not None:
                self._take(name, one, until, answer, now)
                one.due_ms = now.monotonic_ms + (one.backend.usage_ms if until == clock_s else 0)
            else:
                self._miss(name, one, answer, now)

        self.errands.send(name, errand, now.monotonic_ms + ANSWER_MS_MAX, then)

    def _take(
        self, name: str, one: _SystemAccounts, until: int, answer: SystemAnswer, now: Moment
    ) -> None:
        one.piece_s, one.problem = min(2 * one.piece_s, PIECE_S), ""
        self.outbox.report(f"accounting of batch system {name}", "")
        one.until = max(one.until, until)
        found = []
        for job in answer.jobs or ():
            slot = self.accounts.slot_of(name, job)
            if slot is not None:
                found.append(SlotJob(slot.name, job))
        new = tuple(each for each in found if each not in one.known)
        one.known = frozenset(found)
        self.outbox.store(JobsRead(name, one.until, new))
        self.accounts.forget(name, one.until - AFTER_S - AGAIN_S)

    def _miss(self, name: str, one: _SystemAccounts, answer: SystemAnswer, now: Moment) -> None:
        one.problem = answer.detail or "it does not answer"
        one.due_ms = now.monotonic_ms + one.backend.usage_ms
        if answer.outcome == "unknown":
            one.piece_s = max(one.piece_s // 2, PIECE_S_MIN)
            one.due_ms = now.monotonic_ms + min(one.backend.usage_ms, RETRY_MS)
            told = f"the usage of jobs cannot be read: {one.problem}"
            self.outbox.report(f"accounting of batch system {name}", told)
