"""Places in queues: held for a job while its broker compares the bids of several sites.

A place is claimed as a slot is, by the same messages and with the same promises; what is claimed lies in
the queue of a machine (`queue_of`), where there is room for all. Its order there is kept by the queue, which
is asked first (`PlaceAsk`), and follows what becomes of the claim: it withdraws the job when the hold
ends, and lets it run once it is locked. A bid that holds nothing would be a guess: see Weissman and
Grimshaw 1996, section 4, on the race between the answer and the submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.identifiers import queue_of
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claim_table import ClaimTable
from kalends.resource_servers.participation.claims import Claims
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.effects import PlaceAsk
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.this_site import FenceNumbers, ThisSite


class PlaceQuestion(NamedTuple):
    """A question that the queues have not answered yet; `number` is that of the ask."""

    source: str
    solicit: m.Solicit
    number: int


@dataclass(eq=False)
class Places:
    """Answers Solicit: from then on the claims are as those of any visit."""

    here: ThisSite
    book: ClaimTable
    claims: Claims
    consequences: Consequences
    attempts: LiveAttempts
    admission: Admission
    registers: Registers
    outbox: ParticipantOutbox
    numbers: FenceNumbers
    _soliciting: dict[str, PlaceQuestion] = field(init=False, default_factory=dict)
    _bids: dict[str, m.Bid] = field(init=False, default_factory=dict)
    """The bids whose places are held, by request."""

    def solicit(self, source: str, solicit: m.Solicit, now: Moment) -> None:
        rid = solicit.rid
        if self.attempts.is_stale(source, rid, solicit.att):
            return
        under_way = self._soliciting.get(rid)
        if under_way is not None and under_way.solicit.att == solicit.att:
            self._soliciting[rid] = under_way._replace(source=source)
            return
        stake = self.book.stakes.get(rid)
        if stake is not None and stake.att == solicit.att and stake.claims:
            if (bid := self._bids.get(rid)) is not None:
                self.outbox.send(source, bid)
            return
        self.consequences.attempt_over(rid, solicit.att)
        if stake is not None and stake.att < solicit.att:
            self.claims.supersede(stake, solicit.att)
        if refusal := self._why_not(solicit):
            if stake is not None:
                self.claims.clear(stake)
            self.outbox.send(source, self.here.no_bid(solicit, (refusal,)))
            return
        self._ask(source, solicit, stake, now)

    def _why_not(self, solicit: m.Solicit) -> Refusal | None:
        if closed := self.admission.closed():
            return closed
        if self.admission.room_of(solicit.principal.user) < len(solicit.machines):
            return self.admission.too_many_holds()
        return None

    def _ask(self, source: str, solicit: m.Solicit, stake: Stake | None, now: Moment) -> None:
        """Ask the queues; what was held for an earlier attempt stays held meanwhile."""
        held = (
            {claim.resource: claim.hold_id for claim in stake.claims} if stake is not None else {}
        )
        if stake is not None and held:
            self.claims.hold_place(stake, self.admission.hold_until_ms(solicit.hold_ms, now))
        machines = dict.fromkeys(solicit.machines)
        places = tuple(
            (name, held.get(queue_of(name)) or self.numbers.new())
            for name in machines
            if not held or queue_of(name) in held
        )
        number = self.numbers.new()
        self._soliciting[solicit.rid] = PlaceQuestion(source, solicit, number)
        self.outbox.ask_queues(
            PlaceAsk(
                number,
                solicit.rid,
                solicit.principal,
                solicit.job,
                places,
                -(-solicit.hold_ms // 1000),
            )
        )

    def offered(
        self, number: int, rid: str, offers: Sequence[m.PlaceOffer], refusals: Sequence[Refusal],
        now: Moment,
    ) -> bool:  # fmt: skip
        """Hold what the queues have given, and bid; return False where nobody waits for it any more."""
        asked = self._soliciting.get(rid)
        if asked is None or asked.number != number:
            return False
        del self._soliciting[rid]
        solicit, before = asked.solicit, self.book.stakes.get(rid)
        if not offers:
            if before is not None and before.has("held"):
                self.claims.end_hold(before, "release")
            self.outbox.send(asked.source, self.here.no_bid(solicit, tuple(refusals)))
            return False
        self._hold(asked, before, offers, now)
        bid = m.Bid(
            rid=rid, att=solicit.att, epoch=self.here.epoch, offers=tuple(offers),
            refusals=tuple(refusals),
        )  # fmt: skip
        self._bids[rid] = bid
        self.outbox.send(asked.source, bid)
        return True

    def _hold(
        self,
        asked: PlaceQuestion,
        before: Stake | None,
        offers: Sequence[m.PlaceOffer],
        now: Moment,
    ) -> None:
        solicit = asked.solicit
        stake = Stake(
            rid=solicit.rid,
            att=solicit.att,
            principal=solicit.principal,
            secret=solicit.secret,
            need=1,
            parts=(),
            coords=solicit.coords,
            claims=[
                Claim(each.hold_id, queue_of(each.machine), each.start, each.end, each.nodes)
                for each in offers
            ],
            refused=before.refused if before is not None else 0,
            stamp=solicit.stamp,
            ends_at=max(each.end for each in offers),
            register=self.registers.of(asked.source),
        )
        self.claims.hold_place(stake, self.admission.hold_until_ms(solicit.hold_ms, now))

    # What others have to know, and what ends

    def secret_of(self, rid: str) -> str | None:
        asked = self._soliciting.get(rid)
        return asked.solicit.secret if asked is not None else None

    def att_of(self, rid: str) -> int:
        asked = self._soliciting.get(rid)
        return asked.solicit.att if asked is not None else 0

    def end(self, rid: str, att: int) -> None:
        """Attempt `att` of a request is over, and those before it: what is asked for it is not waited for."""
        if 0 < self.att_of(rid) <= att:
            del self._soliciting[rid]

    def forget(self, rid: str) -> None:
        """Nothing is held for a request any more, or it is promised."""
        self._bids.pop(rid, None)
