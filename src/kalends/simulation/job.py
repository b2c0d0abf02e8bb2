"""A job of a workload: what the policy may know, and how long it really runs."""

from __future__ import annotations

from math import ceil

from kalends.scheduling.job import Job, stretched


class SimulatedJob(Job, eq=False, gc=False):
    """A rigid job. Only the kernel reads `run_s`; no policy ever does."""

    run_s: int = 0
    """How long it runs on the reference node; after a preemption, what is left of it."""
    end_s: int = -1
    """When it ends, as things stand; -1 while it waits."""
    pauses: tuple[tuple[int, int], ...] = ()
    """From when to when it did not run, because it was preempted; -1 for an end that is not yet."""
    pace: float = 1.0
    """The `stretch` that `end_s` was worked out with."""
    run: int = 0
    """The number of its last start, stop or change among all of them: older ends are void."""
    line: str = ""
    """Its line in the log, where results are written as a log again."""

    def node_seconds(self) -> int:
        """Nodes times seconds that it had, now that it has ended."""
        paused_s = sum(end_s - start_s for start_s, end_s in self.pauses)
        return self.nodes * (self.end_s - self.start_s - paused_s)

    def resume(self, now: int) -> None:
        """Its nodes changed now (`granted` says to how many): work out anew when it ends."""
        if self.end_s >= 0:
            left_s = self.end_s - now
            self.run_s = left_s if self.pace == 1.0 else ceil(left_s / self.pace)
        if not self.granted:
            self.end_s = -1
            self.pause(now)
            return
        if self.pauses:
            self.unpause(now)
        pace = self.stretch
        self.end_s = now + self.run_s if pace == 1.0 else now + stretched(self.run_s, pace)
        if pace != self.pace:
            self.pace = pace

    def pause(self, now: int) -> None:
        """It does not run from now on. It may have been started and stopped again in one pass."""
        if not self.pauses or self.pauses[-1][1] >= 0:
            self.pauses = (*self.pauses, (now, -1))

    def unpause(self, now: int) -> None:
        """It runs from now on."""
        if self.pauses and self.pauses[-1][1] < 0:
            self.pauses = (*self.pauses[:-1], (self.pauses[-1][0], now))
