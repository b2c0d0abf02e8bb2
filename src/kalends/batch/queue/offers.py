"""Offered places in a queue: held for a user who may still choose a place elsewhere.

They are what sites bid with (Weissman and Grimshaw 1996, section 4).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import QueueEffects
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue.submission import check_submission
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.policy import promised_start


def are_soft(effects: QueueEffects) -> bool:
    """Return whether something has happened, and only that places are offered, or are given up untaken.

    If such facts are lost, nobody misses them: a restart ends what was offered. They may not be lost where
    something rests on them, so they are stored before all that happens later.
    """
    given_up = {job.number for job in effects.over if job.offered}
    facts = [each.fact for each in effects.entries]
    followed = effects.actions or effects.milestones
    return bool(facts) and not followed and all(_is_soft(each, given_up) for each in facts)


def _is_soft(fact: f.Fact, given_up: Collection[int]) -> bool:
    if isinstance(fact, f.Decided):
        return not fact.fault and _is_soft(fact.about, given_up)
    if isinstance(fact, f.JobWithdrawn):
        return fact.job in given_up
    return isinstance(fact, f.JobSubmitted) and fact.offered_s > 0


@dataclass(frozen=True)
class PlaceOffers:
    """Offered jobs stand in `queue` as others do, and begin only once they are taken.

    So nothing but their place is held: who is behind moves up when an offer ends, and no hole is left.
    """

    queue: BatchQueue

    def offer(
        self, principal: Principal, request: JobRequest, key: str, counted_s: int, now: int,
        pays: f.JobPays | None = None,
    ) -> int:  # fmt: skip
        """Give a job its place, and return its number. Repeating is harmless.

        Its nodes are counted as its own for `counted_s` longer than its limit: in that time it may be taken
        when they are free already. An offer ends by `BatchQueue.cancel`. Raises as `BatchQueue.submit`
        does, and `InvalidInput` for jobs that do not simply wait for nodes.
        """
        request.check_offered()
        queue = self.queue
        known = queue.flow.table.submitted_before(principal.user, key, request)
        if known is not None:
            return known.first
        number = queue.next_number
        check_submission(queue.flow, principal, request, number, max(now, queue.last_s))
        queue.record(f.JobSubmitted(number, key, principal, request, counted_s, pays), now)
        return number

    def take(self, number: int, now: int) -> None:
        """Let an offered job run; repeating is harmless. Raises `NotFound`."""
        if self.queue.job(number).offered:
            self.queue.record(f.OfferTaken(number), now)

    def start_by(self, number: int, decided_s: int = 0) -> int:
        """Return when a job has nodes, and may begin, at the latest, if that is promised; else 0.

        An offer does not begin before it is taken, and that may be at `decided_s`; 0: it is taken at once. It
        holds as long as jobs end within their limits and `Terms.ending_s`, and offers are decided in the time
        that is counted for them; nodes that fail and reservations that the owner gives precedence end it.
        Raises `NotFound`.
        """
        job = self.queue.job(number)
        if job.phase == "kept" and decided_s > job.since_s + job.offered_s:
            return 0  # By then its nodes may be somebody's.
        if job.on_nodes:
            return max(job.since_s, decided_s)
        policy = self.queue.flow.room.scheduler.policy
        start_s = promised_start(policy, job.entry) if job.entry is not None else 0
        return max(start_s, decided_s) if start_s else 0
