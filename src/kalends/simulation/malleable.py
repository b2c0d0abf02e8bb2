"""Jobs of a workload that can run on several sizes, and may be changed from one to another on the way.

The model of Konuru, Moreira and Naik 1996 (sections 2 and 5): setup, then a number of equal iterations,
then summary, each with a duration for every size. A job can change its size only where an iteration
begins, and there only before every n-th of them.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from kalends.core.errors import InvalidInput
from kalends.scheduling.job import Moldability
from kalends.simulation.job import SimulatedJob


class Course(msgspec.Struct, frozen=True):
    """Run times of each phase on each size, and where and at what cost the size can change.

    All `iterations` together take `solution_s[i]` on `sizes[i]` nodes; sizes ascend. A change begins
    before an iteration whose number (from 0) is a multiple of `every`, and stops the job for
    `reconfiguration_s`; nodes that it gives up are free `redistribution_s` after its beginning. Raises
    `InvalidInput`.
    """

    sizes: tuple[int, ...]
    solution_s: tuple[int, ...]
    setup_s: tuple[int, ...] = ()
    """Empty: none, as with `summary_s`."""
    summary_s: tuple[int, ...] = ()
    iterations: int = 1
    every: int = 1
    reconfiguration_s: int = 0
    redistribution_s: int = 0

    def __post_init__(self) -> None:
        sizes = self.sizes
        if not sizes or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
            raise InvalidInput(
                f"{list(sizes)}", where="sizes", remedy="give numbers of nodes, ascending"
            )
        for name, times, least in (
            ("solution_s", self.solution_s, 1),
            ("setup_s", self.setup_s or (0,) * len(sizes), 0),
            ("summary_s", self.summary_s or (0,) * len(sizes), 0),
        ):
            if len(times) != len(sizes) or min(times) < least:
                raise InvalidInput(
                    f"{list(times)} for {len(sizes)} sizes",
                    where=name,
                    remedy=f"give one time of {least} or more for each size",
                )
        if self.iterations < 1 or self.every < 1:
            raise InvalidInput(
                f"{self.iterations} iterations, a change before every {self.every}",
                where="iterations",
                remedy="give 1 or more of both",
            )
        if not 0 <= self.redistribution_s <= self.reconfiguration_s:
            raise InvalidInput(
                f"redistribution {self.redistribution_s}, reconfiguration {self.reconfiguration_s}",
                where="redistribution_s",
                remedy="redistribution is a part of reconfiguration: give no more than that",
            )

    def before_s(self, at: int) -> int:
        """Return the setup on ``sizes[at]``."""
        return self.setup_s[at] if self.setup_s else 0

    def after_s(self, at: int) -> int:
        """Return the summary on ``sizes[at]``."""
        return self.summary_s[at] if self.summary_s else 0

    def total_s(self, at: int) -> int:
        """Return all phases on ``sizes[at]``, without a change."""
        return self.before_s(at) + self.solution_s[at] + self.after_s(at)

    def iterations_s(self, count: int, at: int) -> int:
        """Return the time of `count` iterations, rounded up to a second."""
        return -(-count * self.solution_s[at] // self.iterations)

    def boundary(self, elapsed_s: int, done: int, at: int) -> int:
        """Return the first iteration after `done` before which a change can begin, `elapsed_s` or more later.

        `iterations` or more: there is none any more.
        """
        if elapsed_s > 0:
            done += (elapsed_s - 1) * self.iterations // self.solution_s[at] + 1
        return -(-done // self.every) * self.every

    def stretched(self, factor: float) -> Course:
        """Return the same on nodes on which all takes `factor` as long."""
        return msgspec.structs.replace(
            self,
            solution_s=tuple(_stretched(self.solution_s, factor)),
            setup_s=tuple(_stretched(self.setup_s, factor)),
            summary_s=tuple(_stretched(self.summary_s, factor)),
        )

    def molds(self, *, malleable: bool, spare_s: int = 0) -> Moldability:
        """Return the sizes for a policy: total times, each `spare_s` longer than the truth."""
        return Moldability(
            self.sizes,
            tuple(self.total_s(at) + spare_s for at in range(len(self.sizes))),
            malleable,
            self.reconfiguration_s,
        )


def _stretched(times_s: tuple[int, ...], factor: float) -> list[int]:
    return [-int(-time_s * factor // 1) for time_s in times_s]


class MalleableJob(SimulatedJob, eq=False):
    """A job that runs through a `course`; moldable only, if its `molds` say that it is not malleable.

    Work is counted in iterations, which are whole: between two changes the k-th is over after
    ``ceil(k * solution_s / iterations)``, exactly, however often the size changed before.
    """

    course: Course | None = None
    change_s: int = -1
    """When the requested change will be made; -1: none."""
    turns_before: int = 0
    """The iteration before which that change begins."""
    changes: int = 0
    """Number of changes of its size."""
    at: int = -1
    """The index of the size that it computes on; -1 before it began."""
    done: int = 0
    """Iterations done when it began to compute on that size."""
    since_s: int = 0
    """When it began to compute on that size."""
    held: list[tuple[int, int]] = []
    """Nodes and the times from which it had them, ``(since_s, nodes)``; 0 while preempted."""

    def reckon(self, now: int) -> None:
        # Whole units, where only they are given, count as what was asked for: as with rigid jobs.
        held = self.granted if self.target else self.nodes
        self._hold(now, held if self.granted else 0)
        if not self.granted:
            self._pause(now)
        elif self.at < 0:
            self._begin(now)
        elif self.pauses and self.pauses[-1][1] < 0:
            self.since_s += now - self.pauses[-1][0]
            self.unpause(now)
            self.end_s = self._end_s(self.at, self.done, self.since_s)
        else:
            self._turn(now)

    def changed(self, now: int) -> int:
        """Return the change that was asked for is made.

        Says by when the job is over, by the user's estimate.
        """
        course, molds = self.course, self.molds
        assert course is not None
        assert molds is not None
        self.at = course.sizes.index(self.target)
        self.done = self.turns_before
        self.since_s = now - course.redistribution_s + course.reconfiguration_s
        self.change_s = -1
        self.changes += 1
        self._hold(now, self.target)
        return self.end_s + molds.requested_s[self.at] - course.total_s(self.at)

    def node_seconds(self) -> int:
        """Return the nodes times seconds that it had, after its end."""
        return sum(nodes * (end_s - start_s) for start_s, end_s, nodes in self.stretches())

    def stretches(self) -> list[tuple[int, int, int]]:
        """Return ``(start_s, end_s, nodes)`` of each time in which an ended job had that many nodes.

        Who changes and changes back within one second has kept its nodes.
        """
        found: list[tuple[int, int, int]] = []
        for (since_s, nodes), (until_s, _) in pairwise([*self.held, (self.end_s, 0)]):
            if not nodes or until_s == since_s:
                continue
            if found and found[-1][1:] == (since_s, nodes):
                since_s = found.pop()[0]
            found.append((since_s, until_s, nodes))
        return found

    def mean_nodes(self) -> int:
        """Return the mean nodes of an ended job while it had any, to the nearest whole number."""
        length_s = sum(end_s - start_s for start_s, end_s, _ in self.stretches())
        return (2 * self.node_seconds() + length_s) // (2 * length_s) if length_s else self.nodes

    def _begin(self, now: int) -> None:
        assert self.course is not None
        self.unpause(now)
        if self.stretch != 1.0:
            self.course = self.course.stretched(self.stretch)
        self.at = self.course.sizes.index(self.nodes)
        self.since_s = now + self.course.before_s(self.at)
        self.run_s = self.course.total_s(self.at)
        self.end_s = now + self.run_s

    def _turn(self, now: int) -> None:
        """Plan the change to `target`: at the next boundary, if there is one left."""
        course = self.course
        assert course is not None
        # A job that has just been changed stands behind its boundary already.
        first = self.done + 1 if self.changes else 0
        self.turns_before = max(
            course.boundary(now - self.since_s, self.done, self.at),
            course.boundary(0, first, self.at),
        )
        if self.turns_before >= course.iterations:
            return
        begins_s = self.since_s + course.iterations_s(self.turns_before - self.done, self.at)
        self.change_s = begins_s + course.redistribution_s
        self.end_s = self._end_s(
            course.sizes.index(self.target), self.turns_before, begins_s + course.reconfiguration_s
        )

    def _pause(self, now: int) -> None:
        """Preempt it; a change that had begun is dropped."""
        course = self.course
        assert course is not None
        if self.change_s >= 0 and now > self.change_s - course.redistribution_s:
            self.done, self.since_s = self.turns_before, now
        self.end_s = self.change_s = -1
        self.pause(now)

    def _end_s(self, at: int, done: int, since_s: int) -> int:
        course = self.course
        assert course is not None
        return since_s + course.iterations_s(course.iterations - done, at) + course.after_s(at)

    def _hold(self, now: int, nodes: int) -> None:
        if not self.held or self.held[-1][1] != nodes:
            self.held.append((now, nodes))
