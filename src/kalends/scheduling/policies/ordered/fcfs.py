"""First come, first served."""

from __future__ import annotations

from kalends.scheduling.policies.ordered.queue import QueuePolicy


class Fcfs(QueuePolicy):
    """Strictly in order of submission: nothing overtakes (Jones and Pang 2003, section 4.1)."""

    def schedule(self, now: int) -> None:
        queue, start = self.queue, self.cluster.start
        while queue and start(queue[0], now):
            queue.popleft()
