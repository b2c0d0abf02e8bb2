"""The machine of a replay, and how jobs spread over it, by their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.reservations import Reservation
from kalends.simulation.job import SimulatedJob

Change = Callable[[Iterable[SimulatedJob]], Iterator[SimulatedJob]]


def cluster_from(
    machine: str,
    *,
    nodes: int | None = None,
    crossing: str = "",
    reservations: Sequence[Reservation] = (),
) -> Cluster:
    """Return the empty cluster that `machine` names: ``mesh2d:32x32:4x4``, ``grid:64+32``, and so on.

    Raises `InvalidInput` for a text that cannot be read, other `nodes` than the machine has, a `ferry`
    where there is only one cluster, and reservations that name a part where there are none, or none in
    a grid.
    """
    # Imported here: most replays only count nodes.
    if machine.startswith("grid"):
        from kalends.scheduling.grid_spec import grid_from

        kept: dict[int, list[Reservation]] = {}
        for each in reservations:
            if each.part < 0:
                raise InvalidInput(
                    "reservations in a grid must name the part of their nodes",
                    where="reservations",
                    remedy="add a column part, with numbers from 0 as the clusters name them",
                )
            kept.setdefault(each.part, []).append(each)
        cluster: Cluster = grid_from(machine, crossing=crossing, reservations=kept)
    else:
        from kalends.machines.spec import machine_from
        from kalends.scheduling.mapped import MappedCluster

        if crossing:
            raise InvalidInput(
                "there is only one cluster", where="crossing", remedy="give a grid, as grid:64+32"
            )
        mapper, kept_free = machine_from(machine), without_parts(reservations)
        # As on a live machine: where any nodes will do, no mapper need be asked.
        cluster = (
            Cluster(mapper.nodes, kept_free)
            if mapper.interchangeable
            else MappedCluster(mapper, kept_free)
        )
    if nodes is not None and nodes != cluster.nodes:
        raise InvalidInput(
            f"{nodes} nodes, but the machine has {cluster.nodes}",
            where="nodes",
            remedy="leave out --nodes, or --machine",
        )
    return cluster


def without_parts(reservations: Sequence[Reservation]) -> Sequence[Reservation]:
    """Return `reservations` unchanged. Raises `InvalidInput` if one names a part, which only grids have."""
    named = next((each for each in reservations if each.part >= 0), None)
    if named is not None:
        raise InvalidInput(
            f"part {named.part} of a machine that has no parts",
            where="reservations",
            remedy="leave out the column part, or give a grid, as grid:64+32",
        )
    return reservations


def parts_of(machine: str) -> tuple[int, ...]:
    """Return the nodes of each part of the grid `machine`; nothing for any other machine."""
    if not machine.startswith("grid"):
        return ()
    from kalends.scheduling.grid_spec import grid_from

    return tuple(part.nodes for part in grid_from(machine).parts)


def split_by(components: str, machine: str) -> Change:
    """Return a change that splits jobs for a grid by ``KIND:LARGEST``, e.g. ``unordered:16``.

    Raises `InvalidInput` for a text that cannot be read, and for a `machine` that is no grid.
    """
    from kalends.simulation.co_allocation import split

    kind, _, largest = components.partition(":")
    if not machine.startswith("grid"):
        raise InvalidInput(
            "there is only one cluster", where="components", remedy="give a grid, as grid:64+32"
        )
    if not largest.isdecimal() or len(largest) > 9:
        raise InvalidInput(
            f"{excerpt(components)!r} is not KIND:LARGEST",
            where="components",
            remedy="write ordered, unordered or total and a number of nodes, such as unordered:16",
        )
    clusters = machine.count("+") + 1
    return lambda jobs: split(jobs, kind, int(largest), clusters)
