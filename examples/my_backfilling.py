"""A policy with a reservation: the first job in the queue is promised a start, and others may not delay it.

PYTHONPATH=examples kalends simulate LOG --nodes 128 --policy my_backfilling:FirstPromised,easy
"""

from kalends.scheduling import QueuePolicy


class FirstPromised(QueuePolicy):
    """EASY backfilling (Lifka 1995), written with the plan of the cluster alone."""

    def schedule(self, now: int) -> None:
        plan = self.cluster.plan(now)
        promised = False
        for job in list(self.queue):
            start_s = plan.earliest(job.nodes, job.requested_s, now)
            if start_s == now and self.cluster.start(job, now):
                self.queue.remove(job)
            elif promised:
                continue
            else:
                # The first that cannot start keeps its place in the plan from those behind it.
                promised = True
            plan.take(job.nodes, start_s, start_s + job.requested_s)
