"""Gehring and Ramme 1996, section 5: how many rounds a partitioner needs for a start on several machines.

    python examples/papers/ccs_steps.py [--machines 2,3,5,8] [--loads 50,80,90] [--runs 200] [--booked 0]
        [--json]

"The MM-Ds report to the partitioner that the request can be fulfilled or make a suggestion when this will be
possible. The partitioner iterates these steps until it has found [...] a suitable time-slot." Here each
machine is a real queue under conservative backfilling that has run for days at a load. Others have booked
half of its nodes, or more, for an hour or more, `--booked` times in the next fortnight. A part asks for a
quarter to half of a machine for an hour. Three ways find the common start: one suggestion at a time, all
windows at once by the broker's planner, and trying every minute. They must agree, or the run fails.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kalends.batch.planned_pieces import planned_pieces
from kalends.batch.queue.effects import Start
from kalends.batch.queue.facts import JobEnding, Terms
from kalends.batch.queue.queue import BatchQueue
from kalends.broker.planning.planner import plan
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest
from kalends.core.limits import VIEW_STEPS_MAX
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo
from kalends.scheduling.profile import Profile

NODES: Final = 64
MINUTE: Final = 60
PART_S: Final = 3_600
FORTNIGHT: Final = 14 * 86_400
JOBS: Final = 400
"""Jobs that a machine has had before it is looked at: three days and more."""
POOL: Final = 24
"""Machines of each load, of which every run takes some others."""
USER: Final = Principal("ann")
ENDED: Final = JobEnding(kind="exit")


class Part(NamedTuple):
    """What is asked of one machine, and when its nodes are free."""

    free: Profile
    nodes: int


class Found(NamedTuple):
    start: int
    rounds: int
    """How often all machines were asked, including the request that holds the start."""


def queue_at(draw: random.Random, load: float) -> BatchQueue:
    """A machine in whose queue jobs have come and gone at this load; all its times are whole minutes."""
    queue = BatchQueue("site/machine", Terms(machine=f"pool:{NODES}", policy="conservative"), 0)
    ends: list[tuple[int, int]] = []
    now = 0.0
    for number in range(JOBS):
        nodes, limit = draw.choice((1, 2, 4, 8, 16, 32)), draw.randint(10, 600)
        mean_work = 10.5 * 305 * MINUTE * 0.65
        now += draw.expovariate(load * NODES / mean_work)
        arrival = int(now // MINUTE) * MINUTE
        while ends and ends[0][0] <= arrival:
            end, job = heappop(ends)
            queue.ended(job, queue.job(job).attempt, ENDED, end)
            _begin(queue, draw, ends, end)
        job = JobRequest(machine=queue.name, nodes=nodes, limit_s=limit * MINUTE, command=("true",))
        queue.submit(USER, job, f"the-key-{number}", arrival)
        _begin(queue, draw, ends, arrival)
    return queue


def _begin(queue: BatchQueue, draw: random.Random, ends: list[tuple[int, int]], now: int) -> None:
    for action in queue.take_effects().actions:
        if isinstance(action, Start):
            queue.begun(action.job.number, action.attempt, now)
            limit = action.job.request.limit_s // MINUTE
            runs = max(int(limit * draw.uniform(0.3, 1.0)), 1) * MINUTE
            heappush(ends, (now + runs, action.job.number))


def free_of(queue: BatchQueue, draw: random.Random, booked: int) -> Profile:
    """What a broker is shown, from 0 on: nodes that are neither busy, nor promised to jobs, nor booked."""
    now = queue.last_s
    busy = [
        (0, job.entry.until_s - now, len(job.nodes))
        for job in queue.flow.table
        if job.on_nodes and job.entry is not None and job.entry.until_s > now
    ]
    busy += [(start - now, end - now, nodes) for start, end, nodes in planned_pieces(queue, {})]
    profile = Profile.of(0, NODES, busy)
    for _ in range(booked):
        nodes, length = draw.randint(NODES // 2, NODES), draw.randint(60, 720) * MINUTE
        start = draw.randrange(0, FORTNIGHT, MINUTE)
        if profile.fits(nodes, start, start + length):
            profile.take(nodes, start, start + length)
    return profile


def by_suggestions(parts: Sequence[Part]) -> Found:
    """Each machine says when it could, at the earliest; the latest of these times is asked for next."""
    start = rounds = 0
    while True:
        rounds += 1
        then = max(part.free.earliest(part.nodes, PART_S, start) for part in parts)
        if then == start:
            return Found(start, rounds + 1)
        start = then


def by_windows(parts: Sequence[Part]) -> Found:
    """All machines show what is free, in one round; the broker's planner finds the start in it."""
    infos = {}
    free = {}
    for number, part in enumerate(parts):
        name = f"site{number}/machine"
        infos[name] = ResourceInfo(name=name, capacity=NODES, grain_s=MINUTE)
        borders = [*part.free.times, part.free.times[-1] + FORTNIGHT]
        steps = [
            (start, end, part.free.at(start))
            for start, end in pairwise(borders)
            if part.free.at(start)
        ]
        if len(steps) > VIEW_STEPS_MAX:
            raise InvalidInput("more windows than one answer has", remedy="give fewer --booked")
        free[name] = tuple(steps)
    terms = tuple(
        Term(resource=name, units=part.nodes) for name, part in zip(infos, parts, strict=True)
    )
    request = Request(
        alternatives=(Alternative(terms=terms),), duration_s=PART_S, not_before=0,
        not_after=2 * FORTNIGHT,
    )  # fmt: skip
    (found,) = plan(request, infos, free)
    return Found(found.start, 2)


def by_trying(parts: Sequence[Part]) -> int:
    """The first minute from which all parts fit: the slow twin of both."""
    return next(
        start
        for start in range(0, 2 * FORTNIGHT, MINUTE)
        if all(part.free.fits(part.nodes, start, start + PART_S) for part in parts)
    )


def figures(
    draw: random.Random, pool: Sequence[BatchQueue], machines: int, runs: int, booked: int
) -> dict[str, Any]:
    suggested, waits = [], []
    for _ in range(runs):
        parts = [
            Part(free_of(queue, draw, booked), draw.randint(NODES // 4, NODES // 2))
            for queue in draw.sample(pool, machines)
        ]
        one, windows, start = by_suggestions(parts), by_windows(parts), by_trying(parts)
        if not one.start == windows.start == start:
            raise InvalidInput(f"{one.start}, {windows.start} and {start} for one request")
        suggested.append(one.rounds)
        waits.append(start / 3_600)
    suggested.sort()
    return {
        "wait_h": statistics.fmean(waits),
        "suggestions_p50": suggested[runs // 2],
        "suggestions_p99": suggested[min(int(runs * 0.99), runs - 1)],
        "windows": windows.rounds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--machines", default="2,3,5,8")
    parser.add_argument("--loads", default="50,80,90", help="percent")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--booked", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="one load, two numbers of machines, 20 runs"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.quick:
        asked.machines, asked.loads, asked.runs = "2,3", "80", 20
    machines = [int(each) for each in asked.machines.split(",")]
    rows = []
    for load in map(int, asked.loads.split(",")):
        draw = random.Random(1996 + load)
        pool = [queue_at(draw, load / 100) for _ in range(max(POOL, *machines))]
        for count in machines:
            found = figures(draw, pool, count, asked.runs, asked.booked)
            rows.append({"machines": count, "load_percent": load, **found})
    if asked.json:
        print(json.dumps(rows))
        return 0
    print("machines  load  start in h  rounds by suggestions, p50  p99  by windows")
    for row in rows:
        print(
            f"{row['machines']:8}  {row['load_percent']:3}%  {row['wait_h']:10.1f}"
            f"  {row['suggestions_p50']:26}  {row['suggestions_p99']:3}  {row['windows']:10}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
