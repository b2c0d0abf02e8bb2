"""Room in a batch system that is not ours: reservations, running jobs, nodes that are down.

`find` and the votes see it as locked. Of things that meet on one node no more counts than the node has;
what lies on a promise of ours is no room, but an alarm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from kalends.backends.names import OwnNames
from kalends.backends.records import SystemJob, SystemReservation, SystemState
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.provision.extents import Extent, in_order
from kalends.resource_servers.participation.provision.node_map import beside, peak
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.provision.shapes import (
    missing_units,
    units_of,
    unwell_nodes,
)

HOLDER: Final = "foreign"

RENEW_S: Final = 3_600
"""The end of what has none moves on by the hour, not with every look."""


RESERVED: Final = "is reserved for others"
USED: Final = "is used by another user's job"


class _Piece(NamedTuple):
    start: int
    end: int
    units: int
    why: str


class Foreign(NamedTuple):
    """An extent that we cannot have; `why` ends a sentence about its nodes."""

    extent: Extent
    why: str


@dataclass(eq=False)
class ForeignRoom:
    """The foreign extents of each resource, and the room that is kept for them."""

    names: OwnNames
    book: ClaimTable
    room: KeptRoom
    extents: dict[str, list[Extent]] = field(default_factory=dict)
    """Beyond what is ours, and joined where they touch: see `found`."""
    found: dict[str, list[Extent]] = field(default_factory=dict)
    """Each as it is, for a gap may have to lie between two; what lies on ours is among them."""
    _by_node: dict[str, dict[str, list[_Piece]]] = field(default_factory=dict)
    """For each resource and node: what of it cannot be had, and why."""
    _rooms: dict[str, Mapping[str, int]] = field(default_factory=dict)
    unwell: dict[str, frozenset[str]] = field(default_factory=dict)
    """Nodes that cannot be counted on now, whenever they are wanted."""

    def well(self, resource: str, nodes: Iterable[str]) -> list[str]:
        """Return those of `nodes` that can be counted on now, as far as is known."""
        unwell = self.unwell.get(resource, ())
        return [node for node in nodes if node not in unwell]

    def see(
        self, resource: str, backend: ResourceBackend, state: SystemState, ours: Sequence[Extent]
    ) -> list[Extent]:
        """Keep room for all that the system has beyond `ours`; return what lies on ours."""
        found = self.found[resource] = []
        by_node = self._by_node[resource] = defaultdict(list)
        for extent, why in foreign_extents(self.names, backend, state):
            found.append(extent)
            for node, units in Counter(extent.nodes).items():
                by_node[node].append(_Piece(extent.start, extent.end, units, why))
        self._rooms[resource] = backend.room
        self.unwell[resource] = frozenset(unwell_nodes(backend, state))
        beyond, over = beside(backend.room, found, ours)
        self.extents[resource] = beyond
        wanted = {(HOLDER, resource, *each) for each in beyond}
        for key in self.room:
            if isinstance(key, tuple) and key[:2] == (HOLDER, resource) and key not in wanted:
                self.room.give_up(key)
        for each in beyond:
            self._keep(resource, each)
        return over

    def why_not(self, resource: str, wanted: Extent, others: Callable[[], Iterable[Extent]]) -> str:
        """Return why the system cannot give all of `wanted` beside `others`, as far as is known, or "".

        Where nobody else has any of it, `others` of ours are known to have room, and not looked at.
        """
        for node, units in Counter(wanted.nodes).items():
            pieces = self._met(resource, node, wanted)
            if pieces:
                beside_it = [each[:2] for each in others() for name in each.nodes if name == node]
                meeting = [each for each in beside_it if wanted.meets(*each)]
                if peak([*meeting, *_spans(pieces)]) + units > self._rooms[resource][node]:
                    return f"{node} {max(pieces, key=attrgetter('units')).why}"
        return ""

    def units_left(self, resource: str, wanted: Extent) -> int:
        """Return how much of `wanted` the system could give to others, as far as is known."""
        left = 0
        for node, units in Counter(wanted.nodes).items():
            pieces = self._met(resource, node, wanted)
            room = self._rooms.get(resource, {}).get(node, units)
            left += max(0, min(units, room - peak(_spans(pieces))))
        return left

    def _met(self, resource: str, node: str, wanted: Extent) -> list[_Piece]:
        pieces = self._by_node.get(resource, {}).get(node, ())
        return [each for each in pieces if wanted.meets(each.start, each.end)]

    def _keep(self, resource: str, extent: Extent) -> None:
        """Keep as much as there is: held claims have no nodes yet, and are refused when they ask for them."""
        key = (HOLDER, resource, *extent)
        capacity = self.book.calendars[resource].info.capacity
        units = min(len(extent.nodes), capacity)
        if key in self.room and self.room.units(key) == units:
            return
        self.room.give_up(key)
        units = min(units, self.book.calendars[resource].free(extent.start, extent.end))
        if units:
            self.room.keep(key, HOLDER, HOLDER, [(resource, extent.start, extent.end, units)])


def foreign_extents(
    names: OwnNames, backend: ResourceBackend, state: SystemState
) -> Iterator[Foreign]:
    """Yield the room of others, and the room that no user can have."""
    now_s = state.clock_s
    for reservation in state.reservations:
        if reservation.name not in names and reservation.end > now_s:
            yield from _foreign(
                reservation.start, reservation.end, units_of(backend, reservation), RESERVED
            )
    reserved = {each.name: each for each in state.reservations}
    for job in state.jobs:
        yield from _used(names, backend, job, reserved.get(job.reservation), now_s)
    hour_s = now_s // RENEW_S * RENEW_S
    repaired_s = hour_s + RENEW_S + backend.repair_s
    unwell = Counter(dict.fromkeys(unwell_nodes(backend, state), backend.units_each))
    yield from _foreign(hour_s, repaired_s, unwell, "is out of order")
    yield from _foreign(
        hour_s, repaired_s, missing_units(backend, state) - unwell, f"has fewer {backend.unit}"
    )


def _used(
    names: OwnNames,
    backend: ResourceBackend,
    job: SystemJob,
    inside: SystemReservation | None,
    now_s: int,
) -> Iterator[Foreign]:
    """Yield what a job has; what the reservation has that it is in counts there."""
    ours = job.reservation in names
    reserved = units_of(backend, inside) if inside is not None else Counter[str]()
    if ours and (backend.unit != "licences" or inside is None or reserved):
        return
    end = TIME_S_MAX if job.end is None else max(job.end, now_s) + backend.traits.job_offset_s
    start, end = min(job.start, now_s), max(end, now_s + 1)
    units = units_of(backend, job)
    yield from _foreign(start, end, units - reserved, USED)
    if inside is not None and inside.end < end:
        yield from _foreign(max(inside.end, start), end, units & reserved, USED)


def _foreign(start: int, end: int, units: Counter[str], why: str) -> Iterator[Foreign]:
    if units:
        yield Foreign(Extent(start, end, in_order(units)), why)


def _spans(pieces: Iterable[_Piece]) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in pieces for _ in range(each.units)]
