"""Partitionable machines: topologies and the mappers that decide which nodes a partition gets.

machine = machine_from("mesh2d:32x32:4x4")
partition = machine.place(100)
"""

from kalends.machines.machine import Conflict, Machine, Partition, Planned, Verdict
from kalends.machines.spec import machine_from

__all__ = ["Conflict", "Machine", "Partition", "Planned", "Verdict", "machine_from"]
