"""Series that are booked all or none: their requests wait for one another, and are committed by one write.

A request that has all its votes waits until all others have theirs. Then the register commits all of them, if
each is open at its first attempt, or none. So a series is given up by whatever ends one of its attempts: a
refusal, silence, a replica that takes one over. What they have been promised meanwhile is a promise like any
other. None waits for others' slots, so no two series wait for one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, after
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Registered, SeriesPart, Spec
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.wings import Ground
from kalends.broker.series.horizon_waits import HorizonWaits
from kalends.core.errors import Conflict, KalendsError, LostRace
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.refusals import error_of

GATHER_MS_MAX: Final = 60_000
"""A request waits so long for the votes of the others: longer than their sites may take."""


@dataclass
class Family:
    """The open requests of one series, by id; `votes` are the commits of those that have all their votes."""

    members: set[str] = field(default_factory=set)
    votes: dict[str, r.Commit] = field(default_factory=dict)
    asked: bool = False
    """The register has been asked to commit them all."""
    failed: bool = False


class JointCommits:
    """The part of the coordinator; `Family` is soft state, and the register's rows decide."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.families: dict[str, Family] = {}

    @property
    def parts(self) -> Sequence[CoordinatorPart]:
        waiting = PhaseOwner(
            ("committing",), too_late=self._too_late, forgot=self._forgot, reread=self._reread
        )
        own = CoordinatorPart(
            follows=(after(r.CommitSeries, self._decided),), phases=(waiting,), begins=self._begins,
            commits=self.commits, ended=self._ended,
        )  # fmt: skip
        return (HorizonWaits(self._ground).part, own)

    def begin(
        self, principal: Principal, keys: Mapping[str, str], digest: str, specs: Mapping[str, Spec],
        tickets: Mapping[str, int], now: Moment,
    ) -> None:  # fmt: skip
        """Begin all requests of a series in one write; key, spec and ticket are given by their ids.

        All have the stamp of the first: a series is older than another as a whole, or younger. Raises as
        `UserCalls.submit` does; then nothing has happened.
        """
        calls = self._ground.calls
        calls.check_may_begin(principal.user, now, len(specs))
        stamp = 0
        for rid, spec in specs.items():
            calls.submit(
                principal, keys[rid], digest, spec, tickets[rid], now, rid=rid, stamp=stamp
            )
            case = self._ground.table.cases.get(rid)
            stamp = stamp or (case.record.stamp if case is not None else 0)

    def _begins(self, case: Transaction, now: Moment) -> bool:
        """Let the first attempt go its way; there is no other one for a request of a series."""
        part = _together(case)
        if part is None:
            return False
        family = self.families.setdefault(part.id, Family())
        family.members.add(case.rid)
        if case.record.att == 1 and not family.failed:
            return False
        family.failed = True
        self._ground.prepare.close(case, _no_second_attempt(case), "failed", now)
        return True

    def commits(self, case: Transaction, op: r.Commit, now: Moment) -> bool:
        """Keep the commit of a request until all of its series can be committed; False for any other one."""
        part = _together(case)
        if part is None:
            return False
        family = self.families.setdefault(part.id, Family())
        family.members.add(case.rid)
        family.votes[case.rid] = op
        if family.failed or case.record.att > 1:
            self._give_up(case, now)
            return True
        case.phase_deadline_ms = now.monotonic_ms + GATHER_MS_MAX
        self._ground.deadlines.schedule(case)
        if len(family.votes) == part.count:
            family.asked = True
            ordered = tuple(family.votes[rid] for rid in sorted(family.votes))
            self._ground.outbox.write(r.CommitSeries(part.id, ordered))
        return True

    def _decided(self, op: r.CommitSeries, result: Registered, now: Moment) -> None:
        """All are committed, each as by its own write; or each is given up, as far as it is ours."""
        family = self.families.get(op.rid)
        for commit in op.commits:
            case = self._ground.table.cases.get(commit.rid)
            if case is None or case.phase != "committing":
                continue
            if result.won:
                self._ground.registered(Registered(_asked_by(case, commit), won=True), now)
            else:
                self._give_up(case, now)
        if family is not None and not result.won:
            family.failed = True

    def _ended(self, case: Transaction) -> None:
        """Whatever ends one before the commit ends all; those that wait are woken to see it."""
        part = _together(case)
        family = self.families.get(part.id) if part is not None else None
        if part is None or family is None:
            return
        family.members.discard(case.rid)
        if not family.asked:
            family.failed = True
            family.votes.pop(case.rid, None)
            for rid in family.votes:
                waiting = self._ground.table.cases.get(rid)
                if waiting is not None and waiting.phase == "committing":
                    waiting.phase_deadline_ms = 1
                    self._ground.deadlines.wake(rid)
        if not family.members:
            del self.families[part.id]

    def _too_late(self, case: Transaction, now: Moment) -> None:
        part = _together(case)
        family = self.families.get(part.id) if part is not None else None
        case.phase_deadline_ms = 0
        if family is not None and family.asked:
            # The answer was lost with a step that broke: the row tells.
            case.phase_deadline_ms = now.monotonic_ms + GATHER_MS_MAX
            self._ground.table.write(case, r.Read(case.rid))
        elif family is not None:
            family.failed = True
            self._give_up(case, now)

    def _forgot(self, case: Transaction, part: Branch, now: Moment) -> None:
        """A promise may be gone that others of the series count on, unless all is decided by now."""
        series = _together(case)
        family = self.families.get(series.id) if series is not None else None
        if family is not None and not family.asked:
            family.failed = True
            self._give_up(case, now)

    def _reread(self, case: Transaction, row: r.Record | None, now: Moment) -> None:
        part = _together(case)
        if part is None or case.phase != "committing":
            return
        family = self.families.get(part.id)
        op = family.votes.get(case.rid) if family is not None else None
        if op is not None and row is not None and (row.state, row.att) == ("commit", op.att):
            self._ground.registered(Registered(_asked_by(case, op), won=True), now)
        elif row is None or row.state != "open" or row.att != case.record.att:
            self._ground.table.drop(case, row)

    def _give_up(self, case: Transaction, now: Moment) -> None:
        """Close a request that has its votes: it was not reserved after all."""
        case.record.chosen = {}
        case.record.trail = case.record.trail[:-1]
        self._ground.prepare.close(case, _given_up(), "failed", now)


def _together(case: Transaction) -> SeriesPart | None:
    """Return the series with which the request is committed, if it is one of all or none."""
    part = case.record.spec.series
    return part if part is not None and part.together and not case.record.replaces else None


def _asked_by(case: Transaction, op: r.Commit) -> r.Commit:
    """Return the commit as an operation of the case, to which its result belongs."""
    return r.Commit(op.rid, op.att, op.replaces, op.body, case=case.number, notices=op.notices)


def _no_second_attempt(case: Transaction) -> KalendsError:
    """Return why the first attempt has failed."""
    if case.tries.refusals:
        return error_of(case.tries.refusals)
    if case.record.owners.approve:
        return Conflict(
            "its owner has to approve it, and a series of all or none cannot wait for that",
            remedy="book as many as possible",
        )
    return _given_up()


def _given_up() -> LostRace:
    return LostRace(
        "another occurrence of the series could not be had",
        remedy="see `kalends show SERIES`; book as many as possible, or leave out what cannot be had",
    )
