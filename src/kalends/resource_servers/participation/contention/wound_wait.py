"""Waiting in line for held slots, and the recall of slots that younger requests hold.

Wound-wait with time to answer (Rosenkrantz, Stearns and Lewis 1978; the recall of Ramamoorthi et al.
1997, section 4): who is older has what younger ones hold asked back; they promise it, give it back, or
lose it at the deadline, and stay in line by their own stamps. Who is younger waits. Promises wait for
nothing but their own decision, and are never recalled, so that nobody waits in a circle.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from kalends.calendars import Booking, Calendar
from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.earmarks import Stretch
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.contention.room import FreeRoom, have_room
from kalends.resource_servers.participation.contention.wait_queue import (
    Holder,
    QueueEntry,
    Seniority,
    WaitQueue,
)
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.this_site import ThisSite

RECALL_MS: Final = 3_000
"""A broker answers a recall within a round trip; this is several of the longest."""

RECALL_CONSIDERED_MS: Final = 60_000
"""The time that a person who considers a hold has to lock it."""

LEASE_MS: Final = 60_000
"""Brokers repeat a visit that waits every few seconds; one that is silent for longer is gone."""


@dataclass(eq=False)
class WoundWait:
    """The line, from a visit without room to its grant, and the holders that it recalls."""

    here: ThisSite
    book: ClaimTable
    claims: Claims
    room: FreeRoom
    line: WaitQueue
    admission: Admission
    outbox: ParticipantOutbox
    holders: dict[str, Holder] = field(init=False, default_factory=dict)
    _recalls: list[tuple[int, str]] = field(init=False, default_factory=list)
    """Heap of ``(until_ms, rid)``: holds that have been asked back; stale entries do no harm."""

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.WAITS,
            handles=[on(m.Give, lambda source, give, now: self.give(give, now))],
            timed=self,
            att_of=self.att_of,
            secret_of=self.secret_of,
        )

    def _why_not_wait(self, visit: m.Visit) -> Refusal | None:
        """Return why this visit may not wait: as many claims may wait as may be held."""
        count_max = self.admission.limits.held_per_principal_max
        if self.line.get(visit.rid) is None and (
            self.line.count(visit.principal.user) + len(visit.wants) > count_max
        ):
            detail = f"more than {count_max} claims of one user would be queued at once"
            return self.here.refusal(RefusalCode.LIMIT, detail)
        return None

    def stand(
        self,
        source: str,
        visit: m.Visit,
        needs: tuple[Piece, ...],
        refusals: tuple[Refusal, ...],
        now: Moment,
        *,
        yielded: bool,
    ) -> None:
        """Give `visit` its place in line, and recall what younger requests hold."""
        too_many = self._why_not_wait(visit)
        if too_many is not None:
            self.outbox.send(source, self.here.visited(visit, refusals=(too_many,)))
            return
        place = self._place(source, visit, needs, refusals, now, yielded=yielded)
        self.line.put(place)
        self.recall_for(place, now)
        ahead = self.line.ahead(visit.rid)
        self.outbox.send(source, self.here.visited(visit, refusals=refusals, ahead=ahead))

    def _place(
        self,
        asker: str,
        visit: m.Visit,
        needs: tuple[Piece, ...],
        refusals: tuple[Refusal, ...],
        now: Moment,
        *,
        yielded: bool,
    ) -> QueueEntry:
        order = (
            (visit.stamp, visit.rid)
            if yielded
            else self.room.order_of(visit.principal, visit.stamp, visit.rid, visit.wants)
        )
        lease_ms = now.monotonic_ms + LEASE_MS
        return QueueEntry(visit, asker, order, needs, refusals, lease_ms, yielded)

    def repeat(self, source: str, place: QueueEntry, now: Moment) -> None:
        self.line.renew(place, source, now.monotonic_ms + LEASE_MS)
        ahead = self.line.ahead(place.rid)
        visited = self.here.visited(place.visit, refusals=place.refusals, ahead=ahead)
        self.outbox.send(source, visited)

    def serve(self, now: Moment, times: Collection[Stretch]) -> None:
        """Grant what has room now, in order; tell those who wait in vain; recall for the others."""
        for rid in self.line.touching(times):
            place = self.line.get(rid)
            if place is not None:
                self._try(place, now)

    def _try(self, place: QueueEntry, now: Moment) -> None:
        visit = place.visit
        refusals = self.admission.why_not(place.asker, visit, now)
        if not refusals:
            before = self.book.stakes.get(visit.rid)
            lack = self.admission.take(place.asker, before, visit, now, "queue", "grant")
            if lack is None:
                self._granted(place)
                return
            if lack.held:
                self.recall_for(place, now)
                return
            refusals = self.admission.no_room(lack, now)
        self._quit_line(visit.rid)
        self.outbox.send(place.asker, m.Locked(rid=visit.rid, att=visit.att, refusals=refusals))

    def _granted(self, place: QueueEntry) -> None:
        visit = place.visit
        self.line.leave(visit.rid)
        self.held(visit.rid, Holder(place.asker, visit, visit.considered))
        claims = self.book.stakes[visit.rid].claims
        held = tuple(m.HeldSlot(i, claim.hold_id) for i, claim in enumerate(claims))
        approval = bool(self.admission.consent.lacking(self.book.stakes[visit.rid]))
        grant = m.Grant(
            rid=visit.rid, att=visit.att, epoch=self.here.epoch, held=held, approval=approval
        )
        self.outbox.send(place.asker, grant)

    def _quit_line(self, rid: str) -> None:
        """Give up the place of `rid`: what was kept for it may suit those behind."""
        place = self.line.leave(rid)
        if place is not None:
            self.book.note_freed(place.pieces)

    # Who holds

    def held(self, rid: str, holder: Holder) -> None:
        """Note whom to ask for what `rid` holds here."""
        self.holders[rid] = holder

    def renewed(self, rid: str, asker: str, *, considered: bool) -> int:
        """Note the renewal of a hold; return when a recall takes it back (monotonic), or 0."""
        holder = self.holders.get(rid)
        if holder is None:
            return 0
        holder.asker, holder.considered = asker, considered
        return holder.recall_until_ms

    def restore(self) -> None:
        """What a restart has kept held can be recalled; whom to ask, its next renewal tells."""
        for stake in self.book.stakes.awake():
            if stake.has("held"):
                self.held(stake.rid, Holder(""))

    def check(self) -> None:
        """Raises `AssertionError` when a place or a holder does not go with its claims."""
        self.line.check()
        for rid in self.holders:
            assert self.book.stakes[rid].has("held"), rid
        for place in self.line:
            stake = self.book.stakes.get(place.rid)
            assert stake is None or not stake.claims, f"{place.rid} waits for slots that it has"

    def att_of(self, rid: str) -> int:
        """Return the attempt of `rid` that is in line, or 0."""
        place = self.line.get(rid)
        return place.visit.att if place is not None else 0

    def secret_of(self, rid: str) -> str | None:
        place = self.line.get(rid)
        return place.visit.secret if place is not None else None

    # What ends a wait

    def end_place(self, rid: str, att: int) -> None:
        place = self.line.get(rid)
        if place is not None and place.visit.att <= att:
            self._quit_line(rid)

    def end_holding(self, stake: Stake | None, rid: str, att: int) -> None:
        if stake is not None and not stake.has("held"):
            self.forget_holder(rid)
            self.end_changes(stake.replaces)

    def forget_holder(self, rid: str) -> None:
        self.holders.pop(rid, None)

    def end_changes(self, old: str) -> None:
        """Look again at those who wait to change `old`, which may be gone."""
        for place in self.line:
            if old and place.visit.replaces == old:
                self.book.note_freed(place.pieces)

    # Recalls

    def recall_for(self, place: QueueEntry, now: Moment) -> None:
        """Recall the fewest of the youngest holds that make room for it and for older requests."""
        needs = [*self.line.senior_pieces(place), *place.pieces]
        for rid in self._youngest_in_the_way(place.seniority, needs):
            holder = self.holders[rid]
            if holder.recall_until_ms:
                continue
            left_ms = RECALL_CONSIDERED_MS if holder.considered else RECALL_MS
            holder.recall_until_ms = now.monotonic_ms + left_ms
            heapq.heappush(self._recalls, (holder.recall_until_ms, rid))
            recall = m.Recall(rid=rid, att=self.book.stakes[rid].att, left_ms=left_ms)
            self._tell(holder, recall)

    def _youngest_in_the_way(self, seniority: Seniority, needs: Sequence[Piece]) -> list[str]:
        """Return the youngest holders behind `seniority` who must give way; none if even all are too few."""
        booked: dict[str, set[tuple[str, int]]] = {}
        for resource, start, end, _ in needs:
            for booking in self.book.calendars[resource].calendar.listing(start, end):
                rid = booking.reservation
                recallable = booking.state == "held" and rid in self.holders
                if recallable and self._stake_seniority(rid) > seniority:
                    booked.setdefault(rid, set()).add((resource, booking.id))
        if not booked:
            return []
        calendars = {name: self.book.calendars[name].calendar.copy() for name, _, _, _ in needs}
        gone: dict[str, list[tuple[Calendar, Booking]]] = {}
        for rid in sorted(booked, key=self._recall_order, reverse=True):
            gone[rid] = [
                (calendars[resource], calendars[resource].release(booking_id))
                for resource, booking_id in sorted(booked[rid])
            ]
            if have_room(calendars, needs):
                return _needed(gone, calendars, needs)
        return []

    def _recall_order(self, rid: str) -> tuple[bool, Seniority]:
        """Return a sort key, highest first: holders already asked, then the youngest."""
        return bool(self.holders[rid].recall_until_ms), self._stake_seniority(rid)

    def _stake_seniority(self, rid: str) -> Seniority:
        return self.book.stakes[rid].stamp, rid

    def end_recalls(self, now: Moment) -> None:
        """Take back what was recalled in vain; its broker is informed, and it is queued again."""
        while self._recalls and self._recalls[0][0] <= now.monotonic_ms:
            until_ms, rid = heapq.heappop(self._recalls)
            holder = self.holders.get(rid)
            if holder is None or holder.recall_until_ms != until_ms:
                continue
            stake = self.book.stakes[rid]
            lost = tuple(claim.hold_id for claim in stake.claims)
            renewed = m.Renewed(rid=rid, att=stake.att, epoch=self.here.epoch, lost=lost)
            self._take_back(stake, "recall-timeout", now)
            self._tell(holder, renewed)

    def _tell(self, holder: Holder, message: m.Message) -> None:
        """Tell its broker, if that is known: after a restart, it asks."""
        if holder.asker:
            self.outbox.send(holder.asker, message)

    def give(self, give: m.Give, now: Moment) -> None:
        """Take back what a broker gives; the giver stays in the queue."""
        stake = self.book.stakes.get(give.rid)
        if stake is None or stake.att != give.att or not stake.has("held"):
            return
        if {claim.hold_id for claim in stake.claims} <= set(give.hold_ids):
            self._take_back(stake, "give", now)

    def _take_back(
        self, stake: Stake, event: Literal["give", "recall-timeout"], now: Moment
    ) -> None:
        holder = self.holders.pop(stake.rid, None)
        self.claims.end_hold(stake, event)
        if holder is None or holder.visit is None or not holder.visit.queue:
            return
        needs = tuple(self.book.needs(self.admission.stake_for(holder.asker, None, holder.visit)))
        detail = "an older request has the slot; this one keeps its place in the queue and needs no new call"
        refusal = self.here.refusal(RefusalCode.HELD, detail)
        place = self._place(holder.asker, holder.visit, needs, (refusal,), now, yielded=True)
        self.line.put(place)

    def next_deadline_ms(self) -> int | None:
        times = [self._recalls[0][0]] if self._recalls else []
        lease_ms = self.line.next_lease_ms()
        return min(times + ([lease_ms] if lease_ms is not None else []), default=None)

    def advance(self, now: Moment) -> None:
        """End recalls and places whose time is over."""
        self.end_recalls(now)
        for place in self.line.overdue(now.monotonic_ms):
            self._quit_line(place.rid)


def _needed(
    gone: dict[str, list[tuple[Calendar, Booking]]],
    calendars: dict[str, Calendar],
    needs: Sequence[Piece],
) -> list[str]:
    """Return the requests of `gone` that must go to make room for `needs`; the last one is spared first."""
    found = list(gone)
    for rid in reversed(gone):
        for calendar, booking in gone[rid]:
            calendar.book(booking)
        if have_room(calendars, needs):
            found.remove(rid)
        else:
            for calendar, booking in gone[rid]:
                calendar.release(booking.id)
    return found
