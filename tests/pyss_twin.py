"""Conservative backfilling by the rules of pyss, with starts as events: `conservative` has the same starts.

Of the events of a second, submissions come first, then ends, then starts; of each kind those that were
foreseen first. A start is foreseen when it is reserved, an end when its job starts. Nothing here comes from
`kalends`, and nothing is clever: it takes a minute where `conservative` takes seconds.

    python -m tests.pyss_twin LOG.swf.gz NODES     compares both on a log
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

PyssJob = tuple[int, int, int, int]
"""Submission, nodes, requested and real run time."""

SUBMISSION, END, START = range(3)


class Steps:
    """How many nodes are free from each of `times` on."""

    def __init__(self, nodes: int) -> None:
        self.times = [0]
        self.free = [nodes]

    def forget_before(self, time: int) -> None:
        gone = bisect_right(self.times, time) - 1
        if gone > 0:
            del self.times[:gone], self.free[:gone]

    def take(self, nodes: int, start: int, end: int) -> None:
        for place in range(self._border(start), self._border(end)):
            self.free[place] -= nodes

    def earliest(self, nodes: int, length: int, now: int) -> int:
        """Return the first time from `now` on at which so many are free for so long."""
        start = None
        for place in range(bisect_right(self.times, now) - 1, len(self.times)):
            if self.free[place] < nodes:
                start = None
                continue
            if start is None:
                start = max(now, self.times[place])
            if place + 1 == len(self.times) or self.times[place + 1] >= start + length:
                return start
        raise ValueError("at the end all nodes are free")

    def _border(self, time: int) -> int:
        place = bisect_left(self.times, time)
        if place == len(self.times) or self.times[place] != time:
            self.times.insert(place, time)
            self.free.insert(place, self.free[place - 1])
        return place


def pyss_starts(jobs: Sequence[PyssJob], nodes: int) -> list[int]:
    """Return the start of each job; `jobs` are in order of submission."""
    steps = Steps(nodes)
    starts = [-1] * len(jobs)
    unfinished: dict[int, None] = {}
    events = [(job[0], SUBMISSION, number, number) for number, job in enumerate(jobs)]
    heapify(events)
    foreseen = len(jobs)

    def reserve(number: int, now: int) -> None:
        nonlocal foreseen
        _, width, requested, _ = jobs[number]
        before = starts[number]
        if before >= 0:
            steps.take(-width, before, before + requested)
        start = steps.earliest(width, requested, now)
        steps.take(width, start, start + requested)
        if start != before:
            starts[number] = start
            heappush(events, (start, START, foreseen, number))
            foreseen += 1

    while events:
        now, kind, _, number = heappop(events)
        _, width, requested, run = jobs[number]
        if kind == START:
            if starts[number] == now:
                heappush(events, (now + run, END, foreseen, number))
                foreseen += 1
            continue
        steps.forget_before(now)
        if kind == SUBMISSION:
            unfinished[number] = None
            reserve(number, now)
            continue
        del unfinished[number]
        if run < requested:
            steps.take(-width, now, starts[number] + requested)
        for other in unfinished:
            if starts[other] > now:
                reserve(other, now)
    return starts


def main(path: str, nodes: int) -> int:
    from kalends.scheduling.cluster import Cluster
    from kalends.scheduling.registry import policy_maker
    from kalends.scheduling.scheduler import Scheduler
    from kalends.simulation.kernel import replay
    from kalends.simulation.workloads.swf import open_log

    log = list(open_log(path, nodes=nodes))
    jobs = [(job.submit_s, job.nodes, job.requested_s, job.run_s) for job in log]
    expected = pyss_starts(jobs, nodes)
    for _ in replay(log, Scheduler(policy_maker("conservative")(Cluster(nodes)))):
        pass
    differ = sum(job.start_s != start for job, start in zip(log, expected, strict=True))
    print(f"{path}: {len(log)} jobs, {differ} start at another time than by the rules of pyss")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
