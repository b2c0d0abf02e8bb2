"""Reports to brokers about the parts of jobs in step: the jobs here, and those that failed or ended.

A site ends nobody's reservation by itself. It tells the register of one whose part has failed, again and
again, until that is cancelled; then the other parts are ended by their sites. So it does when a part has
ended well, and its slot is of no more use. Which jobs its parts are, it says when they are submitted, and to
each broker that comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.core.limits import TEXT_MAX
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.outbox import REGISTER, ParticipantOutbox
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeat

PARTS_MAX: Final = 10_000


class _PartState(NamedTuple):
    """The job of a part, 0 if there is none; `why` it has failed, or when it ended well (seconds UTC).

    Either is said again at the next `turn`. Its program began at `began_at` (seconds UTC; 0: not yet).
    """

    job: int
    began_at: int = 0
    why: str = ""
    ended_at: int = 0
    turn: Repeat = AT_ONCE

    @property
    def is_over(self) -> bool:
        return bool(self.why or self.ended_at)


@dataclass(eq=False)
class PartReports:
    """The parts of what is locked here, by request and machine."""

    stakes: Stakes
    claims: Claims
    outbox: ParticipantOutbox
    jitter: Callable[[], float]
    _parts: dict[tuple[str, str], _PartState] = field(init=False, default_factory=dict)
    _looked_at: int = field(init=False, default=PARTS_MAX)
    """Once there are so many, those of what is over are looked for."""

    def submitted(self, rid: str, machine: str, job: int) -> None:
        """What was to run on `machine` is a job there: it is not submitted again."""
        stake = self.stakes.get(rid)
        if stake is not None and machine in stake.jobs:
            self.claims.submitted(stake, machine)
        known = self._parts.get((rid, machine))
        if known is None or known.job != job:
            self._parts[rid, machine] = _PartState(job)
        self._tell(rid, machine)
        if len(self._parts) > self._looked_at:
            self.tell_all()
            self._looked_at = max(2 * len(self._parts), PARTS_MAX)

    def began(self, rid: str, machine: str, job: int, at: int) -> None:
        """The program of this part began `at` (seconds UTC)."""
        known = self._parts.get((rid, machine), _PartState(job))
        if (known.job, known.began_at) != (job, at):
            self._parts[rid, machine] = known._replace(job=job, began_at=at)
            self._tell(rid, machine)

    def failed(self, rid: str, machine: str, job: int, why: str, now: Moment) -> None:
        """The other parts are to end, as this one has; `job` is 0 if the queue has not taken it."""
        why = why[:TEXT_MAX] or "has failed"
        self._parts[rid, machine] = _PartState(job, self._began_at(rid, machine), why)
        self._remind(rid, machine, now)

    def ended(self, rid: str, machine: str, job: int, at: int, now: Moment) -> None:
        """This part has ended well, `at` (seconds UTC), and what is left of its slot nobody needs."""
        self._parts[rid, machine] = _PartState(job, self._began_at(rid, machine), ended_at=at)
        self._remind(rid, machine, now)

    def used_again(self, rid: str, machine: str) -> None:
        """Its user has another job in the slot of a part that had ended: it is not to be given back."""
        known = self._parts.get((rid, machine))
        if known is not None and known.ended_at:
            self._parts[rid, machine] = _PartState(known.job, known.began_at)
            self._tell(rid, machine)

    def _began_at(self, rid: str, machine: str) -> int:
        known = self._parts.get((rid, machine))
        return known.began_at if known is not None else 0

    def tell_all(self) -> None:
        """Say everything again: a broker has come that may not know it."""
        for rid, machine in list(self._parts):
            self._tell(rid, machine)

    def advance(self, now: Moment) -> None:
        due = [key for key, each in self._parts.items() if each.is_over and each.turn.is_due(now)]
        for rid, machine in due:
            self._remind(rid, machine, now)

    def next_deadline_ms(self) -> int | None:
        return min(
            (each.turn.due_ms for each in self._parts.values() if each.is_over), default=None
        )

    def _remind(self, rid: str, machine: str, now: Moment) -> None:
        if self._tell(rid, machine):
            part = self._parts[rid, machine]
            self._parts[rid, machine] = part._replace(turn=part.turn.reminded(now, self.jitter()))

    def _tell(self, rid: str, machine: str) -> bool:
        """Tell it to all brokers of the register; what is locked here no more is forgotten."""
        stake, part = self.stakes.peek(rid), self._parts[rid, machine]
        if stake is None or not stake.has("locked"):
            del self._parts[rid, machine]
            return False
        news = m.PartNews(
            rid=rid,
            att=stake.att,
            machine=machine,
            job=part.job,
            failed=bool(part.why),
            detail=part.why,
            ended_at=part.ended_at,
            began_at=part.began_at,
        )
        self.outbox.send(f"{REGISTER}{stake.register}", news)
        return True
