"""How well mappers keep free nodes together: best fit by contact beside first fit. Prints JSON.

    python benchmarks/placement.py [--requests N] [--seed N] [LOG NODES]

Requests come, stay for their time and go; who finds no place is refused and does not wait. Without a
log they are uniform sizes with exponential times at a load of 0.9. `refused` counts all refusals,
`fragmented` those for which enough nodes were free; `largest_free` is the mean, over all arrivals, of
the largest request that could have been placed, as a share of the machine.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kalends.machines.machine import Machine
from kalends.machines.partitions import Partition
from kalends.machines.spec import machine_from
from kalends.simulation.workloads.swf import open_log

SPECS = ["mesh2d:32x32:4x4:io=inner", "mesh2d:16x16", "hypercube:7", "torus3d:8x8x8"]
Request = tuple[float, int, float]
"""When it comes, how many nodes it wants, how long it stays."""


def uniform(machine: Machine, requests: int, seed: int) -> list[Request]:
    draw = random.Random(seed)
    largest = machine.nodes // 2
    apart_s = (largest + 1) / 2 / machine.nodes / 0.9
    now, stream = 0.0, []
    for _ in range(requests):
        now += draw.expovariate(1 / apart_s)
        stream.append((now, draw.randint(1, largest), draw.expovariate(1.0)))
    return stream


def from_log(machine: Machine, path: Path, nodes: int) -> list[Request]:
    """A log's jobs in its own times, their nodes scaled to the machine."""
    return [
        (job.submit_s, max(1, job.nodes * machine.nodes // nodes), job.run_s)
        for job in open_log(path, nodes=nodes)
    ]


def measure(spec: str, stream: Iterable[Request]) -> dict[str, Any]:
    machine = machine_from(spec)
    sizes = sorted({machine.granted(nodes) for nodes in range(1, machine.nodes + 1)} - {0})
    running: list[tuple[float, int, Partition]] = []
    count = refused = fragmented = 0
    largest, placing_s = 0, 0.0
    for arrival, nodes, stay in stream:
        while running and running[0][0] <= arrival:
            machine.release(heapq.heappop(running)[2])
        largest += next((size for size in reversed(sizes) if machine.can_place(size)), 0)
        enough = machine.granted(nodes) <= machine.free
        begun = time.process_time()
        partition = machine.place(nodes)
        placing_s += time.process_time() - begun
        count += 1
        if partition is None:
            refused += 1
            fragmented += enough
        else:
            heapq.heappush(running, (arrival + stay, count, partition))
    return {
        "machine": spec,
        "requests": count,
        "refused": refused,
        "fragmented": fragmented,
        "largest_free": round(largest / count / machine.nodes, 4),
        "place_us": round(1e6 * placing_s / count, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("nodes", nargs="?", type=int)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for spec in SPECS:
        machine = machine_from(spec)
        if options.log is None:
            stream = uniform(machine, options.requests, options.seed)
        else:
            stream = from_log(machine, options.log, options.nodes)
        for fit in ("best", "first"):
            print(json.dumps(measure(f"{spec}:fit={fit}", stream)), flush=True)


if __name__ == "__main__":
    main()
