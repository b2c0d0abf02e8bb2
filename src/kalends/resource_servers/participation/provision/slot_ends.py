"""Jobs in a slot of ours end before it does, so that the next one begins when it was promised.

A batch system ends them when their time is over, and waits for those that do not want to: for half a minute
and more. So they are asked to end while there is time, and killed shortly before the end.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from kalends.backends.records import EndJobs
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.provision.errands import Errands
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.provision.systems import Systems


@dataclass(eq=False)
class SlotEnds:
    """Times at which the jobs of each grant are asked to end, and killed."""

    grants: GrantTable
    errands: Errands
    systems: Systems
    _due: list[tuple[int, int, int]] = field(init=False, default_factory=list)
    """When (monotonic) to look at which grant, so long before its end by the system's clock."""
    _ends: dict[int, int] = field(init=False, default_factory=dict)
    """The end of each grant for which a look is due."""

    def note(self, grant: NodeGrant, now: Moment) -> None:
        """Take note of a grant that is new, or of another length; one that is known changes nothing."""
        wanted = grant.wanted
        if wanted is None or self._ends.get(grant.number) == wanted.end:
            return
        self._ends[grant.number] = wanted.end
        backend = self.grants.backends[grant.resource]
        self._look_at(grant, wanted.end, _first_ms(backend), now)

    def advance(self, now: Moment) -> None:
        """Ask and kill what is due."""
        while self._due and self._due[0][0] <= now.monotonic_ms:
            _, number, before_ms = heapq.heappop(self._due)
            grant = self.grants.get(number)
            end = self._ends.get(number)
            if grant is None or grant.wanted is None or end != grant.wanted.end:
                self._ends.pop(number, None)
                if grant is not None:
                    self.note(grant, now)
                continue
            self._end(grant, end, before_ms, now)

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def _end(self, grant: NodeGrant, end: int, before_ms: int, now: Moment) -> None:
        backend = self.grants.backends[grant.resource]
        left_ms = self._left_ms(grant, end, now)
        if left_ms > before_ms:  # Its clock, or ours, was set back.
            self._look_at(grant, end, before_ms, now)
        elif left_ms <= backend.kill_ms:
            self._send(grant, EndJobs(grant.name, at_once=True), now)
        else:
            self._send(grant, EndJobs(grant.name), now)
            self._look_at(grant, end, backend.kill_ms, now)

    def _look_at(self, grant: NodeGrant, end: int, before_ms: int, now: Moment) -> None:
        if before_ms:
            due_ms = now.monotonic_ms + max(self._left_ms(grant, end, now) - before_ms, 0)
            heapq.heappush(self._due, (due_ms, grant.number, before_ms))

    def _left_ms(self, grant: NodeGrant, end: int, now: Moment) -> int:
        clock_s = self.systems.clock_s(self.grants.backends[grant.resource].system, now)
        return (end - (clock_s or now.wall_s)) * 1000

    def _send(self, grant: NodeGrant, errand: EndJobs, now: Moment) -> None:
        backend = self.grants.backends[grant.resource]
        until_ms = now.monotonic_ms + backend.answer_ms_max
        self.errands.send(backend.system, errand, until_ms, lambda answer, now: None)


def _first_ms(backend: ResourceBackend) -> int:
    """Return how long before a slot's end its jobs are dealt with first."""
    warn_ms = backend.warn_ms if backend.traits.asks_jobs else 0
    return max(warn_ms, backend.kill_ms)
