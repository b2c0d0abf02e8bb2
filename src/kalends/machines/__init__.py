"""Partitionable machines: topologies and the mappers that decide which nodes a partition gets.

machine = machine_from("mesh2d:32x32:4x4")
partition = machine.place(100)
"""

from kalends.machines.machine import Machine
from kalends.machines.partitions import Partition, PlacementConflict, Planned, ScheduleVerdict
from kalends.machines.spec import machine_from

__all__ = [
    "Machine",
    "Partition",
    "PlacementConflict",
    "Planned",
    "ScheduleVerdict",
    "machine_from",
]
