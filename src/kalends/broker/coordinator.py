"""The broker's half of the commit protocol, as a pure state machine.

Calls of users, messages of sites, answers of the register and the passing of time go in, together
with `now`; register operations, messages, answers and events come out. A request is committed by one
conditional write at its current attempt, after every chosen site has durably said yes to that very
attempt; raising the attempt aborts it for ever. No safety rule reads a clock.

Phases are in `case`; register operations in `record`; Gray and Lamport (Consensus on Transaction
Commit) for why the register decides, and Ramamoorthi et al. 1997, section 4, for the session.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from kalends.broker import record as r
from kalends.broker.case import Case, SitePart, by_site, problem_of, view_of
from kalends.broker.directory import Directory
from kalends.broker.effects import Answer, Effects, Happened, Send
from kalends.broker.looking import Looking, batched
from kalends.broker.planner import Plan
from kalends.broker.record import Operation, Record, Registered, Spec
from kalends.broker.refusals import PERMANENT, error_of, site_down, site_unknown
from kalends.core import messages as m
from kalends.core.api import Event, RequestView
from kalends.core.clock import LogicalClock
from kalends.core.errors import (
    Conflict,
    Expired,
    KalendsError,
    KeyReused,
    LimitExceeded,
    LostRace,
    Refusal,
    Unavailable,
)
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.core.messages import Principal, Want

REQUEST_MS_MAX: Final = 60_000
LOOK_MS_MAX: Final = 5_000
VOTE_MS_MAX: Final = 10_000
HOLD_MS: Final = 30_000
"""A site's hold lives so long without a Renew: longer than a vote and two round trips."""
RENEW_EVERY_MS: Final = 10_000
RESEND_AFTER_MS: Final = 1_000
RESEND_EVERY_MS_MAX: Final = 8_000
ROUNDS_MAX: Final = 8
"""Plans that turn out to be taken before the request gives up: each costs two round trips."""
TRAIL_MAX: Final = 64

OPEN_PHASES: Final = ("looking", "voting", "holding", "held", "preparing")
"""Undecided, and no answer of the register is on its way that would tell of another owner."""


class Identity(NamedTuple):
    """Who this replica is: `owner` is unique to this start, `coords` are the URLs of all replicas."""

    name: str
    owner: str
    coords: tuple[str, ...]


class Coordinator:
    """All requests that this broker replica works on. Not thread-safe.

    `new_rid` and `new_secret` bring randomness; `jitter` gives numbers in [0, 1).
    """

    def __init__(
        self,
        identity: Identity,
        directory: Directory,
        clock: LogicalClock,
        *,
        new_rid: Callable[[Moment], str],
        new_secret: Callable[[], str],
        jitter: Callable[[], float],
        open_per_user_max: int = 256,
        owner_alive: Callable[[str], bool] = lambda owner: False,
    ) -> None:
        self.identity = identity
        self.directory = directory
        self.clock = clock
        self.cases: dict[str, Case] = {}
        self.draining = False
        self._new_rid = new_rid
        self._new_secret = new_secret
        self._jitter = jitter
        self._open_per_user_max = open_per_user_max
        self._owner_alive = owner_alive
        self._open: Counter[str] = Counter()
        self._keys: dict[tuple[str, str], str] = {}
        self._due: list[tuple[int, str]] = []
        self._query_ids = itertools.count(1)
        self._queries: dict[int, str] = {}
        self._effects = Effects()

    # Calls of users

    def submit(
        self, principal: Principal, key: str, digest: str, spec: Spec, ticket: int, now: Moment,
        *, replaces: Record | None = None,
    ) -> str:  # fmt: skip
        """Start a request (or join the one of the same key); returns its id.

        The answer goes to `ticket` once it is reserved, held or failed. Raises `KeyReused`,
        `LimitExceeded`, `Unavailable` (draining); then nothing has happened.
        """
        known = self.working_on(principal.user, key)
        if known is not None:
            if known.record.digest != digest:
                raise key_reused(key)
            self.join(known.rid, ticket)
            return known.rid
        if self.draining:
            raise Unavailable("this broker takes no new requests now", remedy="ask another replica")
        if self._open[principal.user] >= self._open_per_user_max:
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
            stamp=self.clock.tick(now.wall_ms),
            owner=self.identity.owner,
            reservation=replaces.reservation if replaces else rid,
            replaces=replaces.rid if replaces else "",
            secret=self._new_secret(),
            created_ms=now.wall_ms,
            spec=spec,
            wants=spec.wants,
        )
        case = self._open_case(record, now)
        case.tickets.append(ticket)
        # What is written is what was asked, whatever becomes of the case before it is written.
        self._effects.operations.append(r.Begin(copy.copy(record)))
        self._begin_attempt(case, now)
        return rid

    def working_on(self, user: str, key: str) -> Case | None:
        """The case of the request that `user` made with `key`, while this replica works on it."""
        return self.cases.get(self._keys.get((user, key), ""))

    def join(self, rid: str, ticket: int) -> bool:
        """Let `ticket` hear of `rid` too; False when this replica is not working on it."""
        case = self.cases.get(rid)
        if case is None:
            return False
        if case.phase == "telling" or (case.phase == "held" and case.noted):
            self._effects.answers.append(Answer(ticket, self.view(case)))
        else:
            case.tickets.append(ticket)
        return True

    def notice(self, record: Record) -> None:
        """Take `record` from the register: what another replica has taken over ends here."""
        case = self.cases.get(record.rid)
        if case is not None and case.phase in OPEN_PHASES and record.owner != self.identity.owner:
            self._drop(case, record)

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
        if case.phase in ("held", "looking", "holding"):
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
        self.notice(record)
        case = self.cases.get(record.rid)
        if case is not None and case.phase not in ("telling", "cancelling"):
            raise Unavailable(
                "it was decided this very moment", remedy="try again", retry_after_s=0.1
            )
        if record.state == "cancelled" and case is None:
            self._effects.answers.append(Answer(ticket, view_of(record)))
            return
        if case is None:
            case = self._open_case(record, now)
            case.phase = "telling"
            self._tell_parts(case)
        case.tickets.append(ticket)
        if case.phase == "telling" and not case.cancel_wanted:
            case.cancel_wanted = True
            self._happened(case, "cancelled", "", now)
            case.record.owner = self.identity.owner
            body = r.encode_record(case.record)
            self._effects.operations.append(r.Cancel(case.rid, self.identity.owner, body))

    def adopt(self, record: Record, now: Moment) -> None:
        """Take over a request whose owner is gone: a new attempt, or telling its sites."""
        self.notice(record)
        if record.rid in self.cases or record.done:
            return
        case = self._open_case(record, now)
        case.cancel_wanted = record.state == "cancelled"
        if record.state == "open":
            self._raise(case, "taken over from a broker that is gone", (), now)
        else:
            case.phase = "telling"
            op = r.Adopt(record.rid, record.state, self.identity.owner)
            self._effects.operations.append(op)

    # Events of sites

    def site_up(self, hello: m.Hello, now: Moment) -> None:
        """A site is connected (again): say at once what it may have missed."""
        self.directory.greet(hello)
        for case in list(self.cases.values()):
            part = case.parts.get(hello.site)
            if part is None:
                continue
            if case.phase in ("held", "holding", "preparing") and part.hold_ids:
                self._renew(case, part)
            self._resend_to(case, part, now)

    def site_lost(self, site: str, detail: str) -> None:
        self.directory.lose(site, detail)

    def receive(self, site: str, message: m.Message, now: Moment) -> None:
        """Take one message from `site` (or, for an Inquire by HTTP, from the asker's address)."""
        match message:
            case m.Visited():
                self._visited(site, message, now)
            case m.Voted():
                self._voted(site, message, now)
            case m.Done():
                self._done(site, message, now)
            case m.View():
                self._viewed(site, message, now)
            case m.Renewed():
                self._renewed(site, message, now)
            case m.Stale():
                self._stale(message)
            case m.Inquire():
                op = r.Ask(message.rid, message.att, message.secret, site)
                self._effects.operations.append(op)
            case m.Hello():
                self.site_up(message, now)
            case m.Recall() | m.Grant() | m.Locked():
                pass  # waiting lists: a site sends these only to those who asked to wait
            case _:
                self._effects.alarms.append(
                    f"{type(message).__name__} from {site}: not for a broker"
                )

    # Passing of time

    def advance(self, now: Moment) -> None:
        """Let time pass: resend, renew, give up what took too long."""
        while self._due and self._due[0][0] <= now.monotonic_ms:
            _, rid = heapq.heappop(self._due)
            case = self.cases.get(rid)
            if case is not None:
                self._tick(case, now)
                self._schedule(case)

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def take_effects(self) -> Effects:
        """All effects since the last call, in order."""
        taken, self._effects = self._effects, Effects()
        return taken

    def view(self, case: Case) -> RequestView:
        done = frozenset(site for site, part in case.parts.items() if part.done)
        return view_of(case.record, confirmed=done if case.phase == "telling" else None)

    # Attempts

    def _open_case(self, record: Record, now: Moment) -> Case:
        case = Case(record, now.monotonic_ms + REQUEST_MS_MAX)
        self.cases[record.rid] = case
        self._keys[record.user, record.key] = record.rid
        self._open[record.user] += 1
        return case

    def _begin_attempt(self, case: Case, now: Moment) -> None:
        """Vote at once when the slots are known and this is the first attempt; else hold, or look."""
        record = case.record
        if case.cancel_wanted:
            self._close(case, None, "released", now)
        elif record.wants and (record.att == 1 or case.fixed or record.held_until_ms):
            self._visit(case, record.wants, now)
        else:
            self._look(case, now)

    def _look(self, case: Case, now: Moment) -> None:
        try:
            looking = Looking.of(case.record, self.directory, case.shunned, now.wall_s)
        except KalendsError as error:
            self._close(case, error, "failed", now)
            return
        case.enter("looking")
        case.free = {}
        case.refusals = []
        case.queries = {}
        for site, wants in looking.by_site.items():
            for part in batched(wants):
                query_id = next(self._query_ids)
                case.queries[query_id] = site
                self._queries[query_id] = case.rid
                query = m.Query(query_id=query_id, principal=case.record.principal, wants=part)
                self._effects.sends.append(Send(site, query))
        case.phase_deadline_ms = now.monotonic_ms + LOOK_MS_MAX
        self._schedule(case)
        if not case.queries:
            self._looked(case, now)

    def _viewed(self, site: str, view: m.View, now: Moment) -> None:
        """A site is believed about its own resources only."""
        case = self.cases.get(self._queries.get(view.query_id, ""))
        if case is None or case.phase != "looking" or case.queries.get(view.query_id) != site:
            return
        del case.queries[view.query_id], self._queries[view.query_id]
        for of_one in view.views:
            if split_resource(of_one.resource)[0] != site:
                continue
            case.free = {**case.free, of_one.resource: of_one.steps}
            if of_one.refusal is not None:
                case.refusals.append(of_one.refusal)
        if not case.queries:
            self._looked(case, now)

    def _looked(self, case: Case, now: Moment) -> None:
        """Plan the earliest start from what the sites have shown, and ask for it."""
        for query_id, site in case.queries.items():
            self._queries.pop(query_id, None)
            case.refusals.append(site_down(site, "it did not answer in time"))
        case.queries = {}
        planned = Looking.planned(
            case.record, self.directory, case.free, case.refusals, case.excluded
        )
        if isinstance(planned, Plan):
            case.record.wants = planned.wants
            self._visit(case, planned.wants, now)
        else:
            self._close(case, error_of(planned), "failed", now)

    def _visit(self, case: Case, wants: tuple[Want, ...], now: Moment) -> None:
        """Ask every site for its slots: promised at once at attempt 1, held in later ones."""
        record = case.record
        grouped = by_site(wants)
        down = [
            site_down(site, self.directory.sites[site].detail or "not connected")
            if site in self.directory.sites
            else site_unknown(site)
            for site in grouped
            if not self.directory.is_up(site)
        ]
        if down:
            self._close(case, error_of(down), "failed", now)
            return
        case.enter("holding" if record.spec.hold or record.att > 1 else "voting")
        case.parts = {site: SitePart(site, of_site) for site, of_site in grouped.items()}
        self._wait_for_votes(case, now)
        for part in case.parts.values():
            self._send_visit(case, part)

    def _send_visit(self, case: Case, part: SitePart) -> None:
        record = case.record
        visit = m.Visit(
            rid=record.rid,
            att=record.att,
            stamp=record.stamp,
            mode="vote" if case.phase == "voting" else "hold",
            principal=record.principal,
            wants=part.wants,
            parts=self._wire_parts(case),
            need=len(case.parts),
            coords=self.identity.coords,
            secret=record.secret,
            hold_ms=HOLD_MS,
            replaces=record.replaces,
        )
        self._effects.sends.append(Send(part.site, visit))

    def _wire_parts(self, case: Case) -> tuple[m.Part, ...]:
        sites = self.directory.sites
        return tuple(m.Part(site, sites[site].url) for site in case.parts)

    def _visited(self, site: str, visited: m.Visited, now: Moment) -> None:
        case = self._live(visited.rid, visited.att, ("voting", "holding"))
        if case is None or (part := case.parts.get(site)) is None:
            return
        if visited.refusals or not visited.held:
            self._refused(case, visited.refusals, now)
            return
        part.hold_ids = tuple(slot.hold_id for slot in visited.held)
        part.voted = visited.vote == "yes"
        if case.phase == "voting" and all(part.voted for part in case.parts.values()):
            self._commit(case, now)
        elif case.phase == "holding" and all(part.hold_ids for part in case.parts.values()):
            self._all_held(case, now)

    def _all_held(self, case: Case, now: Moment) -> None:
        record = case.record
        if record.spec.hold and not case.lock_wanted:
            case.enter("held")
            case.noted = False
            if not record.held_until_ms:
                record.held_until_ms = now.wall_ms + record.spec.hold_s * 1_000
                self._happened(case, "held", "", now)
            left_ms = max(record.held_until_ms - now.wall_ms, 0)
            case.phase_deadline_ms = now.monotonic_ms + left_ms
            case.renew_at_ms = now.monotonic_ms + RENEW_EVERY_MS
            self._schedule(case)
            self._effects.operations.append(r.Note(case.rid, record.att, r.encode_record(record)))
        else:
            self._prepare(case, now)

    def _prepare(self, case: Case, now: Moment) -> None:
        """Phase one of two-phase commit, for slots that are held."""
        case.enter("preparing")
        case.deadline_ms = now.monotonic_ms + REQUEST_MS_MAX
        self._wait_for_votes(case, now)
        for part in case.parts.values():
            self._send_prepare(case, part)

    def _send_prepare(self, case: Case, part: SitePart) -> None:
        prepare = m.Prepare(
            rid=case.rid,
            att=case.record.att,
            hold_ids=part.hold_ids,
            parts=self._wire_parts(case),
            need=len(case.parts),
        )
        self._effects.sends.append(Send(part.site, prepare))

    def _voted(self, site: str, voted: m.Voted, now: Moment) -> None:
        case = self._live(voted.rid, voted.att, ("preparing",))
        if case is None or (part := case.parts.get(site)) is None:
            return
        if voted.vote != "yes":
            self._refused(case, voted.refusals, now)
            return
        part.voted = True
        if all(part.voted for part in case.parts.values()):
            self._commit(case, now)

    def _commit(self, case: Case, now: Moment) -> None:
        """Every chosen site has promised this attempt: ask the register to decide."""
        case.enter("committing")
        record = case.record
        record.chosen = {part.site: part.hold_ids for part in case.parts.values()}
        record.wants = tuple(want for part in case.parts.values() for want in part.wants)
        record.decided_ms = now.wall_ms
        record.held_until_ms = 0
        self._happened(case, "changed" if record.replaces else "reserved", "", now)
        op = r.Commit(case.rid, record.att, record.replaces, r.encode_record(record))
        self._effects.operations.append(op)

    def _refused(self, case: Case, refusals: tuple[Refusal, ...], now: Moment) -> None:
        """A site said no (or too late): this attempt is over; try another plan, or give up."""
        case.refusals = list(refusals)
        case.rounds += 1
        if case.fixed or case.record.held_until_ms:
            self._close(case, error_of(refusals), "failed", now)
        elif case.rounds >= ROUNDS_MAX:
            error = LostRace(
                f"others were faster {case.rounds} times",
                remedy="try again, or ask for a wider window",
                refusals=refusals,
            )
            self._close(case, error, "failed", now)
        else:
            permanent = {refusal.where for refusal in refusals if refusal.code in PERMANENT}
            case.shunned |= permanent
            if refusals and not permanent:
                case.excluded.add(self._start_of(case))
            self._raise(case, "others were faster, or an owner refused", refusals, now)

    def _start_of(self, case: Case) -> int:
        """The common start of the plan that failed: its earliest stage less that stage's offset."""
        terms = case.record.spec.request.alternatives[0].terms
        lead_s = min(term.offset_s for term in terms)
        return min(want.start for want in case.record.wants) - lead_s

    def _raise(self, case: Case, detail: str, refusals: tuple[Refusal, ...], now: Moment) -> None:
        case.enter("raising")
        self._happened(case, "retrying", detail, now, refusals)
        record = case.record
        op = r.Raise(case.rid, record.att, self.identity.owner, r.encode_record(record))
        self._effects.operations.append(op)

    def _close(self, case: Case, error: KalendsError | None, kind: str, now: Moment) -> None:
        """Give the request up; the attempt is dead once the register says so."""
        case.enter("closing")
        record = case.record
        if error is not None:
            record.problem = problem_of(error, record.reservation)
            self._happened(case, kind, error.detail, now, error.refusals)
        else:
            self._happened(case, kind, "", now)
        self._effects.operations.append(r.Close(case.rid, record.att, r.encode_record(record)))

    # Answers of the register

    def registered(self, result: Registered, now: Moment) -> None:
        """Take the durable answer to one of our register operations."""
        op = result.operation
        if isinstance(op, r.Ask):
            self._answer_inquiry(op, result.record, now)
            return
        case = self.cases.get(op.record.rid if isinstance(op, r.Begin) else op.rid)
        if case is None:
            return
        self._tell_watchers(case, op, result.won)
        match op:
            case r.Begin():
                if not result.won:
                    self._lost_begin(case, result.record)
            case r.Raise():
                self._raised(case, result, now)
            case r.Commit():
                self._committed(case, result, now)
            case r.Close():
                self._closed(case, result)
            case r.Cancel():
                self._cancelled(case, result, now)
            case r.Adopt():
                self._adopted(case, result, now)
            case r.Finish():
                cancel_follows = op.state == "commit" and case.cancel_wanted
                if op.state == case.record.state and not cancel_follows:
                    self._over(case)
            case r.Note():
                if not result.won:
                    self._drop(case, result.record)
                elif case.phase == "held":  # Else who waits is told what comes of it.
                    case.noted = True
                    self._answer(case)
            case r.Read():
                self._reread(case, result.record, now)

    def _adopted(self, case: Case, result: Registered, now: Moment) -> None:
        """Tell the sites, unless another has done so already; a cancel that is on its way goes on."""
        row = result.record
        if result.won:
            case.phase = "telling" if case.record.state == "commit" else "cancelling"
            self._tell_parts(case)
            self._tell(case, now)
        elif row is not None and row.state == "commit" and case.cancel_wanted:
            case.record = row
            self._tell_parts(case)
        else:
            self._drop(case, row)

    def _lost_begin(self, case: Case, standing: Record | None) -> None:
        """Another replica has this key already: undo ours, which was never committed."""
        self._abort_parts(case, case.record.att)
        if standing is not None and standing.digest != case.record.digest:
            case.record.problem = problem_of(key_reused(case.record.key), standing.reservation)
            case.record.state = "closed"
            standing = None
        self._drop(case, standing)

    def _raised(self, case: Case, result: Registered, now: Moment) -> None:
        if not result.won:
            self._drop(case, result.record)
            return
        self._abort_parts(case, case.record.att)
        case.record.att += 1
        case.record.owner = self.identity.owner
        case.parts = {}
        case.stale = False
        if case.record.held_until_ms and case.record.held_until_ms <= now.wall_ms:
            self._close(case, hold_ran_out(), "expired", now)
            return
        self._begin_attempt(case, now)

    def _committed(self, case: Case, result: Registered, now: Moment) -> None:
        if result.won:
            case.record.state = "commit"
            case.cancel_wanted = (
                False  # A release that came too late: what is reserved is cancelled.
            )
            case.enter("telling")
            self._answer(case)
            self._tell(case, now)
            return
        row = result.record
        if row is None or row.state != "open" or row.att != case.record.att:
            self._drop(case, row)
            return
        case.record.chosen = {}
        case.record.trail = case.record.trail[:-1]  # It was not reserved after all.
        error = Conflict(
            "the reservation was changed or cancelled meanwhile, or is not confirmed yet",
            remedy="look at it with `kalends show`, then try again",
        )
        self._close(case, error, "failed", now)

    def _closed(self, case: Case, result: Registered) -> None:
        if not result.won:
            self._drop(case, result.record)
            return
        case.record.state = "closed"
        case.record.done = True
        self._abort_parts(case, case.record.att)
        self._answer(case)
        self._over(case)

    def _cancelled(self, case: Case, result: Registered, now: Moment) -> None:
        if not result.won and (result.record is None or result.record.state != "cancelled"):
            self._drop(case, result.record)
            return
        case.record.state = "cancelled"
        case.record.done = False
        case.enter("cancelling")
        self._tell(case, now)

    def _reread(self, case: Case, row: Record | None, now: Moment) -> None:
        """A site called us stale, or time passed: are we still the owner of a live attempt?"""
        if case.phase not in OPEN_PHASES:
            return
        if row is None or row.state != "open" or row.att != case.record.att:
            self._drop(case, row)
        elif case.stale:
            case.stale = False
            self._refused(case, (), now)

    def _answer_inquiry(self, ask: r.Ask, row: Record | None, now: Moment) -> None:
        """Commit and abort never change once given; abort is given only where the row proves it."""
        if row is not None and row.secret != ask.secret:
            return
        committed = row is not None and row.state in r.COMMITTED and row.att == ask.att
        chosen: m.Chosen = {}
        outcome: Literal["commit", "abort", "pending"] = "abort"
        if row is not None and committed:
            outcome, chosen = "commit", row.chosen
        elif row is not None and row.state == "open" and row.att <= ask.att:
            outcome = "pending"
            mine = row.owner == self.identity.owner
            if (mine and row.rid not in self.cases) or not (mine or self._owner_alive(row.owner)):
                self.adopt(row, now)
        answer = m.Outcome(rid=ask.rid, att=ask.att, outcome=outcome, chosen=chosen)
        self._effects.sends.append(Send(ask.reply_to, answer))
        if row is not None and committed and row.done:
            self._effects.sends.append(Send(ask.reply_to, m.Forget(rid=ask.rid, att=ask.att)))

    # Telling the sites what was decided

    def _tell_parts(self, case: Case) -> None:
        """The sites of a decided record, when the attempt itself was another's or before a restart."""
        for site, wants in by_site(case.record.wants).items():
            hold_ids = case.record.chosen.get(site, ())
            case.parts[site] = SitePart(site, wants, hold_ids, voted=True, done=case.record.done)

    def _tell(self, case: Case, now: Moment) -> None:
        case.resend_every_ms = RESEND_AFTER_MS
        case.resend_at_ms = self._later(now, RESEND_AFTER_MS)
        self._schedule(case)
        for part in case.parts.values():
            self._tell_one(case, part)

    def _tell_one(self, case: Case, part: SitePart) -> None:
        record = case.record
        if not part.done:
            decide = m.Decide(
                rid=record.rid, att=record.att, outcome="commit", chosen=record.chosen
            )
            self._effects.sends.append(Send(part.site, decide))
        elif case.phase == "cancelling" and not part.freed and self._all_done(case):
            self._effects.sends.append(Send(part.site, m.Cancel(rid=record.rid, att=record.att)))

    def _all_done(self, case: Case) -> bool:
        return all(part.done for part in case.parts.values())

    def _done(self, site: str, done: m.Done, now: Moment) -> None:
        case = self._live(done.rid, done.att, ("telling", "cancelling"))
        if case is None or (part := case.parts.get(site)) is None or done.of == "abort":
            return
        if done.of == "commit" and not part.done:
            part.done = True
            if self._all_done(case):
                self._all_told(case, now)
        elif done.of == "cancel" and case.phase == "cancelling" and not part.freed:
            part.freed = True
            if all(part.freed for part in case.parts.values()):
                case.record.done = True
                self._answer(case)
                self._effects.operations.append(r.Finish(case.rid, "cancelled"))

    def _all_told(self, case: Case, now: Moment) -> None:
        """Locked everywhere: the sites may forget the decision, and a cancel may go out."""
        if case.phase == "cancelling":
            self._tell(case, now)
            return
        case.record.done = True
        case.resend_at_ms = 0
        self._effects.operations.append(r.Finish(case.rid, "commit"))
        for part in case.parts.values():
            forget = m.Forget(rid=case.rid, att=case.record.att)
            self._effects.sends.append(Send(part.site, forget))

    def _abort_parts(self, case: Case, att: int) -> None:
        """Best effort: a site that misses this asks the register by itself."""
        for part in case.parts.values():
            decide = m.Decide(rid=case.rid, att=att, outcome="abort")
            self._effects.sends.append(Send(part.site, decide))

    # Holds, staleness, time

    def _renew(self, case: Case, part: SitePart) -> None:
        renew = m.Renew(rid=case.rid, att=case.record.att, hold_ids=part.hold_ids, hold_ms=HOLD_MS)
        self._effects.sends.append(Send(part.site, renew))

    def _renewed(self, site: str, renewed: m.Renewed, now: Moment) -> None:
        """A hold that is lost (a restart, or our silence) is asked for again in a new attempt."""
        case = self._live(renewed.rid, renewed.att, ("held", "holding"))
        if case is not None and renewed.lost and site in case.parts:
            if case.phase == "held":
                case.deadline_ms = now.monotonic_ms + REQUEST_MS_MAX
            self._raise(case, f"{site} has lost the hold", (), now)

    def _stale(self, stale: m.Stale) -> None:
        case = self._live(stale.rid, stale.att, ("voting", "holding", "held", "preparing"))
        if case is not None:
            case.stale = True
            self._effects.operations.append(r.Read(stale.rid))

    def _live(self, rid: str, att: int, phases: tuple[str, ...]) -> Case | None:
        """The case, if the message is about its current attempt and it waits for such a message."""
        case = self.cases.get(rid)
        if case is None or case.record.att != att or case.phase not in phases:
            return None
        return case

    def _tick(self, case: Case, now: Moment) -> None:
        ms = now.monotonic_ms
        working = case.phase in ("looking", "voting", "holding", "preparing")
        if working and (_due(case.phase_deadline_ms, ms) or case.deadline_ms <= ms):
            self._too_late(case, now)
            return
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
            case.resend_at_ms = self._later(now, case.resend_every_ms)
            if working:
                self._effects.operations.append(r.Read(case.rid))
            for part in case.parts.values():
                self._resend_to(case, part, now)

    def _too_late(self, case: Case, now: Moment) -> None:
        """Sites were silent: go on without them, or give up; either way this attempt is over."""
        if case.phase == "looking" and case.deadline_ms > now.monotonic_ms:
            self._looked(case, now)
            return
        silent = tuple(
            site_down(part.site, "it did not answer in time")
            for part in case.parts.values()
            if not (part.voted or (case.phase == "holding" and part.hold_ids))
        )
        if case.deadline_ms <= now.monotonic_ms:
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
        elif case.phase == "preparing" and not part.voted:
            self._send_prepare(case, part)
        elif case.phase in ("telling", "cancelling"):
            self._tell_one(case, part)

    def _wait_for_votes(self, case: Case, now: Moment) -> None:
        case.phase_deadline_ms = now.monotonic_ms + VOTE_MS_MAX
        case.resend_every_ms = RESEND_AFTER_MS
        case.resend_at_ms = self._later(now, RESEND_AFTER_MS)
        case.renew_at_ms = now.monotonic_ms + RENEW_EVERY_MS
        self._schedule(case)

    def _later(self, now: Moment, after_ms: int) -> int:
        return now.monotonic_ms + int(after_ms * (1 + 0.2 * self._jitter()))

    def _schedule(self, case: Case) -> None:
        """One entry in the heap at the earliest time of the case; stale entries do no harm."""
        times = [t for t in (case.phase_deadline_ms, case.resend_at_ms) if t]
        if case.renew_at_ms and case.phase in ("holding", "held", "preparing"):
            times.append(case.renew_at_ms)
        if times:
            heapq.heappush(self._due, (min(times), case.rid))

    # Ends

    def _case_to_finish(self, record: Record, ticket: int, now: Moment) -> Case | None:
        """The case of an open or held request; None when `ticket` is answered by the record."""
        if record.state != "open":
            self._effects.answers.append(Answer(ticket, view_of(record)))
            return None
        self.notice(record)
        if record.rid not in self.cases:
            self.adopt(record, now)
        case = self.cases[record.rid]
        case.tickets.append(ticket)
        return case

    def _answer(self, case: Case) -> None:
        view = self.view(case)
        self._effects.answers.extend(Answer(ticket, view) for ticket in case.tickets)
        case.tickets.clear()

    def _drop(self, case: Case, row: Record | None) -> None:
        """The register says that this is not ours (any more): answer with what it says."""
        rid = case.rid
        if row is not None:
            case.record = row
        elif case.record.problem is None:
            case.record.state = "closed"
            error = LostRace("it was given up before it began", remedy="try again")
            case.record.problem = problem_of(error, case.record.reservation)
        self._answer(case)
        self._over(case, rid)

    def _over(self, case: Case, rid: str = "") -> None:
        """`rid` is given where the case's record has become another's."""
        case.phase = "over"
        for query_id in case.queries:
            self._queries.pop(query_id, None)
        if self.cases.pop(rid or case.rid, None) is not None:
            self._keys.pop((case.record.user, case.record.key), None)
            self._open[case.record.user] -= 1

    def _happened(
        self, case: Case, kind: str, detail: str, now: Moment, refusals: tuple[Refusal, ...] = ()
    ) -> None:
        record = case.record
        event = Event(
            number=self.clock.tick(now.wall_ms),
            at_ms=now.wall_ms,
            id=record.reservation,
            kind=kind,
            detail=detail,
            refusals=refusals,
        )
        record.trail = (*record.trail[-TRAIL_MAX + 1 :], event)
        case.untold.append(event)

    def _tell_watchers(self, case: Case, op: Operation, won: bool) -> None:
        """What happened is told once the operation that it came with is durable, and only if it won."""
        if isinstance(op, r.Begin | r.Finish | r.Read):
            return
        of_op = [each for each in case.untold if (each.kind == "held") is isinstance(op, r.Note)]
        if won:
            self._effects.events.extend(Happened(case.record.user, event) for event in of_op)
        case.untold = [event for event in case.untold if event not in of_op]


def key_reused(key: str) -> KeyReused:
    return KeyReused(
        "this key was used before with another request",
        where="key",
        remedy=f"make a new key; `by_key {key}` shows the old request",
    )


def hold_ran_out() -> Expired:
    return Expired("the hold has run out", remedy="hold or book it again")


def _due(at_ms: int, now_ms: int) -> bool:
    return bool(at_ms) and at_ms <= now_ms
