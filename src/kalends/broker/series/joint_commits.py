"""Series that are booked, or changed, all or none: their requests are committed by one write.

A request that has all its votes waits until all others have theirs. Then the register commits all of them, if
each is open at its first attempt, or none. So a series is given up by whatever ends one of its attempts: a
refusal, silence, a replica that takes one over. What they have been promised meanwhile is a promise like any
other. None waits for others' slots, so no two series wait for one another.

A change of a series is a change of each of its reservations, by the same rules: each stays as it is until
that write. Occurrences that wait for a horizon are moved by it, too: each has another attempt then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, after
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import (
    Record,
    Registered,
    SeriesChange,
    Spec,
)
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.wings import Ground
from kalends.broker.series.horizon_waits import HorizonWaits
from kalends.core.errors import Conflict, KalendsError, LostRace
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.refusals import error_of

GATHER_MS_MAX: Final = 60_000
"""A request waits so long for the votes of the others: longer than their sites may take."""


class Together(NamedTuple):
    """The group that a request is committed with: `requests` of a series, or of a change of one."""

    id: str
    requests: int
    changes: bool


NOTHING: Final[Mapping[str, Record]] = MappingProxyType({})
"""What requests replace that are no changes."""


@dataclass
class Family:
    """The open requests of one series, by id; `votes` are the commits of those that have all their votes.

    `moved` are the attempts of those that wait for a horizon and are moved with them.
    """

    members: set[str] = field(default_factory=set)
    votes: dict[str, r.Commit] = field(default_factory=dict)
    moved: tuple[r.Raise, ...] = ()
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
        tickets: Mapping[str, int], now: Moment, replaces: Mapping[str, Record] = NOTHING,
    ) -> None:  # fmt: skip
        """Begin all requests of a series in one write; key, spec and ticket are given by their ids.

        Those that are changes also have what each `replaces`. All have the stamp of the first: a series is
        older than another as a whole, or younger. Raises as `UserCalls.submit` does; then nothing has
        happened.
        """
        calls = self._ground.calls
        calls.check_may_begin(principal.user, now, len(specs))
        stamp = 0
        for rid, spec in specs.items():
            calls.submit(
                principal, keys[rid], digest, spec, tickets[rid], now, rid=rid, stamp=stamp,
                replaces=replaces.get(rid),
            )  # fmt: skip
            case = self._ground.table.cases.get(rid)
            stamp = stamp or (case.record.stamp if case is not None else 0)

    def move(self, change: SeriesChange, moved: Sequence[Record], now: Moment) -> None:
        """Move what waits for a horizon: `moved` are the records as they are to be, at their present attempt.

        They are moved with the requests of `change`, which have just begun, or not at all; at once, if
        there are none. Whoever works on one of them now will find its attempt over.
        """
        owner = self._ground.identity.owner
        attempts = tuple(
            r.Raise(each.rid, each.att, owner, r.encode_record(each)) for each in moved
        )
        if not change.count:
            self._ground.outbox.write(r.CommitSeries(change.id, (), attempts))
        elif (family := self.families.get(change.id)) is not None:
            family.moved = attempts

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
        self._ground.prepare.close(case, _no_second_attempt(case, part), "failed", now)
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
        if len(family.votes) == part.requests:
            family.asked = True
            ordered = tuple(family.votes[rid] for rid in sorted(family.votes))
            self._ground.outbox.write(r.CommitSeries(part.id, ordered, family.moved))
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
        for moved in op.moved if result.won else ():
            self._go_on(moved, now)

    def _go_on(self, moved: r.Raise, now: Moment) -> None:
        """Begin the next attempt of a moved occurrence; the one before is over, whatever it had come to."""
        ground = self._ground
        record = r.decode_record(moved.body)
        record.att, record.owner = moved.att + 1, moved.owner
        case = ground.table.cases.get(moved.rid)
        if case is not None:
            ground.calls.decide.abort(case, case.record.att, case.parts)
            ground.table.drop(case, record)
        ground.table.at_work_on = moved.rid
        ground.calls.attempts.begin(ground.table.open(record, now), now)

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
        self._ground.prepare.close(case, _given_up(_together(case)), "failed", now)


def _together(case: Transaction) -> Together | None:
    """Return what the request is committed with, if it is one of all or none."""
    part, change = case.record.spec.series, case.record.spec.change
    if change is not None:
        return Together(change.id, change.count, changes=True) if change.count else None
    if part is None or not part.together or case.record.replaces:
        return None
    return Together(part.id, part.count, changes=False)


def _asked_by(case: Transaction, op: r.Commit) -> r.Commit:
    """Return the commit as an operation of the case, to which its result belongs."""
    return r.Commit(
        op.rid, op.att, op.replaces, op.body, begins=op.begins, case=case.number, notices=op.notices
    )  # fmt: skip


def _no_second_attempt(case: Transaction, part: Together) -> KalendsError:
    """Return why the first attempt has failed."""
    if case.tries.refusals:
        return error_of(case.tries.refusals)
    if case.record.owners.approve:
        return Conflict(
            "its owner has to approve it, and a series of all or none cannot wait for that",
            remedy="change each occurrence by itself"
            if part.changes
            else "book as many as possible",
        )
    return _given_up(part)


def _given_up(part: Together | None) -> LostRace:
    if part is not None and part.changes:
        return LostRace(
            "another occurrence of the series could not be changed",
            remedy="see `kalends show SERIES`; change it otherwise, or each occurrence by itself",
        )
    return LostRace(
        "another occurrence of the series could not be had",
        remedy="see `kalends show SERIES`; book as many as possible, or leave out what cannot be had",
    )
