"""A policy of one's own: each user's shortest job first, never two jobs of one user at once.

PYTHONPATH=examples kalends simulate LOG --nodes 128 --policy my_policy:OnePerUser
"""

from kalends.scheduling import Job, QueuePolicy


class OnePerUser(QueuePolicy):
    """`self.queue` holds who waits, in order of submission; `self.cluster` knows what is free."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.running: set[int] = set()

    def ended(self, job: Job, now: int) -> None:
        self.running.discard(job.user)

    def schedule(self, now: int) -> None:
        for job in sorted(self.queue, key=lambda job: (job.requested_s, job.order)):
            if job.user not in self.running and self.cluster.start(job, now):
                self.queue.remove(job)
                self.running.add(job.user)
