"""The broker's half of the commit protocol, as a pure state machine.

Calls of users, messages of sites, answers of the register and the passing of time go in, together
with `now`; register operations, messages, answers and events come out. A request is committed by one
conditional write at its current attempt, after every chosen site has durably said yes to that very
attempt; raising the attempt aborts it for ever. No safety rule reads a clock.

The coordinator is made of parts, each a module, and has no other state. `calls` takes what users ask; what
sites and the register say goes to those that the list of parts names (`parts`). Why the register decides:
Gray and Lamport, Consensus on Transaction Commit; for the session see Ramamoorthi et al. 1997, section 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from kalends.broker.coordination.agents.agent_dispatch import AgentDispatch
from kalends.broker.coordination.agents.agent_events import AgentEvents
from kalends.broker.coordination.attempts import Attempts
from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.effects import CoordinatorEffects, rid_of
from kalends.broker.coordination.fault_containment import FaultContainment
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.owners.owner_approvals import OwnerApprovals
from kalends.broker.coordination.owners.owner_reclaims import OwnerReclaims
from kalends.broker.coordination.owners.pending_reclaim import PendingReclaim
from kalends.broker.coordination.owners.slot_losses import SlotLosses
from kalends.broker.coordination.parts import (
    CoordinatorPart,
    followers,
    on,
    owners_of_phases,
    takers,
)
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Registered
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.register_results import RegisterResults
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.search.site_waits import SiteWaits
from kalends.broker.coordination.search.slot_search import SlotSearch
from kalends.broker.coordination.search.waiting_lists import ListPlaces
from kalends.broker.coordination.timeouts import Timeouts
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.answer_checks import AnswerChecks
from kalends.broker.coordination.trust.credentials import Credentials, Identity
from kalends.broker.coordination.user_calls import UserCalls
from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.broker.coordination.voting.negotiation import Negotiation
from kalends.broker.coordination.voting.outcome_inquiries import OutcomeInquiries
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.broker.coordination.wings import Ground, Wing
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.core.clock import LogicalClock
from kalends.core.intervals import Moment

W = TypeVar("W")

QUERY_IDS: Final = 1 << 39
"""Queries of one start are numbered from anywhere below this; those of `site_queries` come after them all."""


class Coordinator:
    """All requests that this broker replica works on. Not thread-safe.

    `new_rid` brings randomness; `jitter` gives numbers in [0, 1); `owner_alive` tells
    whether another replica's lease runs; `certain` tells whether what the register has no decision of was
    never decided; `wings` bring further parts.
    """

    table_type = TransactionTable
    checks_type = AnswerChecks
    decide_type = DecidePhase
    prepare_type = PreparePhase
    search_type = SlotSearch
    negotiation_type = Negotiation
    approvals_type = OwnerApprovals
    agents_type = AgentDispatch
    attempts_type = Attempts
    inquiries_type = OutcomeInquiries

    def __init__(
        self,
        identity: Identity,
        directory: Directory,
        clock: LogicalClock,
        *,
        new_rid: Callable[[Moment], str],
        jitter: Callable[[], float],
        open_per_user_max: int = 256,
        owner_alive: Callable[[str], bool] = lambda owner: False,
        certain: Callable[[], bool] = lambda: True,
        wings: Sequence[Callable[[Ground], Wing]] = (),
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
        self.checks = checks = self.checks_type(alarm=outbox.alarm, lose=directory.lose)
        self.table = table = self.table_type(owner, outbox, ended=self._ended)
        self.cases: Mapping[str, Transaction] = table.cases
        self.containment = FaultContainment(table, outbox, broke=self._broke)
        self.in_flight = in_flight = RequestsInFlight(self._recheck)
        decide = self.decide_type(table, outbox, credentials, deadlines)
        self.prepare = prepare = self.prepare_type(
            identity, directory, table, outbox, log, credentials, deadlines, in_flight
        )
        self.lists = lists = ListPlaces(
            directory, table, outbox, log, credentials, in_flight, prepare, self._look
        )
        waits = SiteWaits(directory, deadlines, decide, prepare, self._begin)
        self.search = search = self.search_type(
            directory, table, outbox, checks, deadlines, in_flight, prepare, lists, waits, new_query_id
        )  # fmt: skip
        self.negotiation = negotiation = self.negotiation_type(
            table, outbox, log, credentials, checks, in_flight, prepare
        )
        approvals = self.approvals_type(table, deadlines, log, prepare, negotiation)
        agents = self.agents_type(
            identity, directory, table, outbox, log, credentials, prepare, checks, AgentEvents(log)
        )
        self.attempts = self.attempts_type(
            owner, table, in_flight, prepare, self._begin, self.containment.left_alone
        )
        self.calls = UserCalls(
            owner, clock, table, outbox, log, decide, prepare, agents, self.attempts,
            new_rid=new_rid, open_per_user_max=open_per_user_max,
        )  # fmt: skip
        inquiries = self.inquiries_type(
            owner, table, outbox, credentials,
            take_over=self.attempts.take_over, owner_alive=owner_alive, certain=certain,
        )  # fmt: skip
        self.reclaims = reclaims = OwnerReclaims(
            identity, directory, table, outbox, log, checks, in_flight, decide,
            new_query_id=new_query_id, owner_alive=owner_alive, calls=self.calls, give_back=self._give_back,
        )  # fmt: skip
        ground = Ground(
            identity, directory, table, outbox, log, credentials, deadlines, checks, prepare, self.calls,
            jitter, certain, owner_alive, self.registered,
        )  # fmt: skip
        self._wings = [make(ground) for make in wings]
        kernel = (
            agents.part, search.part, negotiation.part, approvals.part, lists.part, decide.part,
            inquiries.part, SlotLosses(outbox, credentials, table.cases).part, reclaims.part,
            CoordinatorPart(handles=(on(m.Hello, self.site_up), on(m.View, self.viewed))),
        )  # fmt: skip
        parts = (*kernel, *(part for wing in self._wings for part in wing.parts))
        self._parts = parts
        self.phase_owners = phase_owners = owners_of_phases(parts)
        self.results = results = RegisterResults(
            owner, table, log, in_flight, decide, prepare, lists, negotiation, self.attempts,
            phase_owners, parts,
        )  # fmt: skip
        prepare.joint = self._joint
        self.timeouts = Timeouts(table, deadlines, prepare, phase_owners)
        self.takers = takers(parts)
        self._followers = followers((*parts, results.part))

    def wing(self, kind: type[W]) -> W:
        """Return the wing of this kind. Raises `LookupError` if this broker has none."""
        for wing in self._wings:
            if isinstance(wing, kind):
                return wing
        raise LookupError(kind.__name__)

    # What parts announce

    def _ended(self, case: Transaction) -> None:
        """End what parts have begun for the request, and clear the way for others of this replica."""
        for part in self._parts:
            if part.ended is not None:
                part.ended(case)
        self.in_flight.end(case.rid)

    def _broke(self, rid: str) -> None:
        for part in self._parts:
            if part.broke is not None:
                part.broke(rid)

    def _give_back(self, recovery: PendingReclaim, record: Record, now: Moment) -> str:
        for part in self._parts:
            if part.gives_back is not None and (rid := part.gives_back(recovery, record, now)):
                return rid
        return ""

    def _joint(self, case: Transaction, op: r.Commit, now: Moment) -> bool:
        """Whether a part commits the request together with others."""
        return any(part.commits is not None and part.commits(case, op, now) for part in self._parts)

    def _recheck(self, rid: str) -> None:
        case = self.cases.get(rid)
        if case is not None:
            self.lists.stir(case)
            self.deadlines.wake(rid)

    def _look(self, case: Transaction, now: Moment) -> None:
        self.search.look(case, now)

    def _begin(self, case: Transaction, now: Moment) -> None:
        """Begin an attempt by the first part that takes such a request; search for slots if none does."""
        for part in self._parts:
            if part.begins is not None and part.begins(case, now):
                return
        self.search.begin(case, now)

    # Events of sites

    def receive(self, site: str, message: m.Message, now: Moment) -> None:
        """Take one message from `site` (or, for an Inquire by HTTP, from the asker's address).

        One that cannot be true changes nothing but its own request: the site has refused there.
        """
        self.table.at_work_on = self._request_of(message)
        heard = self.checks.heard(site, message, now)
        if heard is None:
            return
        take = self.takers.get(type(heard))
        if take is None:
            self.outbox.alarm(f"{type(heard).__name__} from {site}: not for a broker")
        else:
            take(site, heard, now)

    def site_up(self, site: str, hello: m.Hello, now: Moment) -> None:
        """A site is connected (again): say at once what it may have missed."""
        self.directory.greet(hello)
        for part in self._parts:
            if part.greeted is not None:
                part.greeted(site)
        for case in list(self.cases.values()):
            self.table.at_work_on = case.rid
            site_back = self.phase_owners[case.phase].site_back
            if site_back is None or site_back(case, hello, now):
                self.timeouts.say_again(case, site)

    def site_forgot(self, site: str, now: Moment) -> None:
        """The promises of `site` may be gone: no attempt that counts on them goes on."""
        for case in list(self.cases.values()):
            forgot = self.phase_owners[case.phase].forgot
            part = case.parts.get(site)
            if part is not None and forgot is not None:
                self.table.at_work_on = case.rid
                forgot(case, part, now)

    def site_lost(self, site: str, detail: str, *, unusable: bool = False) -> None:
        self.directory.lose(site, detail, unusable=unusable)

    def viewed(self, site: str, view: m.View, now: Moment) -> None:
        """Take the answer to a query, which a search or the move of a reservation has asked."""
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
        if result.unreadable is not None and not isinstance(op, r.Examine | r.OfCase):
            return  # Nothing follows: who asks for its outcome is not answered.
        for follow in self._followers.get(type(op), ()):
            follow(op, result, now)

    # Passing of time, and effects

    def advance(self, now: Moment) -> None:
        """Let time pass: resend, renew, give up what took too long."""
        self.timeouts.advance(now)

    def next_deadline_ms(self) -> int | None:
        return self.deadlines.next_ms()

    def take_effects(self) -> CoordinatorEffects:
        """Return all effects since the last call, in order."""
        return self.outbox.take()
