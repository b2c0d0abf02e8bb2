"""Advance reservations on named nodes: the nodes of each, and jobs that continue in another one."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from kalends.core.errors import InvalidInput
from kalends.machines.machine import Machine, Partition, Planned
from kalends.scheduling.job import Job
from kalends.scheduling.reservations import Reservation

Room = tuple[Reservation, Partition]
"""An advance reservation, counted in the nodes that it really has, and these nodes."""


def made_rooms(machine: Machine, reservations: list[Reservation]) -> list[Room]:
    """Return each with the nodes that the mapper gives it; raises `InvalidInput` if it cannot."""
    verdict = machine.verify(
        [
            Planned(number, each.nodes, each.start_s, each.end_s, each.shape)
            for number, each in enumerate(reservations)
        ]
    )
    for conflict in verdict.conflicts:
        refused, free_s = reservations[conflict.job], conflict.suggested_s
        raise InvalidInput(
            f"{machine.spec} has no partition of {refused.nodes} nodes from {refused.start_s}",
            where=f"reservation {refused.name}".strip(),
            remedy="make it smaller"
            if free_s is None
            else f"make it smaller, or begin at {free_s}",
        )
    return [
        (counted(each, partition), partition)
        for each, partition in zip(
            reservations, (verdict.partitions[number] for number in range(len(reservations))),
            strict=True,
        )
    ]  # fmt: skip


def counted(wanted: Reservation, partition: Partition) -> Reservation:
    """Return the reservation with the nodes that it really has."""
    return structs.replace(wanted, nodes=len(partition.nodes))


def staying(guests: Iterable[Job], wanted: Reservation, now: int) -> list[Job]:
    """Return the jobs that continue in the reservation that replaces theirs: the earliest ones."""
    left = wanted.nodes if wanted.start_s <= now else 0
    found = []
    for job in sorted(guests, key=lambda job: (job.start_s, job.order)):
        if job.granted <= left:
            left -= job.granted
            found.append(job)
    return found


def nodes_of(job: Job) -> tuple[int, ...]:
    """Return the nodes of a running job."""
    assert job.partition is not None
    return job.partition.nodes
