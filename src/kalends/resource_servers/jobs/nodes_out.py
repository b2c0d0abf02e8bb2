"""Nodes of machines that are out of service, as the calendar has to know of them.

They are the owner's for as long as a repair takes, from now on, and again from every later look. Of the
reservations that begin until then, those go that cannot be placed around them: as few as have what lacks; on
a topology those that have got no other nodes, one after the other, the largest first, for what one leaves
may be what another needs. Users of reservations that have begun are told how many of their nodes cannot be
used.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Final

from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import QueueService
from kalends.core.errors import Unavailable
from kalends.resource_servers.jobs.job_ledger import JobLedger
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.reclaims.reclaims import OutOfService
from kalends.resource_servers.service import SiteEngine
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.reservations import Reservation
from kalends.serving.configuration import MachineConfiguration

RENEW_S: Final = 3_600
"""The end of a repair that is not over moves on by the hour, not with every look."""


class NodesOutWatch:
    """One life of a site, as its machines' nodes come and go."""

    def __init__(
        self,
        engine: SiteEngine,
        ledger: JobLedger,
        service: QueueService,
        rules: Mapping[str, MachineConfiguration],
    ) -> None:
        """`rules` are by machine; of one that a batch system stands behind, that one tells of its nodes."""
        self._engine, self._ledger, self._service = engine, ledger, service
        backed = engine.participant.guard.resources
        self._repair_s = {
            name: int(rules[name].repair_s)
            for name, queue in service.queues.items()
            if not queue.flow.terms.handed_to and name not in backed
        }
        self._due = set(self._repair_s)
        self._changed = asyncio.Event()
        self._tried: dict[str, frozenset[int]] = {}
        """The bookings with which reservations were given other nodes in vain, by machine."""

    def note(self, machines: Collection[str]) -> None:
        """Look soon: something has changed on them."""
        self._due.update(machines & self._repair_s.keys())
        if self._due:
            self._changed.set()

    async def run(self) -> None:
        """Look whenever something has changed, and now and then, until this life is over."""
        while True:
            due, self._due = self._due, set()
            self._changed.clear()
            for machine in sorted(due):
                self._look(machine)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._rest_s())
            self._due = self._due or set(self._repair_s)

    def _rest_s(self) -> int:
        """Return when to look again if nothing changes: when a slot begins on a machine without some."""
        now_s = self._service.now_s()
        begins = [
            each.start - now_s
            for queue in map(self._service.queues.__getitem__, self._repair_s)
            if _nodes_out(queue)
            for each in queue.flow.room.claims().values()
            if each.start > now_s
        ]
        return min([*begins, RENEW_S])

    def _look(self, machine: str) -> None:
        with contextlib.suppress(Unavailable):  # The next life looks at once.
            queue = self._service.queues[machine]
            now_s = self._service.now_s()
            hour_s = now_s // RENEW_S * RENEW_S
            until_s = hour_s + RENEW_S + self._repair_s[machine]
            back = queue.flow.room.back
            if back and len(back) == len(_nodes_out(queue)):
                until_s = min(until_s, max(back.values()))
            out = OutOfService(
                machine, hour_s, until_s, len(_nodes_out(queue)), _idle_nodes_out(queue),
                _why(queue), self._stuck(machine, queue, now_s, until_s), self._begun(machine, queue, now_s),
            )  # fmt: skip
            self._engine.apply(lambda site, now: site.wing(ReclaimReminders).nodes_out(out, now))

    def _stuck(self, machine: str, queue: BatchQueue, now_s: int, until_s: int) -> str:
        """Return the largest reservation that is soon, and cannot be placed around what is out, or ""."""
        room = queue.flow.room
        known = frozenset(room.claims())
        if _on_nodes_out(queue, now_s) and self._tried.get(machine) != known:
            self._tried[machine] = known
            for why, nodes in _by_reason(queue).items():
                self._service.step(machine, _drain(nodes, why, queue.flow.room.back))
        for each in sorted(_on_nodes_out(queue, now_s), key=lambda each: -each.nodes):
            claim = self._ledger.claim(machine, int(each.name)) if int(each.name) > 0 else None
            if claim is not None and claim.reservation and each.start_s < until_s:
                return claim.reservation
        return ""

    def _begun(self, machine: str, queue: BatchQueue, now_s: int) -> tuple[tuple[str, int], ...]:
        """Return the reservations of the present, and how many nodes of each cannot be used."""
        found: dict[str, int] = {}
        for number, lacking in _lacking(queue, now_s).items():
            claim = self._ledger.claim(machine, number)
            if claim is not None and claim.reservation:
                found[claim.reservation] = found.get(claim.reservation, 0) + lacking
        return tuple(found.items())


def _lacking(queue: BatchQueue, now_s: int) -> dict[int, int]:
    """Return how many nodes cannot be used of each booking that has begun.

    If it does not matter which nodes a reservation has, all that have begun share what is in service with
    jobs outside, and each is told what is lacking in all.
    """
    room, out = queue.flow.room, _nodes_out(queue)
    begun = [each for each in room.claims().values() if each.start <= now_s < each.end]
    if not out:
        return {each.booking: 0 for each in begun}
    cluster = room.scheduler.cluster
    if isinstance(cluster, MappedCluster):
        kept = {int(each.name): kept.nodes for each, kept in cluster.made_rooms}
        return {each.booking: len(out.intersection(kept.get(each.booking, ()))) for each in begun}
    outside = {
        node
        for job in queue.flow.table
        if job.on_nodes and not job.request.reservation
        for node in job.nodes
    }
    lacking = sum(each.nodes for each in begun) - (cluster.nodes - len(out | outside))
    return {each.booking: max(0, min(each.nodes, lacking)) for each in begun}


def _nodes_out(queue: BatchQueue) -> frozenset[int]:
    return queue.flow.room.scheduler.cluster.out_nodes


def _on_nodes_out(queue: BatchQueue, now_s: int) -> list[Reservation]:
    """Return what is still to begin on nodes out of service, where it matters which nodes it has."""
    cluster = queue.flow.room.scheduler.cluster
    return [
        each
        for each, kept in (cluster.made_rooms if isinstance(cluster, MappedCluster) else ())
        if each.start_s > now_s and not cluster.out_nodes.isdisjoint(kept.nodes)
    ]


def _drain(
    nodes: list[int], why: str, back: Mapping[int, int]
) -> Callable[[BatchQueue, int], None]:
    def step(queue: BatchQueue, now: int) -> None:
        for until_s in sorted({back.get(node, 0) for node in nodes}):
            queue.drain([node for node in nodes if back.get(node, 0) == until_s], why, now, until_s)

    return step


def _idle_nodes_out(queue: BatchQueue) -> int:
    """Return how many nodes nobody has and nobody can have; on a topology their number does not tell."""
    room = queue.flow.room
    if room.names_nodes:
        return 0
    busy = {node for job in queue.flow.table if job.on_nodes for node in job.nodes}
    return len(_nodes_out(queue) - busy)


def _by_reason(queue: BatchQueue) -> dict[str, list[int]]:
    room = queue.flow.room
    found: dict[str, list[int]] = {}
    for node in sorted(_nodes_out(queue)):
        found.setdefault(room.out_reasons.get(node, ""), []).append(node)
    return found


def _why(queue: BatchQueue) -> str:
    nodes = _nodes_out(queue)
    count = "a node is" if len(nodes) == 1 else f"{len(nodes)} nodes are"
    reasons = "; ".join(filter(None, _by_reason(queue)))
    return f"{count} out of service{': ' * bool(reasons)}{reasons}"[:200]
