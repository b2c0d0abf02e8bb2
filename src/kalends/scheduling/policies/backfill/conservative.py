"""Conservative backfilling: every job has a reserved start from its submission on, which never gets later.

Mu'alem and Feitelson 2001. A job is reserved the earliest time that changes no earlier reservation.
After every end, each waiting job, in order of submission, moves to the earliest time that the present
reservations of the others leave it. Among jobs that start in the same second, the one whose start was
reserved first starts first, as in pyss: a job that moved there comes after one that was there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policies.backfill.compression import Compression
from kalends.scheduling.policies.backfill.promises import StartTurns, put_in_order
from kalends.scheduling.policy import Policy
from kalends.scheduling.profile import NEVER, Profile, QueuedPlan


def conservative(cluster: Cluster) -> Policy:
    """Return the policy for the nodes of `cluster`: counted, in parts of a grid, or with names."""
    if cluster.counts:
        return Conservative(cluster)
    # Imported here: most replays only count nodes.
    from kalends.scheduling.grid import Grid
    from kalends.scheduling.mapped import MappedCluster
    from kalends.scheduling.policies.backfill.conservative_placed import PlacedConservative

    if isinstance(cluster, Grid) or (isinstance(cluster, MappedCluster) and not cluster.as_counted):
        return PlacedConservative(cluster)
    return Conservative(cluster)


class Conservative:
    """Conservative backfilling: no job delays an earlier one. `promised` gives each waiting job's start.

    The plan counts nodes. When room is lost (a job is late, a reservation arrives, nodes leave service), all
    promises are examined in order of submission: one stays if those before it leave it room, and otherwise
    becomes the earliest time that they leave. A job that needs nodes out of service holds nothing back.
    `conservative` never uses this class for a cluster that may refuse a job although enough nodes are free,
    but a user's own cluster may: a refused job then moves to the next time at which the plan changes.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wakes = cluster.reserved or not cluster.counts or cluster.live
        self._plan: Profile | None = None
        """Free nodes next to running, waiting and reserved jobs, from the last event on."""
        self._starts: dict[Job, int] = {}
        """Reserved start of each waiting job, in order of submission."""
        self._turns = StartTurns()
        self._next_s = NEVER
        """The first reserved start."""
        self._freed_until_s = 0
        """Latest freed time since each waiting job was last examined; `NEVER`: examine all time."""
        self._freed_from_s = NEVER
        """First freed time since then: jobs that start by then gain nothing."""
        self._revision = cluster.revision
        """The revision of the plan."""
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        self._give_back(job, now, job.until_s, now)

    def withdrawn(self, job: Job, now: int) -> None:
        start_s = self._starts.pop(job)
        self._turns.forget(job)
        if start_s < NEVER:
            self._give_back(job, max(start_s, now), start_s + job.requested_s, now)

    def returned(self, job: Job, now: int) -> None:
        put_in_order(self._starts, job, NEVER)
        self._freed_from_s, self._freed_until_s = now, NEVER

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        if self._revision != self.cluster.revision or self._next_s < now:
            self._plan_anew(now)
            if fresh is not None:
                self._promise(fresh, NEVER)
                fresh = None
        plan = self._planned(now)
        if fresh is None:
            self._move_all(plan, now)
            return
        self._reserve(fresh, plan, now)
        if self._starts[fresh] == now < self._next_s:
            self._start(fresh, plan, now)
        start_s = self._starts.get(fresh, NEVER)
        if start_s < self._next_s:
            self._next_s = start_s

    def waiting(self) -> Iterator[Job]:
        return iter(self._starts)

    def wake_at(self, now: int) -> int | None:
        return self._next_s if self._next_s < NEVER else None

    def promised(self, job: Job) -> int:
        """Return the start reserved for a waiting job.

        It only gets later if a promise cannot be kept, see above.

        `NEVER` while it needs nodes that are out of service. Raises `KeyError` of jobs that do not wait.
        """
        return self._starts[job]

    def _plan_anew(self, now: int) -> None:
        """Plan with the nodes that are free by now: keep promises if possible, and examine all."""
        self._revision = self.cluster.revision
        starts, width_of = self._starts, self.cluster.width
        # A start that passed unnoticed is due.
        promised = [
            (max(start_s, now), max(start_s, now) + job.requested_s, width_of(job), job)
            for job, start_s in starts.items()
            if start_s < NEVER
        ]

        def plan_with(count: int) -> Profile:
            return self.cluster.plan(now, [each[:3] for each in promised[:count]])

        def fails(count: int) -> bool:
            return min(plan_with(count).free) < 0

        # Each kept promise leaves less free, so the first impossible one is found by bisection.
        stand = len(promised)
        if fails(stand):
            stand = bisect_left(range(1, stand), True, key=fails)
        starts.update((job, start_s) for start_s, _, _, job in promised[:stand])
        self._plan = plan_with(stand)
        self._promise_anew(promised[stand:], self._plan)
        self._next_s, self._freed_from_s, self._freed_until_s = now, now, NEVER

    def _promise_anew(self, promised: list[tuple[int, int, int, Job]], plan: Profile) -> None:
        """Keep each promise, in order of submission, or give it the earliest time that those before it leave.

        A promise to a later job does not block an earlier one: otherwise a job that is displaced by a second
        would wait for the whole of a job that was submitted after it.
        """
        queued = QueuedPlan(plan)
        for start_s, end_s, width, job in promised:
            if not queued.has_room(width):
                self._promise(job, NEVER)
            elif plan.fits(width, start_s, end_s):
                plan.take(width, start_s, end_s)
                self._starts[job] = start_s
            else:
                self._promise(job, queued.book(width, job.requested_s))

    def _reserve(self, job: Job, plan: Profile, not_before: int) -> None:
        width = self.cluster.width(job)
        start_s = NEVER
        if width <= plan.free[-1]:
            start_s = plan.earliest(width, job.requested_s, not_before)
            plan.take(width, start_s, start_s + job.requested_s)
        self._promise(job, start_s)

    def _promise(self, job: Job, start_s: int) -> None:
        self._starts[job] = start_s
        self._turns.reserved(job)

    def _move_all(self, plan: Profile, now: int) -> None:
        """Examine each waiting job, in order of submission; start those that are due."""
        starts, freed_until_s = self._starts, self._freed_until_s
        freed_from_s, self._freed_from_s = self._freed_from_s, NEVER
        if not starts:
            self._freed_until_s, self._next_s = now, NEVER
            return
        if not self.cluster.counts:
            # A refused job does not fit where the plan has room for it.
            freed_from_s, freed_until_s = now, NEVER
        if freed_until_s <= now < self._next_s:
            return
        due, self._freed_until_s = self._moved_up(plan, now, freed_from_s, freed_until_s)
        for job in self._turns.sort(due):
            self._start(job, plan, now)
        self._next_s = min(starts.values(), default=NEVER)

    def _moved_up(
        self, plan: Profile, now: int, freed_from_s: int, freed_until_s: int
    ) -> tuple[list[Job], int]:
        """Give each waiting job the earliest start; return the due jobs, and the end of freed time.

        `freed_from_s` and `freed_until_s` bound the time that has become free since each was examined.
        """
        width_of, lasting = self.cluster.width, plan.free[-1]
        due: list[Job] = []
        compression = Compression(plan, freed_from_s, freed_until_s)
        for job, start_s in list(self._starts.items()):
            earlier_s = start_s
            if start_s > compression.from_s and job.nodes <= compression.roof:
                width = width_of(job)
                if width <= lasting:
                    earlier_s = compression.move(width, job.requested_s, start_s)
                    if earlier_s < start_s:
                        self._promise(job, earlier_s)
            if earlier_s <= now:
                due.append(job)
        self._freed_from_s = min(self._freed_from_s, compression.moved_from_s)
        return due, compression.moved_until_s

    def _start(self, job: Job, plan: Profile, now: int) -> None:
        if self.cluster.start(job, now):
            del self._starts[job]
            self._turns.forget(job)
            return
        plan.take(-self.cluster.width(job), now, now + job.requested_s)
        if plan.times[-1] > now:
            self._reserve(job, plan, plan.next_border(now))
        else:
            # All nodes in service are free and do not suffice: only other nodes would help.
            self._promise(job, NEVER)

    def _give_back(self, job: Job, start_s: int, end_s: int, now: int) -> None:
        if end_s > now:
            self._planned(now).take(-self.cluster.width(job), start_s, end_s)
            self._freed_from_s = min(self._freed_from_s, start_s)
            self._freed_until_s = max(self._freed_until_s, end_s)

    def _planned(self, now: int) -> Profile:
        if self._plan is None:
            self._plan = self.cluster.plan(now)
        self._plan.forget_before(now)
        return self._plan
