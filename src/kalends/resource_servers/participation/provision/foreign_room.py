"""What is not ours in a batch system, as room that is taken: reservations, running jobs, nodes that are down.

`find` and the votes see it as locked. Of things that meet on one node only the time counts in which any is
there; what lies on a promise of ours is no room, but an alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kalends.backends.names import is_ours
from kalends.backends.records import SystemState
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claim_table import ClaimTable
from kalends.resource_servers.participation.provision.extents import Extent
from kalends.resource_servers.participation.provision.kept_room import KeptRoom
from kalends.resource_servers.participation.provision.node_map import without
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend

HOLDER: Final = "foreign"

RENEW_S: Final = 3_600
"""The end of what has none moves on by the hour, not with every look."""


@dataclass(eq=False)
class ForeignRoom:
    """The foreign extents of each resource, and the room that is kept for them."""

    site: str
    book: ClaimTable
    room: KeptRoom
    extents: dict[str, list[Extent]] = field(default_factory=dict)
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
        found = [
            Extent(each.start, each.end, own)
            for each in foreign_extents(self.site, backend, state)
            if (own := tuple(node for node in each.nodes if node in backend.nodes))
        ]
        self.unwell[resource] = frozenset(unwell_nodes(backend, state))
        beyond = without(found, ours)
        self.extents[resource] = beyond
        wanted = {(HOLDER, resource, *each) for each in beyond}
        for key in self.room:
            if isinstance(key, tuple) and key[:2] == (HOLDER, resource) and key not in wanted:
                self.room.give_up(key)
        for each in beyond:
            self._keep(resource, each)
        return without(found, beyond)

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


def foreign_extents(site: str, backend: ResourceBackend, state: SystemState) -> Iterable[Extent]:
    """Yield what others have, and what nobody can have."""
    now_s = state.clock_s
    for reservation in state.reservations:
        if not is_ours(site, reservation.name) and reservation.end > now_s:
            yield Extent(reservation.start, reservation.end, reservation.nodes)
    for job in state.jobs:
        if not is_ours(site, job.reservation):
            end = (
                TIME_S_MAX if job.end is None else max(job.end, now_s) + backend.traits.job_offset_s
            )
            yield Extent(min(job.start, now_s), max(end, now_s + 1), job.nodes)
    hour_s = now_s // RENEW_S * RENEW_S
    repaired_s = hour_s + RENEW_S + backend.repair_s
    if nodes := unwell_nodes(backend, state):
        yield Extent(hour_s, repaired_s, nodes)


def unwell_nodes(backend: ResourceBackend, state: SystemState) -> tuple[str, ...]:
    """Return the nodes that have gone, and those that cannot be counted on, sorted."""
    gone = set(backend.nodes) - set(state.nodes)
    return tuple(sorted(gone | {each.name for each in state.unwell if each.state != "unknown"}))
