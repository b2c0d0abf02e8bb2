"""Partitionable machines: topologies and the mappers that decide which nodes a partition gets.

machine = machine_from("mesh2d:32x32:4x4")
partition = machine.place(100)
"""

from kalends.machines.machine import Machine, Partition, PlacementConflict, Planned, ScheduleVerdict
from kalends.machines.spec import machine_from

Conflict = PlacementConflict
Verdict = ScheduleVerdict
"""Former names, kept for one release."""

__all__ = [
    "Conflict",
    "Machine",
    "Partition",
    "PlacementConflict",
    "Planned",
    "ScheduleVerdict",
    "Verdict",
    "machine_from",
]
