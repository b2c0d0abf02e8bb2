"""Metrics of a schedule, as the field reports them: exact, in one pass, eight bytes a job.

For a job submitted at s, begun at b and ended at e:

- wait = b - s, run = e - b, response = e - s (Feitelson and Rudolph, JSSPP 1998, section 4);
- slowdown = response / max(run, 1 s);
- bounded slowdown = max(1, response / max(run, tau)), tau = 10 s (Feitelson et al., JSSPP 1997,
  section 4.1), so that jobs of a second do not rule the mean.

For all jobs on n nodes, from the first submission to the last end:

- makespan = last end - first submission;
- utilization = sum of nodes x (run - time in which it was preempted) / (n x makespan), where a job that
  changed its size counts with the nodes that it had at each time;
- throughput = jobs / makespan;
- queue depth at an instant = jobs with s <= instant < b. Its mean over the makespan is the sum of all
  waits / makespan: Little's law, exact here because no job waits before or after.

The wait of a preempted job is until it first began. Times are in the workload's unit.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import repeat
from operator import rshift
from typing import Final

import msgspec

from kalends.scheduling.profile import NEVER
from kalends.simulation.job import SimulatedJob
from kalends.simulation.malleable import MalleableJob

TAU_S: Final = 10
"""Runs shorter than this count as this long in the bounded slowdown."""

_BITS: Final = 12
"""Bits by which values are divided at a time in a search for ranks."""


class Summary(msgspec.Struct, frozen=True):
    """The metrics of one schedule; all 0 without jobs."""

    jobs: int = 0
    mean_wait_s: float = 0.0
    median_wait_s: float = 0.0
    p95_wait_s: int = 0
    """The shortest wait that at least 95 % of the jobs do not exceed."""
    max_wait_s: int = 0
    mean_response_s: float = 0.0
    mean_slowdown: float = 0.0
    mean_bounded_slowdown: float = 0.0
    utilization: float = 0.0
    makespan_s: int = 0
    mean_queue_depth: float = 0.0
    max_queue_depth: int = 0
    throughput_per_s: float = 0.0
    reconfigurations: int = 0
    """Number of changes of the size of running jobs."""


class ScheduleMetrics:
    """Takes the ended jobs of one replay, in any order, and says what they amount to.

    Jobs are told apart by `SimulatedJob.order`, as the scheduler numbers them: 0, 1, 2, ... in order of
    submission, each added once.
    """

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.jobs = 0
        self._last_s = -NEVER
        self._wait_s = 0
        self._response_s = 0
        self._node_s = 0
        self._changes = 0
        self._slowdown = 0.0
        self._bounded = 0.0
        # By order of submission; 4 bytes each as long as the times allow. A wait of -1: not ended yet.
        self._submits = array("i")
        self._waits = array("i")

    def add(self, job: SimulatedJob) -> None:
        self.extend((job,))

    def extend(self, jobs: Sequence[SimulatedJob]) -> None:
        """Add jobs that have ended, in this order."""
        if not jobs:
            return
        self._make_room(max([job.order for job in jobs]))
        try:
            self._count(jobs)
        except OverflowError:
            self._submits = array("q", self._submits)
            self._waits = array("q", self._waits)
            self._count(jobs)

    def _make_room(self, order: int) -> None:
        missing = order + 1 - len(self._waits)
        if missing > 0:
            self._submits.extend(repeat(0, missing))
            self._waits.extend(repeat(-1, missing))

    def _count(self, jobs: Sequence[SimulatedJob]) -> None:
        """Count all of `jobs`; after `OverflowError` a second call redoes everything."""
        submits, waits = self._submits, self._waits
        wait_s = response_s = node_s = changes = 0
        slowdown, bounded, last_s = self._slowdown, self._bounded, self._last_s
        for job in jobs:
            submit_s, start_s, end_s, order = job.submit_s, job.start_s, job.end_s, job.order
            wait, run, response = start_s - submit_s, end_s - start_s, end_s - submit_s
            submits[order], waits[order] = submit_s, wait
            wait_s += wait
            response_s += response
            if job.pauses or job.molds is not None:
                node_s += job.node_seconds()
                if isinstance(job, MalleableJob):
                    changes += job.changes
            else:
                node_s += job.nodes * run
            slowdown += response / run if run else response
            if run >= TAU_S:
                bounded += response / run
            elif response > TAU_S:
                bounded += response / TAU_S
            else:
                bounded += 1.0
            if end_s > last_s:
                last_s = end_s
        self._wait_s += wait_s
        self._response_s += response_s
        self._node_s += node_s
        self._changes += changes
        self._slowdown, self._bounded, self._last_s = slowdown, bounded, last_s
        self.jobs += len(jobs)

    def summary(self) -> Summary:
        """Return the metrics of the jobs so far; more may be added afterwards."""
        jobs = self.jobs
        if not jobs:
            return Summary()
        waits = self._waits
        if len(waits) > jobs:
            waits = array(waits.typecode, (wait for wait in waits if wait >= 0))
        lower, upper, p95_s = ranked(waits, ((jobs - 1) // 2, jobs // 2, -(-95 * jobs // 100) - 1))
        makespan_s = self._last_s - self._first_submission()
        # Jobs that all take no time at all: whatever is divided by the makespan is nothing.
        span_s = makespan_s or 1
        return Summary(
            jobs=jobs,
            mean_wait_s=self._wait_s / jobs,
            median_wait_s=(lower + upper) / 2,
            p95_wait_s=p95_s,
            max_wait_s=max(waits),
            mean_response_s=self._response_s / jobs,
            mean_slowdown=self._slowdown / jobs,
            mean_bounded_slowdown=self._bounded / jobs,
            utilization=self._node_s / (self.nodes * span_s),
            makespan_s=makespan_s,
            mean_queue_depth=self._wait_s / span_s,
            max_queue_depth=self._deepest(),
            throughput_per_s=jobs / span_s,
            reconfigurations=self._changes,
        )

    def _first_submission(self) -> int:
        submitted = zip(self._submits, self._waits, strict=True)
        return next(submit_s for submit_s, wait in submitted if wait >= 0)

    def _deepest(self) -> int:
        """Return the greatest queue depth: it is reached when a job begins to wait."""
        deepest = 0
        starts: list[int] = []
        for submit_s, wait in zip(self._submits, self._waits, strict=True):
            if wait > 0:
                while starts and starts[0] <= submit_s:
                    heappop(starts)
                heappush(starts, submit_s + wait)
                if len(starts) > deepest:
                    deepest = len(starts)
        return deepest


def ranked(values: Sequence[int], ranks: Sequence[int]) -> list[int]:
    """Return the values that stand at `ranks`, ascending and from 0, when all are sorted.

    None may be below 0.

    Counts the values by their leading bits, then looks only into the buckets that hold a rank: a few
    passes, and hardly any memory next to `values`.
    """
    shift = max(max(values).bit_length() - _BITS, 0)
    counts = Counter(map(rshift, values, repeat(shift)))
    wanted: dict[int, list[int]] = {}
    buckets = iter(sorted(counts))
    bucket, below = next(buckets), 0
    for rank in ranks:
        while rank >= below + counts[bucket]:
            below += counts[bucket]
            bucket = next(buckets)
        wanted.setdefault(bucket, []).append(rank - below)
    if not shift:
        return [bucket for bucket, within in wanted.items() for _ in within]
    found: list[int] = []
    for bucket, within in wanted.items():
        low = bucket << shift
        inside = array("q", [value for value in values if value >> shift == bucket])
        found += [low + each for each in ranked(array("q", (v - low for v in inside)), within)]
    return found
