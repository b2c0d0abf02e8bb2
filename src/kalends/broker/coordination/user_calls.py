"""Calls of users: begin a request, and finish, end or change its slots."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.agents.agent_dispatch import AgentDispatch, ClientWord
from kalends.broker.coordination.attempts import Attempts
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.phases import NEXT_PHASE, OPEN_PHASES
from kalends.broker.coordination.record import decision_notices
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Spec
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.record.refusal_errors import check_not_over, key_reused
from kalends.broker.coordination.record.views import view_of
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.clock import LogicalClock
from kalends.core.errors import Conflict, LimitExceeded, Unavailable
from kalends.core.intervals import Moment
from kalends.core.limits import TIME_S_MAX
from kalends.core.principals import Principal
from kalends.core.times import format_time

NO_TICKET: Final = 0
"""The ticket of a call for whose answer no caller waits."""

DRAINED: Final = TIME_S_MAX
"""The end of a drain that has none."""

PRIORITY_STEP_MS: Final = 60_000
"""A request with one more point of priority stands in line as if it had come a minute earlier."""


@dataclass(eq=False)
class UserCalls:
    """The calls of users. Answers go to tickets; what is raised has changed nothing.

    `new_rid` brings randomness.
    """

    owner: str
    clock: LogicalClock
    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    decide: DecidePhase
    prepare: PreparePhase
    agents: AgentDispatch
    attempts: Attempts
    _: KW_ONLY
    new_rid: Callable[[Moment], str]
    open_per_user_max: int
    drained_until_s: int = field(init=False, default=0)
    """Until then (UTC) no new request is taken."""
    """No new requests are taken."""
    open_elsewhere: Mapping[str, int] = field(init=False, default_factory=dict)
    """Open requests of each user at other replicas, as of the last look there."""

    def submit(
        self, principal: Principal, key: str, digest: str, spec: Spec, ticket: int, now: Moment,
        *, replaces: Record | None = None, stamp: int = 0, source: str = "", rid: str = "",
    ) -> str:  # fmt: skip
        """Start a request (or join the one of the same key); returns its id.

        `stamp` is its place among all requests where that is not by when it comes (0), `source` that of its
        script, `rid` its id where that is not a new one.
        The answer goes to `ticket` once it is reserved, held or failed. Raises `KeyReused`,
        `LimitExceeded`, `Unavailable` (draining); then nothing has happened.
        """
        known = self.table.working_on(principal.user, key)
        if known is not None:
            if not known.record.is_asked_by(digest):
                raise key_reused(key)
            self.join(known.rid, ticket)
            return known.rid
        self.check_may_begin(principal.user, now)
        rid = rid or self.new_rid(now)
        record = Record(
            rid=rid,
            user=principal.user,
            groups=principal.groups,
            key=key,
            digest=digest,
            stamp=stamp or self._stamp(spec, now),
            owner=self.owner,
            reservation=replaces.reservation if replaces else rid,
            replaces=replaces.rid if replaces else "",
            changes=replaces.changes + 1 if replaces else 0,
            created_ms=now.wall_ms,
            spec=spec,
            wants=spec.wants,
            job=r.JobFacts(machines=replaces.job.machines) if replaces else r.NO_JOB,
        )
        case = self.table.open(record, now)
        case.tickets.append(ticket)
        # What is written is what was asked, whatever becomes of the case before it is written.
        self.table.write(case, r.Begin(copy.copy(record), source))
        self.agents.keep_source(case, source)
        self.attempts.begin(case, now)
        return rid

    def check_may_begin(self, user: str, now: Moment, count: int = 1) -> None:
        """Raise `Unavailable` (draining) or `LimitExceeded` unless `user` may begin `count` requests."""
        if now.wall_s < (until_s := self.drained_until_s):
            end = "at present" if until_s == DRAINED else f"until {format_time(until_s, 'UTC')}"
            raise Unavailable(
                f"this broker accepts no new requests {end}",
                remedy="ask another replica of the broker",
            )
        are_open = self.table.open_of(user) + self.open_elsewhere.get(user, 0)
        if are_open + count > self.open_per_user_max:
            raise LimitExceeded(
                f"at most {self.open_per_user_max} of your requests may be open; {are_open} are, and this"
                f" call would add {count}",
                remedy="wait until one of these requests is decided",
                retry_after_s=1.0,
            )

    def _stamp(self, spec: Spec, now: Moment) -> int:
        """When it was asked for; a priority counts as having asked earlier, or later."""
        head_start_ms = spec.request.priority * PRIORITY_STEP_MS
        return max(self.clock.tick(now.wall_ms) - head_start_ms, 0)

    def join(self, rid: str, ticket: int) -> bool:
        """Let `ticket` hear of `rid` too; False when this replica is not working on it."""
        case = self.table.cases.get(rid)
        if case is None:
            return False
        if case.phase == "telling" or (case.phase in ("held", "asking") and case.noted):
            self.outbox.answer(ticket, self.table.view(case))
        else:
            case.tickets.append(ticket)
        return True

    def lock(self, record: Record, ticket: int, now: Moment) -> None:
        """Promise and commit what `record` holds; takes the request over when nobody works on it."""
        case = self._case_to_finish(record, ticket, now)
        if case is None:
            return
        case.lock_wanted = True
        if case.phase == "held":
            self.prepare.go_on(case, now)

    def release(
        self, record: Record, ticket: int, now: Moment, by: ChangeByOthers | None = None
    ) -> None:
        """Give up what `record` holds; `by` says who wants that, if it is not its user."""
        case = self._case_to_finish(record, ticket, now)
        if case is None:
            return
        case.cancel_wanted = True
        case.record.ended_by = by
        if case.phase in OPEN_PHASES and "released" in NEXT_PHASE[case.phase]:
            self.prepare.close(case, None, "released", now)

    def cancel(
        self, record: Record, ticket: int, now: Moment, why: str = "", parts_ended_at: int = 0,
        by: ChangeByOthers | None = None, reclaimed: bool = False,
    ) -> None:  # fmt: skip
        """Cancel a reservation, and say `why` in its story; answered once every site has freed its slots.

        `by` says who wants that, if it is not its user; if an owner has `reclaimed` slots, it is free.
        It has served its purpose where all parts of a job in step have ended, at `parts_ended_at`. A job that
        was left to the broker, and has ended, is as it was.

        What has passed of it stays used. Raises `Conflict` unless it is reserved (or cancelled already)
        and not over, and `Unavailable` while the register's answer about it is still on its way here.
        """
        if record.state not in ("commit", "cancelled"):
            raise Conflict(
                f"it is {record.public_state}, not reserved", request_id=record.reservation
            )
        if record.state == "commit" and record.job.ended is not None:
            self.outbox.answer(ticket, view_of(record))
            return
        if not parts_ended_at:
            check_not_over(record, now.wall_s)
        self.table.notice(record)
        case = self.table.cases.get(record.rid)
        if case is not None and case.phase not in ("telling", "cancelling"):
            raise Unavailable("the request was just decided", remedy="try again", retry_after_s=0.1)
        if record.state == "cancelled" and case is None:
            self.outbox.answer(ticket, view_of(record))
            return
        if case is None:
            case = self.decide.open(record, now)
        case.tickets.append(ticket)
        if case.phase == "telling" and not case.cancel_wanted:
            case.cancel_wanted = True
            self.log.add(case, "ended" if parts_ended_at else "cancelled", why, now)
            if parts_ended_at:
                case.record.job = replace(case.record.job, parts_ended_at=parts_ended_at)
            case.record.owner = self.owner
            case.record.told = case.record.done
            case.record.cancelled_at = now.wall_s
            case.record.ended_by, case.record.reclaimed = by, reclaimed
            body = r.encode_record(case.record)
            told = decision_notices.on_cancel(case.record)
            self.table.write(case, r.Cancel(case.rid, self.owner, body, notices=told))

    def tell_agent(self, record: Record, word: ClientWord, now: Moment) -> bool:
        """Leave `word` for the agent of an open request.

        True when it is on its way into the register: `agent.calls` of the row then names its key. False
        while the request is between two attempts, or not in these hands: look at the row again, and
        call again. Raises `LimitExceeded` when too many messages wait.
        """
        case = self._case_of(record, now)
        if case is None or case.phase not in OPEN_PHASES:
            return False
        self.agents.leave_message(case, word)
        return True

    def _case_to_finish(self, record: Record, ticket: int, now: Moment) -> Transaction | None:
        """The case of an open or held request; None when `ticket` is answered by the record."""
        if record.state != "open":
            self.outbox.answer(ticket, view_of(record))
            return None
        case = self._case_of(record, now)
        if case is None:
            raise Unavailable(
                "the broker stopped this request after an internal fault",
                remedy="ask the broker's operator, who finds the fault in its log",
                request_id=record.reservation,
            )
        case.tickets.append(ticket)
        return case

    def _case_of(self, record: Record, now: Moment) -> Transaction | None:
        """The case of an open request, which is taken over if nobody works on it."""
        self.table.notice(record)
        if record.rid not in self.table.cases:
            self.attempts.take_over(record, now)
        return self.table.cases.get(record.rid)
