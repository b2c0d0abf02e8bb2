"""Places in queues: held for a job while its broker compares the bids of several sites.

A place is claimed as a slot is, by the same messages and with the same promises; what is claimed lies in
the queue of a machine (`queue_of`), where there is room for all. Its order there is kept by the queue, which
is asked first (`PlaceAsk`), and follows what becomes of the claim: it withdraws the job when the hold
ends, and lets it run once it is locked. A bid that holds nothing would be a guess: see Weissman and
Grimshaw 1996, section 4, on the race between the answer and the submission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import machine_of, queue_of
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.limits import LISTING_MAX, PLACE_HOLD_MS_MAX, TIME_S_MAX
from kalends.federation.lost_bids import LostBids
from kalends.federation.offered_places import decided_within_s
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.effects import PlaceAsk
from kalends.resource_servers.participation.outbox import REGISTER, ParticipantOutbox
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.this_site import FenceNumbers, ThisSite

HELD_MS_MAX: Final = 2 * PLACE_HOLD_MS_MAX
"""So long a request has its places held, over all of its attempts."""


def locked_places(book: ClaimTable) -> Iterator[tuple[Stake, Claim]]:
    """Yield all places that jobs have for good, waiting or not, with the requests that they are for."""
    for queue in [name for name in book.calendars if machine_of(name)]:
        booked = book.calendars[queue].calendar.listing(0, TIME_S_MAX, LISTING_MAX)
        for rid in dict.fromkeys(each.reservation for each in booked if each.state == "locked"):
            stake = book.stakes.get(rid)
            for claim in stake.claims_in("locked") if stake is not None else ():
                if stake is not None and claim.resource == queue:
                    yield stake, claim


def _ways(solicit: m.Solicit) -> dict[str, tuple[JobRequest, ...]]:
    """Return the job in each of its ways, by machine; none of ways that name no implementation."""
    known = solicit.implementations
    return {
        machine: tuple(each.of(solicit.job, known) for each in ways)
        for machine, ways in solicit.ways.items()
        if ways and all(each.implementation < len(known) for each in ways)
    }


class PlaceQuestion(NamedTuple):
    """A question that the queues have not answered yet; `number` is that of the ask.

    Who has no answer by `until_ms` (monotonic) is told that there is no place.
    """

    source: str
    solicit: m.Solicit
    number: int
    until_ms: int


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
    lost_bids: LostBids = field(init=False, default_factory=LostBids)
    _soliciting: dict[str, PlaceQuestion] = field(init=False, default_factory=dict)
    _bids: dict[str, m.Bid] = field(init=False, default_factory=dict)
    """The bids whose places are held, by request."""
    _since_ms: dict[str, int] = field(init=False, default_factory=dict)
    """When each of them had its first place (monotonic)."""
    _fallen: dict[str, None] = field(init=False, default_factory=dict)
    """Requests whose places were promised, and have fallen back: nobody has decided in time."""

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
        if refusal := self._why_not(source, solicit, now):
            if stake is not None:
                self.claims.clear(stake)
            self.turn_down(source, solicit, (refusal,))
            return
        self._ask(source, solicit, stake, now)

    def turn_down(self, source: str, solicit: m.Solicit, refusals: tuple[Refusal, ...]) -> None:
        """Answer with a bid that offers nothing."""
        bid = self.here.no_bid(solicit, refusals)
        self.outbox.send(source, structs.replace(bid, closed_until=self.admission.drained_until_s))

    def _why_not(self, source: str, solicit: m.Solicit, now: Moment) -> Refusal | None:
        if closed := self.admission.closed():
            return closed
        user = solicit.principal.user
        asked = sum(
            len(each.solicit.machines)
            for each in self._soliciting.values()
            if each.solicit.principal.user == user
        )
        if self.admission.room_of(user) < asked + len(solicit.machines):
            # Others of this user's end within seconds.
            return structs.replace(self.admission.too_many_holds(), code=RefusalCode.HELD)
        if now.monotonic_ms - self._since_ms.get(solicit.rid, now.monotonic_ms) > HELD_MS_MAX:
            detail = "its place was held for too long, and was given to others"
            return self.here.refusal(RefusalCode.HELD, detail)
        # A job that wants two places, and one for which nobody else has bid, is never spared.
        if solicit.att == 1 and not solicit.job.at_most_once:
            spared = self.lost_bids.why_spared(self.registers.of(source), now)
            return self.here.refusal(RefusalCode.HELD, spared) if spared else None
        return None

    def _ask(self, source: str, solicit: m.Solicit, stake: Stake | None, now: Moment) -> None:
        """Ask the queues; places held for an earlier attempt stay held until they answer."""
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
        until_ms = now.monotonic_ms + solicit.hold_ms
        self._soliciting[solicit.rid] = PlaceQuestion(source, solicit, number, until_ms)
        self.outbox.ask_queues(
            PlaceAsk(
                number,
                solicit.rid,
                solicit.principal,
                solicit.job,
                solicit.jobs,
                places,
                decided_within_s(solicit.hold_ms),
                _ways(solicit),
                solicit.rank,
            )
        )

    def offered(
        self, number: int, rid: str, offers: Sequence[m.PlaceOffer], refusals: Sequence[Refusal],
        now: Moment,
    ) -> bool:  # fmt: skip
        """Hold the places from the queues, and bid; return False if no visit waits for them."""
        asked = self._soliciting.get(rid)
        if asked is None or asked.number != number:
            return False
        del self._soliciting[rid]
        solicit, before = asked.solicit, self.book.stakes.get(rid)
        if not offers:
            if before is not None and before.has("held"):
                self.claims.end_hold(before, "release")
            self.turn_down(asked.source, solicit, tuple(refusals))
            return False
        self._hold(asked, before, offers, now)
        bid = m.Bid(
            rid=rid, att=solicit.att, epoch=self.here.epoch, offers=tuple(offers),
            refusals=tuple(refusals),
        )  # fmt: skip
        self._bids[rid] = bid
        self._since_ms.setdefault(rid, now.monotonic_ms)
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
                # Of as many units as all claims here: how many nodes it has says the queue.
                Claim(each.hold_id, queue_of(each.machine), each.start, each.end, 1)
                for each in offers
            ],
            refused=before.refused if before is not None else 0,
            stamp=solicit.stamp,
            ends_at=max(each.end for each in offers),
            register=self.registers.of(asked.source),
            once=solicit.job.at_most_once,
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

    def not_chosen(self, release: m.Release, now: Moment) -> None:
        """A place is given up; its broker may say what has won instead."""
        stake, won = self.book.stakes.peek(release.rid), release.won
        if won is not None and stake is not None and release.rid in self._bids:
            self.lost_bids.lost(stake.register, won.behind_s, won.runs_s, now)

    def chosen(self, stake: Stake, now: Moment) -> None:
        """Something is promised: a place, if there was a bid for it."""
        if stake.rid in self._bids:
            self.lost_bids.won(stake.register)
            self.forget(stake.rid)

    def forget(self, rid: str) -> None:
        """Nothing is held for a request any more, or it is promised."""
        self._bids.pop(rid, None)
        self._since_ms.pop(rid, None)
        self._fallen.pop(rid, None)

    def fell_back(self, rid: str) -> None:
        """Give up a place whose nodes were given to others, because its broker did not decide in time.

        The promise stands: only the broker can end it.
        """
        self._fallen[rid] = None
        self._tell_fallen(rid)

    def met(self) -> None:
        """A broker is connected: it hears what has become of places while it was away."""
        for rid in [*self._fallen]:
            self._tell_fallen(rid)

    def _tell_fallen(self, rid: str) -> None:
        stake = self.book.stakes.peek(rid)
        if stake is None or not stake.has("prepared"):
            del self._fallen[rid]
            return
        lost = tuple(claim.hold_id for claim in stake.claims_in("prepared"))
        renewed = m.Renewed(rid=rid, att=stake.att, epoch=self.here.epoch, lost=lost)
        self.outbox.send(f"{REGISTER}{stake.register}", renewed)

    def advance(self, now: Moment) -> None:
        """Tell who has waited long enough that the queues give no place."""
        for rid, asked in list(self._soliciting.items()):
            if asked.until_ms > now.monotonic_ms:
                continue
            del self._soliciting[rid]
            refusal = self.here.refusal(RefusalCode.NO_PLACE, "its queues do not answer")
            self.turn_down(asked.source, asked.solicit, (refusal,))

    def next_deadline_ms(self) -> int | None:
        return min((asked.until_ms for asked in self._soliciting.values()), default=None)
