"""A job of a workload: what the policy may know, and how long it really runs."""

from __future__ import annotations

from math import ceil

from kalends.scheduling.job import Job, stretched


class SimulatedJob(Job, eq=False, gc=False):
    """A rigid job. Only the kernel reads `run_s`; no policy ever does."""

    run_s: int = 0
    """Run time on the reference node; after a preemption, the rest of it."""
    end_s: int = -1
    """Expected end; -1 while it waits."""
    pauses: tuple[tuple[int, int], ...] = ()
    """Begin and end of times when it was preempted; -1 for an end that has not come."""
    pace: float = 1.0
    """The `stretch` from which `end_s` was computed."""
    run: int = 0
    """The number of its last start, stop or change among all of them: older ends are void."""
    line: str = ""
    """Its line in the log, if results are written as a log again."""

    def node_seconds(self) -> int:
        """Return the nodes times seconds that it had, after its end."""
        paused_s = sum(end_s - start_s for start_s, end_s in self.pauses)
        return self.nodes * (self.end_s - self.start_s - paused_s)

    def reckon(self, now: int) -> None:
        """Compute a new end, because its nodes changed now (to `granted`)."""
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
        """Stop running from now on. It may have been started and stopped in one pass."""
        if not self.pauses or self.pauses[-1][1] >= 0:
            self.pauses = (*self.pauses, (now, -1))

    def unpause(self, now: int) -> None:
        if self.pauses and self.pauses[-1][1] < 0:
            self.pauses = (*self.pauses[:-1], (self.pauses[-1][0], now))
