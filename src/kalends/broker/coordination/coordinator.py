"""The broker's half of the commit protocol, as a pure state machine.

Calls of users, messages of sites, answers of the register and the passing of time go in, together
with `now`; register operations, messages, answers and events come out. A request is committed by one
conditional write at its current attempt, after every chosen site has durably said yes to that very
attempt; raising the attempt aborts it for ever. No safety rule reads a clock.

It is built in layers, each a module: `desk` (cases and effects), `telling` (phase two), `attempts`
(the steps of phase one), `seeking` (where to try), `negotiating` (what sites answer), `touring`
(agents), `decisions` (answers of the register), `reclaiming` (owners who need slots back), and here
calls, messages and time. Phases are in `case`; register operations in `record`; Gray and Lamport
(Consensus on Transaction Commit) for why the register decides, and Ramamoorthi et al. 1997, section 4,
for the session.
"""

from __future__ import annotations

import copy
from typing import Final

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination.decision_record import Record, Spec
from kalends.broker.coordination.owner_reclaims import Reclaiming
from kalends.broker.coordination.prepare_phase import RENEW_EVERY_MS
from kalends.broker.coordination.refusal_errors import error_of, site_down
from kalends.broker.coordination.register_results import hold_ran_out, key_reused
from kalends.broker.coordination.transaction import Case, SitePart, view_of
from kalends.broker.coordination.transaction_table import give_up_at_s
from kalends.contract import messages as m
from kalends.core.errors import Conflict, Expired, LimitExceeded, Unavailable
from kalends.core.intervals import Moment
from kalends.core.principals import Principal

PRIORITY_STEP_MS: Final = 60_000
"""A request with one more point of priority stands in line as if it had come a minute earlier."""

WORKING_PHASES: Final = ("looking", "touring", "voting", "holding", "waiting", "preparing")
"""Something is on its way, or waited for, whose time may run out."""

RESEND_EVERY_MS_MAX: Final = 8_000
CLOCK_BELIEVED_MS: Final = 120_000
"""A clock that is ahead for less than this ends nobody's wait."""


class Coordinator(Reclaiming):
    """All requests that this broker replica works on; see `Desk` for what it is made with."""

    # Calls of users

    def submit(
        self, principal: Principal, key: str, digest: str, spec: Spec, ticket: int, now: Moment,
        *, replaces: Record | None = None, stamp: int = 0,
    ) -> str:  # fmt: skip
        """Start a request (or join the one of the same key); returns its id.

        `stamp` is its place among all requests where that is not by when it comes (0).
        The answer goes to `ticket` once it is reserved, held or failed. Raises `KeyReused`,
        `LimitExceeded`, `Unavailable` (draining); then nothing has happened.
        """
        known = self._table.working_on(principal.user, key)
        if known is not None:
            if known.record.digest != digest:
                raise key_reused(key)
            self.join(known.rid, ticket)
            return known.rid
        if self.draining:
            raise Unavailable("this broker takes no new requests now", remedy="ask another replica")
        if self._table.open_of(principal.user) >= self._open_per_user_max:
            raise LimitExceeded(
                f"{self._open_per_user_max} requests of yours are open",
                remedy="wait for some of them",
                retry_after_s=1.0,
            )
        rid = self._new_rid(now)
        record = Record(
            rid=rid,
            user=principal.user,
            groups=principal.groups,
            key=key,
            digest=digest,
            stamp=stamp or self._stamp(spec, now),
            owner=self.identity.owner,
            reservation=replaces.reservation if replaces else rid,
            replaces=replaces.rid if replaces else "",
            changes=replaces.changes + 1 if replaces else 0,
            created_ms=now.wall_ms,
            spec=spec,
            wants=spec.wants,
        )
        case = self._table.open(record, now)
        case.tickets.append(ticket)
        # What is written is what was asked, whatever becomes of the case before it is written.
        case.source = self._scripts(spec.script) if spec.script else ""
        self._table.write(case, r.Begin(copy.copy(record), case.source))
        self._begin_attempt(case, now)
        return rid

    def _stamp(self, spec: Spec, now: Moment) -> int:
        """When it was asked for; a priority counts as having asked earlier, or later."""
        head_start_ms = spec.request.priority * PRIORITY_STEP_MS
        return max(self.clock.tick(now.wall_ms) - head_start_ms, 0)

    def join(self, rid: str, ticket: int) -> bool:
        """Let `ticket` hear of `rid` too; False when this replica is not working on it."""
        case = self._table.cases.get(rid)
        if case is None:
            return False
        if case.phase == "telling" or (case.phase == "held" and case.noted):
            self._outbox.answer(ticket, self._table.view(case))
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
            self._prepare(case, now)

    def release(self, record: Record, ticket: int, now: Moment) -> None:
        """Give up what `record` holds."""
        case = self._case_to_finish(record, ticket, now)
        if case is None:
            return
        case.cancel_wanted = True
        if case.phase in ("held", "looking", "touring", "holding", "waiting"):
            self._close(case, None, "released", now)

    def cancel(self, record: Record, ticket: int, now: Moment) -> None:
        """Cancel a reservation; answered once every site has freed its slots.

        Raises `Conflict` unless it is reserved (or cancelled already), and `Unavailable` while the
        register's answer about it is still on its way here.
        """
        if record.state not in ("commit", "cancelled"):
            raise Conflict(
                f"it is {record.public_state}, not reserved", request_id=record.reservation
            )
        self._table.notice(record)
        case = self._table.cases.get(record.rid)
        if case is not None and case.phase not in ("telling", "cancelling"):
            raise Unavailable(
                "it was decided this very moment", remedy="try again", retry_after_s=0.1
            )
        if record.state == "cancelled" and case is None:
            self._outbox.answer(ticket, view_of(record))
            return
        if case is None:
            case = self._table.open(record, now)
            case.phase = "telling"
            self._tell_parts(case)
        case.tickets.append(ticket)
        if case.phase == "telling" and not case.cancel_wanted:
            case.cancel_wanted = True
            self._log.add(case, "cancelled", "", now)
            case.record.owner = self.identity.owner
            case.record.told = case.record.done
            body = r.encode_record(case.record)
            self._table.write(case, r.Cancel(case.rid, self.identity.owner, body))

    # Events of sites

    def site_up(self, hello: m.Hello, now: Moment) -> None:
        """A site is connected (again): say at once what it may have missed."""
        self.directory.greet(hello)
        self._seen.pop(hello.site, None)
        for case in list(self._table.cases.values()):
            if case.phase in ("looking", "waiting"):
                self._came_up(case, hello.site, now)
            part = case.parts.get(hello.site)
            if part is None:
                continue
            self._table.at_work_on = case.rid
            if case.phase in ("held", "holding", "preparing") and part.hold_ids:
                self._renew(case, part)
            if case.phase == "touring":
                self._site_back(case, hello)
            else:
                self._resend_to(case, part, now)

    def site_forgot(self, site: str, now: Moment) -> None:
        """What `site` has promised may be gone: no attempt that counts on it goes on."""
        for case in list(self._table.cases.values()):
            part = case.parts.get(site)
            if part is not None and part.voted and case.phase in ("voting", "preparing"):
                self._table.at_work_on = case.rid
                self._refused(case, (site_down(site, "it has forgotten its promise"),), now)

    def site_lost(self, site: str, detail: str) -> None:
        self.directory.lose(site, detail)

    def receive(self, site: str, message: m.Message, now: Moment) -> None:
        """Take one message from `site` (or, for an Inquire by HTTP, from the asker's address).

        One that cannot be true changes nothing but its own request: the site has refused there.
        """
        self._table.at_work_on = self._request_of(message)
        match self._hearing.heard(site, message, now):
            case m.Visited() as visited:
                self._visited(site, visited, now)
            case m.Report() as report:
                self._reported(site, report, now)
            case m.Voted() as voted:
                self._voted(site, voted, now)
            case m.Done() as done:
                self._done(site, done)
            case m.View() as view:
                self._viewed(site, view, now)
            case m.Renewed() as renewed:
                self._renewed(site, renewed, now)
            case m.Stale() as stale:
                self._stale(stale)
            case m.Inquire() as inquire:
                self._inquired(inquire, site)
            case m.Hello() as hello:
                self.site_up(hello, now)
            case m.Recall() as recall:
                self._recalled(site, recall.rid, recall.att, recall.left_ms, now)
            case m.Grant() as grant:
                self._granted(site, grant, now)
            case m.Locked() as locked:
                self._locked(site, locked, now)
            case m.Awaited() as awaited:
                self._awaited(site, awaited, now)
            case m.Reclaim() as reclaim:
                self._reclaimed(site, reclaim, now)
            case None:
                pass
            case _:
                self._outbox.alarm(f"{type(message).__name__} from {site}: not for a broker")

    # Passing of time

    def advance(self, now: Moment) -> None:
        """Let time pass: resend, renew, give up what took too long."""
        while rid := self._deadlines.pop(now):
            case = self._table.cases.get(rid)
            if case is not None:
                self._table.at_work_on = rid
                self._tick(case, now)
                self._deadlines.schedule(case)

    # Holds, staleness, silence

    def _stale(self, stale: m.Stale) -> None:
        case = self._table.live(
            stale.rid, stale.att, ("touring", "voting", "holding", "held", "preparing")
        )
        if case is not None:
            case.stale = True
            self._table.write(case, r.Read(stale.rid))

    def _tick(self, case: Case, now: Moment) -> None:
        ms = now.monotonic_ms
        working = case.phase in WORKING_PHASES
        if working and (_due(case.phase_deadline_ms, ms) or case.deadline_ms <= ms):
            self._too_late(case, now)
            return
        if case.phase == "waiting":
            self._look_if_stirred(case, now)
        if case.phase == "held" and _due(case.phase_deadline_ms, ms):
            self._close(case, hold_ran_out(), "expired", now)
            return
        if _due(case.renew_at_ms, ms) and case.phase in ("holding", "held", "preparing"):
            case.renew_at_ms = ms + RENEW_EVERY_MS
            for part in case.parts.values():
                if part.hold_ids:
                    self._renew(case, part)
        if _due(case.resend_at_ms, ms):
            case.resend_every_ms = min(case.resend_every_ms * 2, RESEND_EVERY_MS_MAX)
            case.resend_at_ms = self._deadlines.later(now, case.resend_every_ms)
            if working or case.phase in ("telling", "cancelling"):
                self._table.write(case, r.Read(case.rid))
            if case.phase == "waiting":
                self._look_at_the_clock(case, now)
            for part in case.parts.values():
                self._resend_to(case, part, now)

    def _look_at_the_clock(self, case: Case, now: Moment) -> None:
        """A wait that was begun while the clock was behind ends when it should, once that is sure."""
        give_up_at = give_up_at_s(case.record)
        if not give_up_at or now.wall_s < give_up_at:
            case.late_since_ms = 0
        elif not case.late_since_ms:
            case.late_since_ms = now.monotonic_ms
        elif now.monotonic_ms - case.late_since_ms >= CLOCK_BELIEVED_MS:
            case.deadline_ms = now.monotonic_ms

    def _too_late(self, case: Case, now: Moment) -> None:
        """Sites were silent: go on without them, or give up; either way this attempt is over."""
        if case.phase == "looking" and case.deadline_ms > now.monotonic_ms:
            self._look_on(case, now, given_up=True)
            return
        if case.phase == "touring" and case.deadline_ms > now.monotonic_ms:
            self._toured(case, now)
            return
        over = case.deadline_ms <= now.monotonic_ms
        if not over and self._still_in_line(case, now):
            return
        silent = tuple(
            site_down(part.site, "it did not answer in time")
            for part in case.parts.values()
            if not (part.voted or (case.phase == "holding" and (part.hold_ids or part.ahead >= 0)))
            and not (case.tour is not None and part.site in case.tour.reports)
        )
        if over and (case.phase == "waiting" or (case.phase == "holding" and not silent)):
            self._too_long(case, now)
        elif over:
            error = error_of(silent) if silent else Expired("no answer in time")
            self._close(case, error, "failed", now)
        else:
            self._refused(case, silent, now)

    def _resend_to(self, case: Case, part: SitePart, now: Moment) -> None:
        """Say again what this site has not answered; always the message, never an assumption."""
        if (case.phase == "voting" and not part.voted) or (
            case.phase == "holding" and not part.hold_ids
        ):
            self._send_visit(case, part)
        elif case.phase == "touring":
            self._dispatch_again(case, part.site)
        elif case.phase == "waiting":
            self._send_await(case, part)
        elif case.phase == "preparing" and not part.voted:
            self._send_prepare(case, part)
        elif case.phase in ("telling", "cancelling"):
            self._tell_one(case, part)

    def _case_to_finish(self, record: Record, ticket: int, now: Moment) -> Case | None:
        """The case of an open or held request; None when `ticket` is answered by the record."""
        if record.state != "open":
            self._outbox.answer(ticket, view_of(record))
            return None
        self._table.notice(record)
        if record.rid not in self._table.cases:
            self.adopt(record, now)
        case = self._table.cases.get(record.rid)
        if case is None:
            raise Unavailable(
                "the broker has met a fault of its own with this request, and works on it no more",
                remedy="ask the broker's operator, who finds the fault in its log",
                request_id=record.reservation,
            )
        case.tickets.append(ticket)
        return case

    def _request_of(self, message: m.Message) -> str:
        """The request that `message` is about, "" for none."""
        if isinstance(message, m.View):
            recovery = self._recovering.get(message.query_id)
            if recovery is not None:
                return next(iter(recovery.reclaims.values())).rid
            return self._queries.get(message.query_id, "")
        return getattr(message, "rid", "")


def _due(at_ms: int, now_ms: int) -> bool:
    return bool(at_ms) and at_ms <= now_ms
