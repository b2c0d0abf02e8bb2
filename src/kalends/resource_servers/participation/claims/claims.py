"""All changes of a site's claims: one part moves, books, stores and announces them.

A change is whole: claims move by the table of `transitions`, the calendars follow, what is durable is
stored, and whoever has to know is told. No other part writes to a claim set or to its bookings.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.bills import Bill
from kalends.resource_servers.participation.claims.claim_sets import (
    Claim,
    SlotLack,
    Stake,
    StakeDropped,
    stored,
)
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.occupancy import passed_of
from kalends.resource_servers.participation.claims.petitions import Petition
from kalends.resource_servers.participation.claims.transitions import ClaimEvent
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.sockets import Guard, Payments


@dataclass(eq=False)
class Claims:
    """The only writer of the claim sets in `book`."""

    book: ClaimTable
    outbox: ParticipantOutbox
    consequences: Consequences
    guard: Guard
    payments: Payments

    def put(self, stake: Stake) -> None:
        """Put `stake` in the place of what its request had; nothing of it is booked yet."""
        self.book.stakes[stake.rid] = stake

    def adopt(self, stake: Stake, register: str) -> None:
        """Give a stake without a register to `register`; stored with its next change."""
        stake.register = stake.register or register

    def bill(self, stake: Stake, bill: Bill | None) -> None:
        """Give `stake` the terms of what it is about to hold."""
        stake.bill = bill

    # Holds

    def hold(
        self, stake: Stake, until_ms: int, events: Sequence[ClaimEvent] = ("visit-hold",)
    ) -> str:
        """Hold all claims until `until_ms` (monotonic); return "" or the resource without room.

        New claims go through `events`; claims that were carried over are held already.
        """
        full = self.book.occupy(stake, "held", until_ms)
        if not full:
            for claim in stake.claims:
                for event in events if claim.state == "absent" else ():
                    claim.move(event)
            self._store_if_durable(stake, "visit-hold")
        return full

    def hold_chosen(self, stake: Stake, until_ms: int) -> None:
        """Hold the choice of an agent; each claim was seen to fit next to the others."""
        stake.ends_at = max(stake.ends_at, *(claim.end + claim.gap_s for claim in stake.claims))
        self.put(stake)
        full = self.hold(stake, until_ms)
        assert not full, f"{stake.rid}: the claims do not fit together on {full}"

    def hold_place(self, stake: Stake, until_ms: int) -> None:
        """Hold a place in queues, where all have room, instead of what its request held of them."""
        before = self.book.stakes.get(stake.rid)
        if before is not None and before is not stake and before.claims:
            self.book.vacate(before)
        self.put(stake)
        full = self.hold(stake, until_ms)
        assert not full, f"{stake.rid}: no room for a place on {full}"

    def prolong(self, stake: Stake, until_ms: int) -> None:
        self.book.restate(stake, "held", until_ms)

    def keep_only(self, stake: Stake, hold_ids: Collection[int]) -> None:
        """Give up all other holds of `stake`."""
        before = len(stake.claims)
        self.book.keep_only(stake, hold_ids)
        if len(stake.claims) < before:
            self._store_if_durable(stake, "release")

    def end_hold(self, stake: Stake, event: ClaimEvent) -> None:
        """Free everything that `stake` holds."""
        self.book.vacate(stake)
        self._move(stake, event)
        self.clear(stake)

    def next_deadline_ms(self) -> int | None:
        return self.book.next_expiry_ms()

    def advance(self, now: Moment) -> None:
        """End the holds whose time is over."""
        for stake in self.book.expire(now.monotonic_ms):
            self._move(stake, "expiry")
            self.clear(stake)

    def clear(self, stake: Stake) -> None:
        """Drop all claims of `stake`; it is remembered if it refused an attempt, or was before the owner."""
        stake.claims, stake.bill = [], None
        if stake.petition is not None:
            self.store(stake, "cleared")
        elif not stake.refused:
            del self.book.stakes[stake.rid]
        self.consequences.cleared(stake.rid)

    # The owner's word

    def put_before_owner(self, stake: Stake, petition: Petition, now: Moment) -> None:
        """Keep `petition`, durably, and what is held for it; its credit is reserved as for a promise."""
        stake.petition = petition
        if stake.bill is not None:
            stake.bill = self.payments.promise(stake, now)
        self.store(stake, "petition")

    def keep_word(self, stake: Stake, petition: Petition) -> None:
        """Keep the word of the owner, or that there was none; unless it approves, this attempt is refused."""
        stake.petition = petition
        if petition.stands:
            self.store(stake, "petition")
        else:
            self.refuse(stake, stake.att, "abort")

    # Promises

    def vote(self, stake: Stake, now: Moment) -> str:
        """Promise claims that are not booked yet; return "" or the resource without room.

        Where others have to grant them first, they are intended.
        """
        self._note_passed(stake, now)
        full = self.book.occupy(stake, "prepared", None)
        if not full:
            self._promise_or_intend(stake, "visit-vote", now)
        return full

    def prepare(
        self, stake: Stake, named: Collection[int], prepare: m.Prepare, now: Moment
    ) -> None:
        """Promise the `named` holds, and give up the others."""
        self.keep_only(stake, named)
        stake.parts, stake.need = prepare.parts, prepare.need
        self.promise_held(stake, "prepare", now)

    def promise_held(self, stake: Stake, event: ClaimEvent, now: Moment) -> None:
        self._note_passed(stake, now)
        self.book.restate(stake, "prepared", None)
        self._promise_or_intend(stake, event, now)

    def _note_passed(self, stake: Stake, now: Moment) -> None:
        """Note the used part of the reservation that `stake` replaces: from the promise on it counts."""
        old = self.book.stakes.get(stake.replaces) if stake.replaces else None
        if old is not None and old.has("locked"):
            pieces = passed_of(old.claims, now.wall_s, stake.claims)
            stake.passed = tuple(m.Want(*piece) for piece in pieces)

    def _promise_or_intend(self, stake: Stake, event: ClaimEvent, now: Moment) -> None:
        if stake.bill is not None:
            stake.bill = self.payments.promise(stake, now)
        guarded = self.guard.resources
        if guarded and any(claim.resource in guarded for claim in stake.claims):
            self._move(stake, "intend")
            self.consequences.intended(stake)
        else:
            self.promise(stake, event, now)

    def promise(self, stake: Stake, event: ClaimEvent, now: Moment) -> None:
        """Promise, durably, what is booked as promised."""
        self._move(stake, event)
        self.store(stake, event)
        self.consequences.promised(stake, now)

    def supersede(self, stake: Stake, att: int) -> None:
        """Void the promise of an earlier attempt: as attempt `att` exists, it can never be committed."""
        stake.refused = max(stake.refused, stake.att)
        stake.att = att
        if stake.claims:
            self._vacate(stake)
            promised = stake.has("prepared")
            if promised or stake.has("intended"):
                self._move(stake, "visit-newer")
            if promised:
                self.store(stake, "visit-newer")
        self.consequences.superseded(stake.rid)

    def end_intent(self, stake: Stake, event: ClaimEvent) -> None:
        """Give up what grants were asked for: nothing of it was promised."""
        self._vacate(stake)
        self._move(stake, event)
        self.clear(stake)

    def refuse(self, stake: Stake, att: int, event: ClaimEvent) -> None:
        """Refuse attempt `att`, and those before it, durably and for ever."""
        self._vacate(stake)
        self._move(stake, event)
        stake.claims, stake.bill = [], None
        stake.refused = max(stake.refused, att)
        self.store(stake, event)
        self.consequences.refused(stake.rid, att)

    # Reservations

    def lock(self, stake: Stake, chosen: m.Chosen, mine: Collection[int], now_s: int) -> None:
        """Lock those of the promised claims that are `mine`, and end the others.

        What the request replaces ends in the same step; what had passed of that by `now_s` was used.
        """
        stake.chosen = chosen
        if mine and mine == {claim.hold_id for claim in stake.claims} and not stake.replaces:
            self.book.restate(stake, "locked", None)
            self._move(stake, "commit-chosen")
            self.guard.locked(stake)
            if stake.bill is not None:
                stake.bill = self.payments.locked(stake, None, now_s)
            self.store(stake, "commit-chosen")
            return
        self.book.vacate(stake)
        old = self.book.stakes.get(stake.replaces)
        replaced = old.claims if old is not None and old.has("locked") else []
        if old is not None and replaced:
            self.book.leave(old)
            self._move(old, "replace")
            self._keep_used(old, now_s, [each for each in stake.claims if each.hold_id in mine])
            self.store(old, "replace")
        for claim in stake.claims:
            claim.move("commit-chosen" if claim.hold_id in mine else "commit-other")
        others = [claim for claim in stake.claims if claim.state != "locked"]
        stake.claims = stake.claims_in("locked")
        if stake.claims:
            full = self.book.occupy(stake, "locked", None)
            assert not full, f"{stake.rid}: promised slots must fit on {full}"
        if stake.bill is not None and stake.claims:
            stake.bill = self.payments.locked(stake, old if replaced else None, now_s)
        self.guard.take_over(stake, others, replaced)
        self.store(stake, "commit-chosen" if mine else "commit-other")

    def lock_again(
        self, stake: Stake, before: Stake | None, cost: m.Cost | None, now_s: int
    ) -> str:
        """Lock what was locked and then forgotten; return "" or the resource without room.

        Then everything is as `before`, which was promised if it claims anything.
        """
        if before is not None and before.claims:
            self.book.vacate(before)
        self.put(stake)
        full = self.book.occupy(stake, "locked", None)
        if full and self.book.buffers.kept:
            # It stood before, and nobody waits for a buffer: what it needs of them is given to it.
            for claim in stake.claims:
                claim.gap_s = 0
            self.book.buffers.make_way(stake.claims)
            full = self.book.occupy(stake, "locked", None)
        if not full:
            if cost is not None:
                stake.bill = self.payments.locked_again(stake, cost, now_s)
            self.store(stake, "relocked")
            self.guard.make_good(stake)
        elif before is None:
            del self.book.stakes[stake.rid]
        else:
            self.put(before)
            if before.claims:
                self.book.occupy(before, "prepared", None)
        return full

    def cancel(
        self, stake: Stake, warrant: str, at: int, now_s: int, *, reclaimed: bool = False
    ) -> None:
        """Free what is still to come of `stake`; what has passed by `now_s` was used, and counts.

        It was cancelled at `at`, because an owner has `reclaimed` slots of it or not: what is paid back is
        by that.
        """
        stake.warrant = warrant
        if stake.bill is not None:
            self.payments.cancelled(stake, at, now_s, reclaimed=reclaimed)
        changer = self.book.changer_of(stake.rid)
        self.book.leave(stake)
        self.guard.left(stake.rid, stake.claims, heir=changer)
        self._move(stake, "cancel")
        self._keep_used(stake, now_s)
        self.store(stake, "cancel")

    def count_used(self, stake: Stake, cost: m.Cost | None, now_s: int) -> None:
        """Count what was used of `stake`, which is over and was forgotten, and book nothing of it."""
        self.put(stake)
        if cost is not None:
            stake.bill = self.payments.locked_again(stake, cost, now_s)
        self._move(stake, "cancel")
        self._keep_used(stake, now_s)
        self.store(stake, "cancel")

    def _keep_used(self, stake: Stake, now_s: int, instead: Sequence[Claim] = ()) -> None:
        pieces = passed_of(stake.claims, now_s, instead)
        stake.used = tuple(m.Want(*piece) for piece in pieces)
        self.book.usage.note_used(stake)

    def prove(self, stake: Stake, proofs: dict[str, str], warrant: str) -> None:
        """Keep the proofs of a commit; stored with it, or now if it is already known."""
        stake.proofs, stake.warrant = proofs, warrant
        if stake.decided:
            self.store(stake, "proven")

    def submitted(self, stake: Stake, machine: str) -> None:
        """What is to run on `machine` is a job of its queue from now on: it is submitted once."""
        stake.jobs = {name: job for name, job in stake.jobs.items() if name != machine}
        self.store(stake, "submitted")

    def note_came(self, stake: Stake, came_at: int) -> None:
        """Store when the user of `stake` checked in."""
        stake.came_at = came_at
        self.store(stake, "came")

    def keep_lacks(self, stake: Stake, lacks: dict[str, SlotLack]) -> None:
        """Keep, durably, what is missing in slots of `stake` that have begun, by resource."""
        stake.nodes_out = lacks
        self.store(stake, "nodes")

    def drop(self, stake: Stake) -> None:
        """Forget `stake`, durably."""
        if stake.claims:
            self._vacate(stake)
        del self.book.stakes[stake.rid]
        self.outbox.store(StakeDropped(stake.rid))

    def store(self, stake: Stake, event: str) -> None:
        self.outbox.store(stored(stake, event))

    def _store_if_durable(self, stake: Stake, event: ClaimEvent) -> None:
        """Store the held slots of a stake that waits for its owner, so that it survives a restart."""
        if stake.petition is not None and stake.petition.stands:
            self.store(stake, event)

    def _vacate(self, stake: Stake) -> None:
        self.book.vacate(stake)
        self.guard.left(stake.rid, stake.claims)

    def _move(self, stake: Stake, event: ClaimEvent) -> None:
        for claim in stake.claims:
            claim.move(event)
