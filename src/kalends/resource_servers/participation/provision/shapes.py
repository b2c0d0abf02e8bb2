"""Units of a resource as its batch system reserves them: whole nodes, cores of nodes, or licences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kalends.backends.records import SystemJob, SystemReservation, SystemState
from kalends.resource_servers.participation.provision.extents import Extent
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend


def wish_of(backend: ResourceBackend, name: str, user: str, wanted: Extent) -> SystemReservation:
    """Return the reservation of the system in which there is just what is `wanted`."""
    units = Counter(wanted.nodes)
    licences = backend.unit == "licences"
    return SystemReservation(
        name=name,
        start=wanted.start,
        end=wanted.end,
        nodes=() if licences else tuple(sorted(units)),
        users=(user,),
        licences=tuple(sorted(units.items())) if licences else (),
        cores=tuple(units[node] for node in sorted(units)) if backend.unit == "cores" else (),
    )


def units_of(backend: ResourceBackend, found: SystemReservation | SystemJob) -> Counter[str]:
    """Return what of a resource is in something that a system has."""
    if backend.unit == "licences":
        return Counter({name: count for name, count in found.licences if name in backend.room})
    if backend.unit == "nodes" or not found.cores:
        return Counter({node: backend.units_each for node in found.nodes if node in backend.room})
    cores = dict(zip(found.nodes, _most_each(found.nodes, found.cores), strict=True))
    return Counter(
        {
            node: min(each, backend.units_each)
            for node, each in cores.items()
            if node in backend.room
        }
    )


def _most_each(nodes: Sequence[str], cores: Sequence[int]) -> Sequence[int]:
    """Return how many cores there are of each node; at most, where only their sum is told."""
    if len(cores) == len(nodes):
        return cores
    return [sum(cores) - len(nodes) + 1] * len(nodes)


def unwell_nodes(backend: ResourceBackend, state: SystemState) -> tuple[str, ...]:
    """Return the nodes, or licences, that have gone, and nodes that cannot be counted on, sorted."""
    unwell = {each.name for each in state.unwell if each.state != "unknown"}
    unknown = unknown_names(backend, state)
    return tuple(each for each in sorted(backend.room) if each in unknown or each in unwell)


def unknown_names(backend: ResourceBackend, state: SystemState) -> frozenset[str]:
    """Return the nodes, or licences, of which the system knows nothing."""
    known = dict(state.licences) if backend.unit == "licences" else state.nodes
    return frozenset(backend.room).difference(known)


def missing_units(backend: ResourceBackend, state: SystemState) -> Counter[str]:
    """Return what the resource is said to have, and the system has not, of what is well."""
    has = dict(state.licences if backend.unit == "licences" else state.cores)
    if backend.unit == "nodes":
        return Counter()
    return +Counter({each: most - has.get(each, most) for each, most in backend.room.items()})
