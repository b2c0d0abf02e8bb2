"""Ways to get the protocol wrong, put into the shipped code at run time: the auditor must catch each.

The first group is the list of mutations that model checking has shown to be fatal; the second swaps
the order of storing and saying, and drops an owner's rule.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from kalends.broker.coordination.agents.agent_dispatch import AgentDispatch
from kalends.broker.coordination.attempts import Attempts
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.broker.coordination.voting.outcome_inquiries import OutcomeInquiries
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.contract import messages as m
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.memory.in_doubt import InDoubtResolver
from kalends.resource_servers.participation.outcome_handler import OutcomeHandler
from kalends.resource_servers.participation.participant import Participant, PartTypes
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.visits.agent_holds import AgentHolds
from kalends.resource_servers.participation.visits.agent_recalls import AgentRecalls
from tests.simulation.climates import (
    AGENTS_EVERYWHERE,
    BROKERS_PAUSE,
    BROKERS_SILENT,
    EVERY_FAULT,
    LATE_ANSWERS,
    LYING_PEER,
    SLOW_LINES,
    Climate,
)
from tests.simulation.disks import RegisterDisk
from tests.simulation.nodes import BrokerNode, SiteNode
from tests.simulation.shipped_site import SHIPPED, site_visited, site_with
from tests.simulation.world import World


class Mutation(NamedTuple):
    """`world` runs the broken code, in the climate that lets it show."""

    name: str
    world: type[World]
    climate: Climate = EVERY_FAULT


def world_with(
    *,
    participant: Callable[..., Participant] = SHIPPED,
    guard: Callable[..., Provisions] = Provisions,
    payments: Callable[..., Credits] = Credits,
    coordinator: type = Coordinator,
    register: type[RegisterDisk] = RegisterDisk,
    site: type[SiteNode] = SiteNode,
    broker: type[BrokerNode] = BrokerNode,
) -> type[World]:
    """A world of which one part is broken; `coordinator` may be a part of the coordinator."""

    class Broken(World):
        make_participant = staticmethod(participant)
        make_guard = staticmethod(guard)
        make_payments = staticmethod(payments)
        make_coordinator = coordinator_with(coordinator)
        register_disk = register
        site_node = site
        broker_node = broker

    return Broken


def is_of_coordinator(broken: type) -> bool:
    """Whether `broken` is a coordinator, or a part of one."""
    return issubclass(broken, Coordinator) or bool(_seams(broken))


def coordinator_with(broken: type) -> type[Coordinator]:
    """The coordinator with `broken` in the place of the part that it is derived from."""
    if issubclass(broken, Coordinator):
        return broken
    (seam,) = _seams(broken)
    return type(broken.__name__, (Coordinator,), {seam: broken})


def _seams(broken: type) -> list[str]:
    return [
        name
        for name in dir(Coordinator)
        if isinstance(part := getattr(Coordinator, name), type) and part is not type
        if issubclass(broken, part)
    ]


def _sites(name: str, broken: Callable[..., Participant]) -> Mutation:
    return Mutation(name, world_with(participant=broken))


def _asking(name: str, broken: Callable[..., Participant]) -> Mutation:
    """Broken in what sites ask of each other when all brokers are silent."""
    return Mutation(name, world_with(participant=broken), BROKERS_SILENT)


def _brokers(name: str, broken: type) -> Mutation:
    return Mutation(name, world_with(coordinator=broken))


def _travelling(name: str, world: type[World]) -> Mutation:
    return Mutation(name, world, AGENTS_EVERYWHERE)


# What model checking has shown to be fatal


class InquiryAbortsWithoutRaising(OutcomeInquiries):
    """An inquiry about an attempt that is still open is answered abort."""

    def answer(self, ask: r.Ask, row: Any, now: Any) -> None:
        if row is not None and row.state == "open":
            answer = m.Outcome(rid=ask.rid, att=ask.att, outcome="abort")
            self.outbox.send(ask.reply_to, answer)
            return
        super().answer(ask, row, now)


class HoldsCountAsVotes(PreparePhase):
    """What is held is committed without asking for promises."""

    def prepare(self, case: Any, now: Any) -> None:
        case.enter("lock")
        for part in case.parts.values():
            part.voted = True
        self.commit(case, now)


class ShortPromises(Claims):
    def promise(self, stake: Any, event: Any, now: Any) -> None:
        super().promise(stake, event, now)
        self.ends_ms = {**getattr(self, "ends_ms", {}), stake.rid: now.monotonic_ms + 3_000}


class EndsPromises(Participant):
    def receive(self, source: str, message: m.Message, now: Any) -> None:
        ends_ms = getattr(self.claims, "ends_ms", {})
        for rid, end_ms in list(ends_ms.items()):
            stake = self.book.stakes.get(rid)
            if end_ms <= now.monotonic_ms:
                del ends_ms[rid]
                if stake is not None and stake.has("prepared"):
                    self.claims.refuse(stake, stake.att, "abort")
        super().receive(source, message, now)


PromisesExpire = partial(EndsPromises, **SHIPPED.keywords, types=PartTypes(claims=ShortPromises))
"""A promise ends three seconds after it was made, as a hold would."""


class GivesPromisesBack(InDoubtResolver):
    def inquire(self, rid: str, att: int, count: int, now: Any) -> None:
        stake = self.stakes.get(rid)
        if stake is not None and stake.att == att and stake.has("prepared") and count == 1:
            self.claims.refuse(stake, att, "abort")
            return
        super().inquire(rid, att, count, now)


PromisesAreReleased = site_with(in_doubt=GivesPromisesBack)
"""The start of an inquiry gives the promise back, as a recall of a promise would."""


class CommitForgottenAfterFirstDone(DecidePhase):
    """The decision is finished as soon as one site has locked."""

    def all_done(self, case: Any) -> bool:
        return any(part.done for part in case.parts.values())


class ResultsByRequestOnly(TransactionTable):
    """An answer of the register to a case that is over is taken by the next of the same request."""

    def asker(self, op: Any) -> Any:
        return self.cases.get(op.record.rid if isinstance(op, r.Begin) else op.rid)


class VotesWithoutAttempt(TransactionTable):
    """An answer to any attempt counts for the present one."""

    def live(self, rid: str, att: int, phases: tuple[str, ...]) -> Any:
        case = self.cases.get(rid)
        return case if case is not None and case.phase in phases else None


class RegisterWithoutCondition(RegisterDisk):
    """A commit is written at whatever attempt the row has."""

    def apply(
        self, operations: Any, who: str, memories: Any, live: Any, *, full: float, sync: float
    ) -> Any:
        forced = [self._forced(op) if isinstance(op, r.Commit) else op for op in operations]
        results = super().apply(forced, who, memories, live, full=full, sync=sync)
        return [
            msgspec.structs.replace(result, operation=op)
            for result, op in zip(results, operations, strict=True)
        ]

    def _forced(self, op: r.Commit) -> r.Commit:
        row = self.connection.execute("select att from request where rid = ?", (op.rid,)).fetchone()
        return msgspec.structs.replace(op, att=row[0]) if row else op


class PromisesInMemory(Claims):
    def store(self, stake: Any, event: str) -> None:
        if event not in ("visit-vote", "prepare"):
            super().store(stake, event)


PromiseNotStored = site_with(claims=PromisesInMemory)
"""A yes that does not survive a crash."""


class TakeoverAtTheSameAttempt(Attempts):
    """A replica takes over without raising the attempt."""

    def take_over(self, record: Any, now: Any) -> None:
        self.table.notice(record)
        if record.state != "open" or record.rid in self.table.cases:
            super().take_over(record, now)
        else:
            self.begin(self.table.open(record, now), now)


class RowsAreSkipped(Attempts):
    """Of the rows that nobody works on, the heartbeat passes over one in four."""

    def take_over(self, record: Any, now: Any) -> None:
        if int(record.rid[-1], 16) % 4:
            super().take_over(record, now)


class RefusesInMemory(InDoubtResolver):
    def peer_ask(self, source: str, ask: m.PeerAsk) -> None:
        stake = self.stakes.get(ask.rid)
        if stake is None or (not stake.has("prepared") and not stake.decided):
            says = m.PeerSays(rid=ask.rid, att=ask.att, site=self.here.name, says="never")
            self.outbox.send(source, says)
            return
        super().peer_ask(source, ask)


PeersRefuseWithoutStoring = site_with(in_doubt=RefusesInMemory)
"""A peer says never, and forgets that it did."""


class CommitsWhenAllPrepared(InDoubtResolver):
    def peer_says(self, source: str, says: m.PeerSays, now: Any) -> None:
        stake = self.stakes.get(says.rid)
        if stake is not None and says.says == "prepared" and stake.has("prepared"):
            ids = tuple(claim.hold_id for claim in stake.claims)
            says = msgspec.structs.replace(says, says="locked", chosen={self.here.name: ids})
        super().peer_says(source, says, now)


AllPreparedMeansCommit = site_with(in_doubt=CommitsWhenAllPrepared)
"""When every peer is prepared, a site locks."""


class AbortsForPrepared(InDoubtResolver):
    def peer_says(self, source: str, says: m.PeerSays, now: Any) -> None:
        if says.says == "prepared":
            says = msgspec.structs.replace(says, says="never")
        super().peer_says(source, says, now)


OnePreparedPeerMeansAbort = site_with(in_doubt=AbortsForPrepared)
"""A peer that is prepared, too, is read as one that refuses."""


class HearsPeersForOthers(InDoubtResolver):
    def peer_says(self, source: str, says: m.PeerSays, now: Any) -> None:
        stake = self.stakes.get(says.rid)
        parts = stake.parts if stake is not None else ()
        named = next((part.url for part in parts if part.site == says.site), source)
        super().peer_says(named, says, now)


PeersSpeakForOthers = site_with(in_doubt=HearsPeersForOthers)
"""What a peer says counts for whomever it names."""


# Order, and rules


class SendsBeforeStoring(SiteNode):
    persist_first = False


class BelievesBeforeStored(BrokerNode):
    decide_first = False


class AdmitsEveryLock(Admission):
    def why_not_promise(self, stake: Any, named: Any, now: Any) -> Any:
        return ()


LockNotChecked = site_with(admission=AdmitsEveryLock)
"""An owner's list is asked about holding only."""


class LeavesTheOld(OutcomeHandler):
    def commit(self, stake: Any, rid: str, att: int, chosen: Any, now: Any) -> bool:
        if stake is not None and stake.replaces and not stake.decided:
            stake.replaces = ""
        return super().commit(stake, rid, att, chosen, now)


OldStandsAlone = site_with(outcomes=LeavesTheOld)
"""A commit of a change leaves the old claims locked."""


class CancelsInMemory(Claims):
    def store(self, stake: Any, event: str) -> None:
        if event != "cancel":
            super().store(stake, event)


CancelNotStored = site_with(claims=CancelsInMemory)
"""A cancel that does not survive a crash."""


class AbortNotDurable(PreparePhase):
    """Sites are told abort before the register has closed the attempt."""

    def close(self, case: Any, error: Any, kind: str, now: Any) -> None:
        super().close(case, error, kind, now)
        decide = DecidePhase(self.table, self.outbox, self.credentials, self.deadlines)
        decide.abort(case, case.record.att, case.parts)


# Agents


class BestAlternativeBooked(Claims):
    def hold_chosen(self, stake: Any, until_ms: int) -> None:
        claims = stake.claims
        stake.claims = [claim for claim in claims if claim.common == claims[0].common]
        super().hold_chosen(stake, until_ms)
        for claim in claims:
            claim.state = "held"
        stake.claims = claims


AlternativesAreNotBooked = site_with(claims=BestAlternativeBooked)
"""Of all that an agent chose, only the best is on the calendars."""


class TakesPromisesBack(AgentRecalls):
    def give_back(self, given: Any) -> None:
        for blocker in given:
            stake = self.book.stakes.get(blocker.rid)
            if stake is not None and stake.has("prepared"):
                self.claims.refuse(stake, stake.att, "abort")
        super().give_back(given)


RecallTakesPromises = site_visited(recalls=TakesPromisesBack)
"""What an agent gives back is taken, even if it was promised while the agent thought about it."""


class HoldsUnchecked(AgentHolds):
    def is_free(self, stake: Any, claim: Any) -> bool:
        return True


ChoicesAreNotChecked = site_visited(holds=HoldsUnchecked)
"""What was free when the agent looked is held, whatever has been booked since, or is kept."""


class SomeTermsWillDo(AgentDispatch):
    """A start that serves the first term is taken for the whole request."""

    def toured(self, case: Any, now: Any) -> None:
        if case.agent.tour is not None:
            case.agent.tour.needs = case.agent.tour.needs[:1]
        super().toured(case, now)


MUTATIONS: Final = (
    _brokers("an inquiry aborts without raising", InquiryAbortsWithoutRaising),
    _brokers("holds count as votes", HoldsCountAsVotes),
    _sites("promises expire", PromisesExpire),
    _sites("promises are given back", PromisesAreReleased),
    _brokers("a commit is forgotten after the first Done", CommitForgottenAfterFirstDone),
    Mutation("votes without attempt", world_with(coordinator=VotesWithoutAttempt), LATE_ANSWERS),
    Mutation(
        "results are matched by request only",
        world_with(coordinator=ResultsByRequestOnly),
        BROKERS_PAUSE,
    ),
    Mutation("commit without condition", world_with(register=RegisterWithoutCondition)),
    _sites("a promise is not stored", PromiseNotStored),
    Mutation(
        "takeover at the same attempt",
        world_with(coordinator=TakeoverAtTheSameAttempt),
        BROKERS_PAUSE,
    ),
    _brokers("the heartbeat skips a row", RowsAreSkipped),
    _asking("peers refuse without storing", PeersRefuseWithoutStoring),
    _asking("all prepared is read as commit", AllPreparedMeansCommit),
    _asking("a prepared peer is read as a refusal", OnePreparedPeerMeansAbort),
    Mutation("a peer speaks for others", world_with(participant=PeersSpeakForOthers), LYING_PEER),
    Mutation("a site says before it stores", world_with(site=SendsBeforeStoring)),
    Mutation("a broker acts before it stores", world_with(broker=BelievesBeforeStored)),
    _sites("the lock rule is not checked", LockNotChecked),
    _sites("a change leaves the old claims", OldStandsAlone),
    _sites("a cancel is not stored", CancelNotStored),
    _brokers("abort before the register says so", AbortNotDurable),
    _travelling("alternatives are not booked", world_with(participant=AlternativesAreNotBooked)),
    Mutation("a recall takes promises", world_with(participant=RecallTakesPromises), SLOW_LINES),
    _travelling("choices are not checked anew", world_with(participant=ChoicesAreNotChecked)),
    _travelling("some of the terms will do", world_with(coordinator=SomeTermsWillDo)),
)


SHOWS_AT: Final = {
    "what an agent chose needs no script": 3,
    "a script that fails says yes": 2,
    "used time is not restored": 49,
    "a stale recall ends a newer hold": 66,
    "a commit is forgotten after the first Done": 49,
    "commit without condition": 31,
    "peers refuse without storing": 30,
    "a peer speaks for others": 55,
    "a prepared peer is read as a refusal": 35,
    "the lock rule is not checked": 33,
    "results are matched by request only": 77,
    "a recall takes promises": 74,
    "records are dropped before Forget": 401,
    "no recall": 120,
    "recalls are ignored": 120,
    "a list ignores what was free before": 26,
    "grants that nobody reads back": 11,
    "cores and licences that nobody counts": 37,
    "promises given up before other nodes are tried": 818,
    "votes without attempt": 80,
    "approved for good": 12,
    "votes wait": 118,
    "what is locked has no buffer": 35,
    "hubs leave out too much": 8,
    "one of a series is adopted": 19,
    "keys by index": 92,
    "sites are not judged": 24,
    "a change may replace what was cancelled": 12,
    "limits count when it is held only": 10,
    "only sites know limits": 16,
    "nothing is reserved while owners think": 29,
    "a fee is kept for what another owner takes back": 38,
    "nobody on a waiting list can pay": 219,
    "a job is charged before its end is stored": 18,
    "a job is charged twice after a restart": 4,
    "jobs reserve nothing": 10,
    "promises are given back": 23,
    "drift that nobody looks for": 7,
    "a recall ends what owners think about": 5,
    "two begin together": 5,
    "no lock on rows": 17,
    "a cancelled wait is believed": 2,
}
"""A seed that shows a mutation, where the first few do not: it is tried first."""


def seeds_to_catch(mutation: Mutation, seeds: range) -> tuple[int, str] | None:
    """How many seeds it took until `mutation` was caught, and what was said; None: with none of `seeds`."""
    for number, seed in enumerate(chain((SHOWS_AT.get(mutation.name, 1),), seeds), 1):
        violation = mutation.climate.run(seed, world_type=mutation.world).violation
        # A mutation that cannot be called shows nothing.
        assert "TypeError" not in violation, violation
        if violation:
            return number, violation
    return None
