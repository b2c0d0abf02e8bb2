"""The broker's half of the commit protocol, as a pure state machine.

Calls of users, messages of sites, answers of the register and the passing of time go in, together
with `now`; register operations, messages, answers and events come out. A request is committed by one
conditional write at its current attempt, after every chosen site has durably said yes to that very
attempt; raising the attempt aborts it for ever. No safety rule reads a clock.

The coordinator is made of parts, each a module, and has no other state. `calls` takes what users ask;
`HANDLERS` says which part takes which message. Why the register decides: Gray and Lamport, Consensus on
Transaction Commit; for the session see Ramamoorthi et al. 1997, section 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination.agent_dispatch import AgentDispatch
from kalends.broker.coordination.agent_story import AgentStory
from kalends.broker.coordination.attempts import Attempts
from kalends.broker.coordination.credentials import Credentials
from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.decide_phase import DecidePhase
from kalends.broker.coordination.decision_record import Registered
from kalends.broker.coordination.effects import CoordinatorEffects, rid_of
from kalends.broker.coordination.event_log import EventLog
from kalends.broker.coordination.fault_containment import FaultContainment
from kalends.broker.coordination.hearing import Hearing
from kalends.broker.coordination.identity import Identity
from kalends.broker.coordination.job_ends import JobEnds
from kalends.broker.coordination.negotiation import Negotiation
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.outcome_inquiries import OutcomeInquiries
from kalends.broker.coordination.owner_approvals import OwnerApprovals
from kalends.broker.coordination.owner_reclaims import OwnerReclaims
from kalends.broker.coordination.prepare_phase import PreparePhase
from kalends.broker.coordination.refusal_errors import site_down
from kalends.broker.coordination.register_results import RegisterResults
from kalends.broker.coordination.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.site_waits import SiteWaits
from kalends.broker.coordination.slot_losses import SlotLosses
from kalends.broker.coordination.slot_search import SlotSearch
from kalends.broker.coordination.solicitation import BID_MS_MAX, Solicitation
from kalends.broker.coordination.start_answers import StartAnswers
from kalends.broker.coordination.step_starts import StepStarts
from kalends.broker.coordination.steps import Steps
from kalends.broker.coordination.timeouts import Timeouts
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.user_calls import UserCalls
from kalends.broker.coordination.waiting_lists import ListPlaces
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.core.clock import LogicalClock
from kalends.core.intervals import Moment

QUERY_IDS: Final = 1 << 39
"""Queries of one start are numbered from anywhere below this; those of `site_queries` come after them all."""


class Coordinator:
    """All requests that this broker replica works on. Not thread-safe.

    `new_rid` brings randomness; `jitter` gives numbers in [0, 1); `owner_alive` tells
    whether another replica's lease runs; `scripts` gives the source of a hash, or ""; `certain` tells whether
    what the register has no decision of was never decided; `lost` gives the sites that are away for long.
    """

    table_type = TransactionTable
    hearing_type = Hearing
    decide_type = DecidePhase
    prepare_type = PreparePhase
    lists_type = ListPlaces
    search_type = SlotSearch
    negotiation_type = Negotiation
    approvals_type = OwnerApprovals
    agents_type = AgentDispatch
    bids_type = Solicitation
    attempts_type = Attempts
    results_type = RegisterResults
    inquiries_type = OutcomeInquiries
    reclaims_type = OwnerReclaims

    def __init__(
        self,
        identity: Identity,
        directory: Directory,
        clock: LogicalClock,
        *,
        new_rid: Callable[[Moment], str],
        jitter: Callable[[], float],
        open_per_user_max: int = 256,
        bid_ms_max: int = BID_MS_MAX,
        owner_alive: Callable[[str], bool] = lambda owner: False,
        scripts: Callable[[str], str] = lambda script: "",
        certain: Callable[[], bool] = lambda: True,
        lost: Callable[[Moment], Collection[str]] = lambda now: (),
    ) -> None:
        self.identity = identity
        self.directory = directory
        # An answer that was on its way to this replica before it started again is for none of these.
        new_query_id = itertools.count(1 + int(jitter() * QUERY_IDS)).__next__
        owner = identity.owner
        credentials = Credentials(identity.secret)

        self.outbox = outbox = CoordinatorOutbox()
        self.deadlines = deadlines = Deadlines(jitter)
        self.log = log = EventLog(clock, outbox)
        self.hearing = hearing = self.hearing_type(alarm=outbox.alarm, lose=directory.lose)
        self.table = table = self.table_type(owner, outbox, ended=self._ended)
        self.cases: Mapping[str, Transaction] = table.cases
        self.containment = FaultContainment(table, outbox, broke=self._broke)
        self.in_flight = in_flight = RequestsInFlight(self._recheck)
        self.decide = decide = self.decide_type(table, outbox, credentials, deadlines)
        self.prepare = prepare = self.prepare_type(
            identity, directory, table, outbox, log, credentials, deadlines, in_flight
        )
        self.lists = lists = self.lists_type(
            directory, table, outbox, log, credentials, in_flight, prepare, self._look
        )
        waits = SiteWaits(directory, deadlines, decide, prepare, self._begin_again)
        self.search = search = self.search_type(
            directory, table, outbox, hearing, deadlines, in_flight, prepare, lists, waits, new_query_id
        )  # fmt: skip
        self.negotiation = negotiation = self.negotiation_type(
            table, outbox, log, credentials, hearing, in_flight, prepare
        )
        self.approvals = approvals = self.approvals_type(
            table, deadlines, log, prepare, negotiation
        )
        self.agents = agents = self.agents_type(
            identity, directory, table, outbox, log, credentials, prepare, AgentStory(log), scripts
        )
        self.bids = bids = self.bids_type(
            identity,
            directory,
            table,
            outbox,
            log,
            credentials,
            deadlines,
            hearing,
            prepare,
            jitter,
            bid_ms_max,
        )
        self.attempts = self.attempts_type(
            owner, table, in_flight, prepare, agents, search, bids, self.containment.left_alone
        )
        self.results = self.results_type(
            owner, table, log, in_flight, decide, prepare, lists, negotiation, bids, self.attempts
        )
        self.calls = UserCalls(
            owner, clock, table, outbox, log, decide, prepare, agents, self.attempts,
            new_rid=new_rid, open_per_user_max=open_per_user_max,
        )  # fmt: skip
        self.inquiries = self.inquiries_type(
            owner, table, outbox, credentials,
            take_over=self.attempts.take_over, owner_alive=owner_alive, certain=certain,
        )  # fmt: skip
        self.starts = StartAnswers(outbox, credentials, certain, lost)
        self.ends = JobEnds(
            outbox, hearing, credentials, bids.candidates.learned, bids.tally, self.calls.submit
        )
        self.slot_losses = SlotLosses(outbox, credentials, table.cases)
        self.step_starts = StepStarts(outbox, credentials, certain)
        self.steps = Steps(owner, outbox, owner_alive=owner_alive, cancel=self.calls.cancel)
        self.reclaims = self.reclaims_type(
            identity, directory, table, outbox, log, hearing, in_flight, decide,
            new_query_id=new_query_id, owner_alive=owner_alive,
            submit=self.calls.submit, cancel=self.calls.cancel,
        )  # fmt: skip
        self.timeouts = Timeouts(
            table, deadlines, decide, prepare, lists, search, negotiation, approvals, agents, bids
        )

    # What parts announce

    def _ended(self, case: Transaction) -> None:
        """End all queries of the request, and clear the way for others of this replica."""
        self.search.forget(case)
        self.in_flight.end(case.rid)

    def _broke(self, rid: str) -> None:
        self.reclaims.give_up(rid)

    def _recheck(self, rid: str) -> None:
        case = self.cases.get(rid)
        if case is not None:
            self.lists.stir(case)
            self.deadlines.wake(rid)

    def _look(self, case: Transaction, now: Moment) -> None:
        self.search.look(case, now)

    def _begin_again(self, case: Transaction, now: Moment) -> None:
        self.attempts.begin(case, now)

    # Events of sites

    def receive(self, site: str, message: m.Message, now: Moment) -> None:
        """Take one message from `site` (or, for an Inquire by HTTP, from the asker's address).

        One that cannot be true changes nothing but its own request: the site has refused there.
        """
        self.table.at_work_on = self._request_of(message)
        heard = self.hearing.heard(site, message, now)
        if heard is None:
            return
        handler = HANDLERS.get(type(heard))
        if handler is None:
            self.outbox.alarm(f"{type(heard).__name__} from {site}: not for a broker")
        else:
            handler(self)(site, heard, now)

    def site_up(self, site: str, hello: m.Hello, now: Moment) -> None:
        """A site is connected (again): say at once what it may have missed."""
        self.directory.greet(hello)
        self.agents.forget_scripts(site)
        self.bids.experience.back(site)
        for case in list(self.cases.values()):
            if case.phase in ("looking", "waiting"):
                self.search.site_back(case, site, now)
            if case.phase == "bidding" and not case.parts:
                self.table.at_work_on = case.rid
                self.bids.site_back(case, now)
                continue
            part = case.parts.get(site)
            if part is None:
                continue
            self.table.at_work_on = case.rid
            if case.phase in ("held", "holding", "asking", "preparing"):
                self.timeouts.renew(case, part)
            if case.phase == "touring":
                self.agents.site_back(case, hello)
            else:
                self.timeouts.resend(case, part)

    def site_forgot(self, site: str, now: Moment) -> None:
        """What `site` has promised may be gone: no attempt that counts on it goes on.

        A place in a queue cannot be locked again there, only to be given up: that it is given up is enough.
        """
        for case in list(self.cases.values()):
            part = case.parts.get(site)
            if part is not None and case.phase == "cancelling" and case.record.spec.job is not None:
                self.table.at_work_on = case.rid
                part.done = True
                self.decide.resend(case, part)
            if part is not None and case.phase == "telling" and case.record.spec.job is not None:
                self.table.write(case, r.Read(case.rid))
            if part is not None and part.voted and case.phase in ("voting", "preparing"):
                self.table.at_work_on = case.rid
                refusal = site_down(site, "it has forgotten its promise")
                self.negotiation.refused(case, (refusal,), now)

    def site_lost(self, site: str, detail: str, *, unusable: bool = False) -> None:
        self.directory.lose(site, detail, unusable=unusable)

    def start_asked(self, reply_to: str, ask: m.StartAsk, now: Moment) -> None:
        """A job has its nodes: it starts here alone, or with the other parts."""
        (self.step_starts if ask.parts else self.starts).asked(reply_to, ask, now)

    def viewed(self, site: str, view: m.View, now: Moment) -> None:
        """The answer to a query: of a search, or for the move of a reservation."""
        asker = self.reclaims if self.reclaims.asked(view.query_id) else self.search
        asker.viewed(site, view, now)

    def _request_of(self, message: m.Message) -> str:
        """The request that `message` is about, "" for none."""
        if isinstance(message, m.View):
            query_id = message.query_id
            return self.reclaims.request_of(query_id) or self.search.request_of(query_id)
        return getattr(message, "rid", "")

    # Answers of the register

    def registered(self, result: Registered, now: Moment) -> None:
        """Take the durable answer to one of our register operations."""
        op = result.operation
        self.table.at_work_on = rid_of(op)
        match op:
            case r.Ask() | r.Permit() | r.NoteEnd() | r.Assemble() | r.GiveUp() | r.Recover() if (
                result.unreadable is not None
            ):
                pass  # Nothing follows: who asks for its outcome is not answered.
            case r.Ask():
                self.inquiries.answer(op, result.record, now)
            case r.Permit():
                self.starts.decided(op, result.won, result.record)
            case r.NoteEnd():
                self.ends.noted(op, result.record, now)
                self.starts.over(result.record, now)
            case r.Assemble() | r.GiveUp():
                self.step_starts.decided(op, result, now)
            case r.NoteBegan():
                pass
            case r.NoteNodes():
                self.slot_losses.noted(op, result.record)
            case r.Recover():
                if (known := self.cases.get(op.record.rid)) is not None:
                    self.table.write(known, r.Read(known.rid))
            case r.Examine():
                self.reclaims.examined(op.rid, result, now)
                self.steps.examined(op.rid, result, now)
            case _:
                self._registered(op, result, now)

    def _registered(self, op: r.CaseOperation, result: Registered, now: Moment) -> None:
        """A change that was made for an owner goes on last, when its case may be over."""
        change = self.reclaims.change_of(op)
        if result.unreadable is not None:
            self.results.unreadable(result.unreadable, op)
        else:
            self.results.registered(op, result, now)
        if change is not None and result.won:
            self.reclaims.changed(change, op, now)

    # Passing of time, and effects

    def advance(self, now: Moment) -> None:
        """Let time pass: resend, renew, give up what took too long."""
        self.timeouts.advance(now)

    def next_deadline_ms(self) -> int | None:
        return self.deadlines.next_ms()

    def take_effects(self) -> CoordinatorEffects:
        """Return all effects since the last call, in order."""
        return self.outbox.take()


HANDLERS: Final[
    dict[type[m.Message], Callable[[Coordinator], Callable[[str, Any, Moment], None]]]
] = {
    m.Hello: lambda coordinator: coordinator.site_up,
    m.View: lambda coordinator: coordinator.viewed,
    m.Report: lambda coordinator: coordinator.agents.reported,
    m.Bid: lambda coordinator: coordinator.bids.heard,
    m.Visited: lambda coordinator: coordinator.negotiation.visited,
    m.Grant: lambda coordinator: coordinator.negotiation.granted,
    m.Locked: lambda coordinator: coordinator.negotiation.locked,
    m.Recall: lambda coordinator: coordinator.negotiation.recalled,
    m.Renewed: lambda coordinator: coordinator.negotiation.renewed,
    m.OwnerSays: lambda coordinator: coordinator.approvals.said,
    m.Stale: lambda coordinator: coordinator.negotiation.stale,
    m.Voted: lambda coordinator: coordinator.negotiation.voted,
    m.Awaited: lambda coordinator: coordinator.lists.awaited,
    m.Done: lambda coordinator: coordinator.decide.done,
    m.Inquire: lambda coordinator: coordinator.inquiries.inquired,
    m.EndOfJob: lambda coordinator: coordinator.ends.heard,
    m.StartAsk: lambda coordinator: coordinator.start_asked,
    m.PartNews: lambda coordinator: coordinator.steps.told,
    m.SlotLoss: lambda coordinator: coordinator.slot_losses.heard,
    m.Reclaim: lambda coordinator: coordinator.reclaims.reclaimed,
}
"""The method that takes each message of sites."""
