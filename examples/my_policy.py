"""A policy of one's own: each user's shortest job first, never more than `most` jobs of one user at once.

PYTHONPATH=examples kalends simulate LOG --nodes 128 --policy my_policy:OnePerUser,my_policy:OnePerUser:2
"""

from collections import Counter

from kalends.scheduling import Job, QueuePolicy


class OnePerUser(QueuePolicy):
    """Each user's shortest job first, at most `most` of a user at once.

    `self.queue` holds who waits, in order of submission; `self.cluster` knows what is free.
    """

    def __init__(self, cluster, most: int = 1):
        super().__init__(cluster)
        self.most = most
        self.running: Counter[int] = Counter()

    def ended(self, job: Job, now: int) -> None:
        self.running[job.user] -= 1

    def schedule(self, now: int) -> None:
        for job in sorted(self.queue, key=lambda job: (job.requested_s, job.order)):
            if self.running[job.user] < self.most and self.cluster.start(job, now):
                self.queue.remove(job)
                self.running[job.user] += 1
