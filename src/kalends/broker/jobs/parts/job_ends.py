"""Ends of placed jobs: stored in the register, sent to their users, and learned from.

A job that could not be started is asked for elsewhere first: its site has its answer when that is stored.

A site says it again until it has an answer, at any later time, and to all replicas. The first word that is
written down stands; each replica learns from it, once for each job, and from
none that is no newer than those which it has forgotten: it cannot tell whether that one was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kalends.broker.coordination.parts import CoordinatorPart, after, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.believed_ends import limit_at
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.wings import Ground
from kalends.broker.jobs.parts.places_elsewhere import submit_elsewhere
from kalends.contract import messages as m
from kalends.contract.calls import PlacedEnd
from kalends.core.errors import KalendsError
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.federation.bid_tally import BidTally
from kalends.federation.learned_runs import JobRun, LearnedRuns

NOT_STARTED: Final = 0
"""The mark of a place elsewhere for a job that could not be started: no change of it has this number."""

REMEMBERED: Final = 16_384
"""The last jobs from which was learned are known one by one, so that none counts twice."""


@dataclass(eq=False)
class JobEnds:
    """Hears of ends, and knows which have been counted."""

    ground: Ground
    learned: LearnedRuns
    tally: BidTally
    _counted: dict[str, int] = field(init=False, default_factory=dict)
    """When each of the last jobs ended (seconds UTC), in the order in which they were counted."""
    _counted_until: int = field(init=False, default=0)
    """Nothing is learned from others that were over by then (seconds UTC): counted before, or too old."""

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(
            handles=(on(m.EndOfJob, self.heard),),
            follows=(after(r.NoteEnd, lambda op, found, now: self.noted(op, found.record, now)),),
        )

    def heard(self, site: str, ended: m.EndOfJob, now: Moment) -> None:
        """Have it written down, if the register knows the job as one of `site`. No end lies ahead."""
        at = min(ended.at, now.wall_s)
        end = PlacedEnd(at=at, end=ended.end, status=ended.status, ran_s=ended.ran_s)
        self.ground.outbox.write(r.NoteEnd(ended.rid, ended.att, site, end, site))

    def noted(self, op: r.NoteEnd, row: Record | None, now: Moment) -> None:
        """Answer, unless something else has to be known first: where it starts, or that it was committed."""
        if row is None or row.state not in r.COMMITTED:
            return
        if row.spec.placement is None or op.site not in row.chosen:
            self.ground.checks.complain(op.site, "reports the end of a job that it never had", now)
            return
        if row.job.ended is None and row.may_start:
            return
        if row.job.ended is not None:
            self.count(row, row.job.ended)
        elif row.may_end_at(op.att, op.site):
            self.ground.checks.complain(op.site, "reports an end of a job before its request", now)
        if row.could_not_start and not self._placed_elsewhere(row, op.site, now):
            return
        secret = self.ground.credentials.secret(row, op.site)
        self.ground.outbox.send(op.reply_to, m.EndNoted(rid=op.rid, att=op.att, secret=secret))

    def _placed_elsewhere(self, row: Record, site: str, now: Moment) -> bool:
        """Ask for the next bid; return whether that is under way, or was done before.

        All replicas have one key for it, whose first use stands.
        """
        try:
            submit_elsewhere(
                self.ground.calls,
                row,
                NOT_STARTED,
                now,
                by=site,
                why="the job could not be started there",
            )
        except KalendsError:
            return False  # Draining, or too much of this user is open: the site says it again.
        return True

    def count(self, row: Record, end: PlacedEnd) -> None:
        """Take it that a job has ended: it is there no more, and shows, but once, how long it ran."""
        for site in row.chosen:
            self.tally.of(site).note_over(row.rid)
        if row.rid in self._counted or end.at <= self._counted_until:
            return
        self._counted[row.rid] = end.at
        if len(self._counted) > REMEMBERED:
            oldest_at = self._counted.pop(next(iter(self._counted)))
            self._counted_until = max(self._counted_until, oldest_at)
        if (run := run_of(row)) is not None:
            self.learned.note(run)

    def recall(self, rows: Sequence[Record], count_max: int) -> None:
        """Learn from the last ends of the register, the oldest first.

        Where there are as many as were asked for, there may be others, which are not newer.
        """
        for row in rows:
            if row.job.ended is not None:
                self.count(row, row.job.ended)
        if rows and len(rows) == count_max and rows[0].job.ended is not None:
            self._counted_until = max(self._counted_until, rows[0].job.ended.at)


def run_of(row: Record) -> JobRun | None:
    """Return what the end of a job shows; None where it shows nothing: it never ran."""
    end, place = row.job.ended, row.job.place
    if end is None or place is None or row.may_start or end.end in ("withdrawn", "not-started"):
        return None
    site = split_resource(place.machine)[0]
    limit_s = limit_at(row, site)
    if limit_s is None:
        return None
    # At its limit it was ended, whatever a clock says.
    ran_s = limit_s if end.end == "limit" else end.ran_s
    return JobRun(row.user, place.implementation, site, ran_s / limit_s, end.succeeded)
