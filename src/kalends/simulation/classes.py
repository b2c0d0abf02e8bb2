"""Metrics by class of job: user or queue, size or length, and others.

Means, medians and percentiles are those of `kalends.simulation.metrics`, over the jobs of one class.
`utilization` is the class's part of the whole schedule's: over all nodes and the makespan of all jobs, so
that the classes add up to it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.simulation.job import SimulatedJob
from kalends.simulation.metrics import TAU_S, ranked
from kalends.simulation.workloads.swf_fields import SwfJob

UNKNOWN: Final = "unknown"
"""The class of jobs whose user, group or queue is unknown."""

CLASSES_MAX: Final = 10_000
"""Maximum number of classes of one kind; with more, every job would be a class of its own."""

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_BOUNDS_S: Final = (
    _MINUTE_S, 10 * _MINUTE_S, _HOUR_S, 4 * _HOUR_S, 12 * _HOUR_S, _DAY_S, 3 * _DAY_S,
)  # fmt: skip
_TIMES: Final = ("<1m", "1m-10m", "10m-1h", "1h-4h", "4h-12h", "12h-1d", "1d-3d", ">=3d")


class ClassMetrics(msgspec.Struct, frozen=True):
    """The metrics of the jobs of one class."""

    name: str
    jobs: int
    mean_wait_s: float
    median_wait_s: float
    p95_wait_s: int
    max_wait_s: int
    mean_response_s: float
    mean_bounded_slowdown: float
    node_seconds: int
    """Nodes x time that the jobs had."""
    utilization: float


class Kind(msgspec.Struct, frozen=True):
    """A way to divide jobs into classes."""

    of: Callable[[SimulatedJob], tuple[int, str]]
    """The class of a job that has ended: its place among the others, and its name."""
    summary: str
    ordered: bool = True
    """Whether the classes have an order of their own; if not, who had the most comes first."""
    lined: bool = False
    """Whether the job's line in the log is needed."""


def _nodes(job: SimulatedJob) -> tuple[int, str]:
    """Return the class by powers of two: 1, 2, 3-4, 5-8 and so on."""
    doublings = (job.nodes - 1).bit_length()
    least, most = (1 << doublings >> 1) + 1, 1 << doublings
    return doublings, str(most) if least >= most else f"{least}-{most}"


def _time(length_s: int) -> tuple[int, str]:
    at = bisect_right(_BOUNDS_S, length_s)
    return at, _TIMES[at]


def _number(number: int) -> tuple[int, str]:
    return number, UNKNOWN if number < 0 else str(number)


def _field(name: str) -> Callable[[SimulatedJob], tuple[int, str]]:
    at = SwfJob.__struct_fields__.index(name)

    def of(job: SimulatedJob) -> tuple[int, str]:
        if not job.line:
            raise InvalidInput(
                f"only jobs of a log have a {name}", where="by", remedy=f"leave {name} out"
            )
        word = job.line.split()[at]
        return (int(word) if word.isdecimal() else -1), (UNKNOWN if word == "-1" else word)

    return of


KINDS: Final[Mapping[str, Kind]] = {
    "nodes": Kind(_nodes, "how many it asked for, in powers of two"),
    "run_time": Kind(lambda job: _time(job.end_s - job.start_s), "how long it ran"),
    "requested_time": Kind(
        lambda job: _time(job.asked_s or job.requested_s), "how long policies believed it would run"
    ),
    "priority": Kind(lambda job: (job.priority, str(job.priority)), "its priority"),
    "user": Kind(lambda job: _number(job.user), "whose it was", ordered=False),
    "group": Kind(_field("group"), "the log's field 13", ordered=False, lined=True),
    "queue": Kind(_field("queue"), "the log's field 15", ordered=False, lined=True),
    "partition": Kind(_field("partition"), "the log's field 16", ordered=False, lined=True),
}
"""The kinds of classes by which `simulate` can break down the metrics, by name."""


def check_kinds(names: Iterable[str]) -> None:
    """Raise `InvalidInput` unless all are names of `KINDS`."""
    for name in names:
        if name not in KINDS:
            raise InvalidInput(
                f"unknown job class {excerpt(name)!r}",
                where="by",
                remedy=f"write some of {', '.join(KINDS)}",
            )


class _Class:
    """The jobs of one class so far."""

    __slots__ = ("bounded", "node_s", "response_s", "waits")

    def __init__(self) -> None:
        self.waits = array("q")
        self.response_s = 0
        self.node_s = 0
        self.bounded = 0.0

    def add(self, job: SimulatedJob) -> None:
        response_s, run_s = job.end_s - job.submit_s, job.end_s - job.start_s
        self.waits.append(job.start_s - job.submit_s)
        self.response_s += response_s
        self.node_s += job.node_seconds()
        self.bounded += max(1.0, response_s / max(run_s, TAU_S))

    def metrics(self, name: str, node_span_s: int) -> ClassMetrics:
        jobs = len(self.waits)
        lower, upper, p95_s = ranked(
            self.waits, ((jobs - 1) // 2, jobs // 2, -(-95 * jobs // 100) - 1)
        )
        return ClassMetrics(
            name=name,
            jobs=jobs,
            mean_wait_s=sum(self.waits) / jobs,
            median_wait_s=(lower + upper) / 2,
            p95_wait_s=p95_s,
            max_wait_s=max(self.waits),
            mean_response_s=self.response_s / jobs,
            mean_bounded_slowdown=self.bounded / jobs,
            node_seconds=self.node_s,
            utilization=self.node_s / node_span_s,
        )


class Breakdown:
    """Takes the ended jobs of one replay, and says what they amount to by class, for several kinds of class.

    `kinds` are names of `KINDS`; raises `InvalidInput` for others. Eight bytes a job for each kind.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        check_kinds(kinds)
        self._classes: dict[str, dict[tuple[int, str], _Class]] = {kind: {} for kind in kinds}

    @property
    def lined(self) -> bool:
        """Whether jobs must have their lines of the log."""
        return any(KINDS[kind].lined for kind in self._classes)

    def add(self, job: SimulatedJob) -> None:
        """Add a job that has ended. Raises `InvalidInput` for a missing field or too many classes."""
        for kind, classes in self._classes.items():
            key = KINDS[kind].of(job)
            found = classes.get(key)
            if found is None:
                if len(classes) == CLASSES_MAX:
                    raise InvalidInput(
                        f"there are more than {CLASSES_MAX:,} classes of jobs by {kind}",
                        where="by",
                        remedy=f"leave {kind} out",
                    )
                found = classes[key] = _Class()
            found.add(job)

    def metrics(self, nodes: int, makespan_s: int) -> dict[str, list[ClassMetrics]]:
        """Return the classes of each kind, in their order, or those that had the most first."""
        found: dict[str, list[ClassMetrics]] = {}
        for kind, classes in self._classes.items():
            keys = sorted(classes)
            if not KINDS[kind].ordered:
                keys.sort(key=lambda key: -classes[key].node_s)
            found[kind] = [classes[key].metrics(key[1], nodes * (makespan_s or 1)) for key in keys]
        return found
