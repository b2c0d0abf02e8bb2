"""How placed jobs have ended: written down in the register, told to their users, and learned from.

A site says it again until it has an answer, at any later time, and to all replicas. The first word that is
written down stands; each replica learns from it, once for each job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination.credentials import Credentials
from kalends.broker.coordination.decision_record import Record
from kalends.broker.coordination.hearing import Hearing
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.contract import messages as m
from kalends.contract.calls import PlacedEnd
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.federation.bid_tally import BidTally
from kalends.federation.learned_runs import JobRun, LearnedRuns

REMEMBERED: Final = 16_384
"""Jobs from which was learned, so that no site says one twice: more than end while an answer is under way."""


@dataclass(eq=False)
class JobEnds:
    """Hears of ends, and knows which have been counted."""

    outbox: CoordinatorOutbox
    hearing: Hearing
    credentials: Credentials
    learned: LearnedRuns
    tally: BidTally
    _counted: dict[str, None] = field(init=False, default_factory=dict)

    def heard(self, site: str, ended: m.EndOfJob, now: Moment) -> None:
        """Have it written down, if the register knows the job as one of `site`. No end lies ahead."""
        at = min(ended.at, now.wall_s)
        end = PlacedEnd(at=at, end=ended.end, status=ended.status, ran_s=ended.ran_s)
        self.outbox.write(r.NoteEnd(ended.rid, ended.att, site, end, site))

    def noted(self, op: r.NoteEnd, row: Record | None, now: Moment) -> None:
        """Answer, unless something else has to be known first: where it starts, or that it was committed."""
        if row is None or row.state not in r.COMMITTED:
            return
        if row.spec.job is None or op.site not in row.chosen:
            self.hearing.complain(op.site, "says that a job has ended which it never had", now)
            return
        if row.ended is None and row.may_start:
            return
        if row.ended is not None:
            self.count(row)
        secret = self.credentials.secret(row, op.site)
        self.outbox.send(op.reply_to, m.EndNoted(rid=op.rid, att=op.att, secret=secret))

    def count(self, row: Record) -> None:
        """Take it, once for each job, that one has ended: it is there no more, and shows how long it ran."""
        if row.rid in self._counted:
            return
        self._counted[row.rid] = None
        if len(self._counted) > REMEMBERED:
            del self._counted[next(iter(self._counted))]
        for site in row.chosen:
            self.tally.of(site).note_over(row.rid)
        if (run := run_of(row)) is not None:
            self.learned.note(run)

    def recall(self, rows: Iterable[Record]) -> None:
        """Learn what the register has kept, the oldest first."""
        for row in rows:
            self.count(row)


def run_of(row: Record) -> JobRun | None:
    """Return what the end of a job shows; None where it shows nothing: it never ran."""
    end, placed = row.ended, row.placed
    if end is None or placed is None or end.end in ("withdrawn", "not-started"):
        return None
    places = (placed, *placed.also)
    at = next((each for each in places if split_resource(each.machine)[0] == row.started), placed)
    site = split_resource(at.machine)[0]
    for want in row.wants:
        if split_resource(want.resource)[0] == site and want.start < want.end:
            # At its limit it was ended, whatever a clock says.
            ran_s = want.end - want.start if end.end == "limit" else end.ran_s
            share = ran_s / (want.end - want.start)
            return JobRun(row.user, at.implementation, site, share, end.succeeded)
    return None
