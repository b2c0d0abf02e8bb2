"""Machines with a topology: where partitions go, nodes that fail, schedules, promises, a new machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from kalends.machines.enumerated import EnumeratedTopology
from kalends.machines.machine import Machine
from kalends.machines.partitions import Partition, Planned
from kalends.machines.spec import machine_from
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.backfill.conservative_placed import PlacedConservative
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay


class Racks(EnumeratedTopology):
    """Racks of nodes behind switches: a partition is some neighbours in one rack, or whole racks."""

    def __init__(self, racks: int, rack_nodes: int) -> None:
        self.racks, self.rack_nodes = racks, rack_nodes
        super().__init__(f"racks:{racks}x{rack_nodes}", racks * rack_nodes)

    def extents(self, nodes: int, shape: tuple[int, ...]) -> list[list[int]]:
        if shape or not 1 <= nodes <= self.nodes:
            return []
        whole = -(-nodes // self.rack_nodes) * self.rack_nodes
        return [[nodes if nodes < self.rack_nodes else whole]]

    def sites(self, extent: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], list[int]]]:
        for first in range(self.nodes - extent + 1):
            begins_in, ends_in = first // self.rack_nodes, (first + extent - 1) // self.rack_nodes
            if begins_in == ends_in or first % self.rack_nodes == 0:
                yield (first,), (extent,), list(range(first, first + extent))

    def links(self, unit: int) -> Sequence[int]:
        in_rack = unit % self.rack_nodes
        before = [unit - 1] if in_rack > 0 else []
        return [*before, unit + 1] if in_rack < self.rack_nodes - 1 else before


def picture(width: int, height: int, unit: int, partitions: dict[str, Partition]) -> str:
    """A mesh, one letter for every unit of `unit` x `unit` nodes."""
    owners = {node: name for name, partition in partitions.items() for node in partition.nodes}
    rows = [
        " ".join(owners.get(y * width + x, ".") for x in range(0, width, unit))
        for y in range(0, height, unit)
    ]
    return "\n".join(f"    {row}" for row in rows)


def best_and_first_fit() -> None:
    for fit in ("best", "first"):
        machine = machine_from(f"mesh2d:32x32:4x4:io=inner:fit={fit}")
        placed: dict[str, Partition] = {}
        for name, nodes in zip(ascii_uppercase, (64, 32, 192, 96, 144, 96, 32), strict=False):
            partition = machine.place(nodes)
            if partition is not None:
                placed[name] = partition
            if name == "E":
                machine.release(placed.pop("A"))
                machine.release(placed.pop("C"))
        largest = max(n for n in range(1, 1025) if machine.can_place(n))
        print(f"{fit} fit: {machine.free} nodes are free, at most {largest} of them together")
        print(picture(32, 32, 4, placed))


def failing_nodes() -> None:
    machine = machine_from("mesh2d:8x8:2x2:io=border")
    print(f"17 nodes on {machine.spec} take {machine.granted(17)}; {machine.free} are free")
    machine.drain([9])
    print(f"node 9 fails, and its unit with it: {machine.free} are free")
    print(f"room for all 64: {machine.can_place(64)}; for 32: {machine.can_place(32)}")
    machine.resume([9])
    print(f"repaired: room for all 64: {machine.can_place(64)}")


def verified_schedule() -> None:
    machine = machine_from("hypercube:3")
    running = machine.place(2)
    assert running is not None
    schedule = [
        Planned(1, 2, 0, 50, partition=running),
        Planned(2, 3, 0, 30),
        Planned(3, 4, 10, 40),
        Planned(4, 8, 40, 60),
    ]
    verdict = machine.verify(schedule)
    for job, partition in verdict.partitions.items():
        print(f"job {job} gets nodes {', '.join(map(str, partition.nodes))}")
    for conflict in verdict.conflicts:
        print(f"job {conflict.job} cannot be configured then; at {conflict.suggested_s} it can")


def replayed() -> None:
    for spec in ("pool:64", "mesh2d:8x8:2x2:io=border", "hypercube:6"):
        jobs = [
            SimulatedJob(id=number, submit_s=number, nodes=size, requested_s=60, run_s=40)
            for number, size in enumerate([30, 17, 3, 9, 40, 5, 12, 33, 2, 20] * 20)
        ]
        scheduler = Scheduler(policy_maker("easy")(MappedCluster(machine_from(spec))))
        waits = [job.start_s - job.submit_s for job in replay(jobs, scheduler)]
        print(f"{spec:<26} mean wait {sum(waits) / len(waits):6.1f} s")


def promised() -> None:
    policy = PlacedConservative(MappedCluster(machine_from("mesh2d:3x1")))
    scheduler = Scheduler(policy)
    for number, length_s in enumerate((5, 10, 5)):
        job = SimulatedJob(id=number, submit_s=0, nodes=1, requested_s=length_s, run_s=length_s)
        scheduler.submit(job, 0)
        assert job.partition is not None
        print(f"node {job.partition.nodes[0]} is taken until {job.until_s}")
    pair = SimulatedJob(id=3, submit_s=1, nodes=2, requested_s=5, run_s=5)
    scheduler.submit(pair, 1)
    print(f"two neighbours are promised from {policy.promised(pair)} on")


def another_architecture() -> None:
    machine = Machine(Racks(racks=3, rack_nodes=4))
    for nodes in (3, 5, 1, 2):
        partition = machine.place(nodes)
        print(f"{nodes} nodes: {'no room' if partition is None else partition.nodes}")


if __name__ == "__main__":
    best_and_first_fit()
    failing_nodes()
    verified_schedule()
    replayed()
    promised()
    another_architecture()
