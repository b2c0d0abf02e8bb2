"""Waiting lists: freed room is offered to one request after the other.

Being told is an offer: for a few seconds nobody behind gets that room (but who was before in line
does). It ends when the request asks for something here, or waits on after having looked, or lets the time
pass; then what is left of it is offered to the next. Whatever is told may be lost: all that is told has a
number, and who waits on without having seen the last one is told to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from kalends.calendars import ResourceCalendar
from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claims.earmarks import Earmarks, Order, Stretch
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.contention.waiting_list import (
    WaitingList,
    WaitingListEntry,
    WaitingListOffer,
)
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.sockets import Payments
from kalends.resource_servers.participation.this_site import ThisSite

LISTED_MS: Final = 60_000
"""Brokers wait again every few seconds; one that is silent for longer is gone."""

OFFER_MS: Final = 5_000
"""A broker that is told looks, and asks, within two round trips; this is several of the longest."""

CLOCK_SET_MS: Final = 30_000
"""A clock that jumps by more was set: by less, clocks of different hosts differ anyway."""

LISTED_PER_PRINCIPAL_MAX: Final = 256


@dataclass(eq=False)
class WaitingLists:
    """The list from `Await` to the offer, and what is kept while it is offered.

    It reads calendars and changes none; its only effects are messages.
    """

    here: ThisSite
    calendars: Mapping[str, ResourceCalendar]
    room: FreeRoom
    attempts: LiveAttempts
    offers: Earmarks
    """What is kept for whom it is offered to."""
    outbox: ParticipantOutbox
    payments: Payments
    listed: WaitingList = field(init=False, default_factory=WaitingList)
    _declined: list[tuple[Stretch, Order]] = field(init=False, default_factory=list)
    """Offers that have ended, and whose they were: those behind are next."""
    _ahead_ms: int | None = field(init=False, default=None)
    """How far the wall clock was ahead of the monotonic one when it was last looked at."""
    _news: int = field(init=False)
    """The number of the last thing that somebody on the list was told to look into."""

    def __post_init__(self) -> None:
        self._news = self.here.epoch << 32

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.WAITS,
            handles=[on(m.Await, self.wait, refuse=self._turn_down)],
            timed=self,
            secret_of=self.secret_of,
        )

    def pass_time(self, now: Moment) -> None:
        """Let all look again if the clock was set: what was past, or beyond the horizon, may not be."""
        ahead_ms = now.wall_ms - now.monotonic_ms
        if self._ahead_ms is not None and abs(ahead_ms - self._ahead_ms) > CLOCK_SET_MS:
            for listed in map(self.listed.get, self.listed):
                assert listed is not None
                listed.news = self._next_news(listed.wish)
        self._ahead_ms = ahead_ms

    def wait(self, source: str, wish: m.Await, now: Moment) -> None:
        """Put `wish` on the list, in the place of what its request waited for before."""
        if self.attempts.is_stale(source, wish.rid, wish.att):
            return
        seen = tuple(want for want in wish.wants if self._may_see(wish.principal, want))
        wish = structs.replace(wish, wants=seen)
        known = self.listed.get(wish.rid)
        refusal = self._too_many(wish) if known is None else None
        if refusal is not None:
            self._turn_down(source, wish, (refusal,))
            return
        order = self.room.order_of(wish.principal, wish.stamp, wish.rid, seen)
        listed = WaitingListEntry(wish, source, order, now.monotonic_ms + LISTED_MS)
        late = self.follow(listed, known) if known is not None else []
        if known is None or not set(wish.wants) <= set(known.wish.wants):
            listed.news = self._next_news(wish)
        elif known.dear is not None:
            # Whoever had the room may be gone by the time that it can be paid.
            listed.dear = known.dear if self._too_dear(listed, known.dear[0]) else None
            listed.news = listed.news if listed.dear else self._next_news(wish)
        self.listed.put(listed)
        if listed.offer is not None:
            self._keep_offered(listed)
        told = m.Awaited(
            rid=wish.rid, att=wish.att, ahead=self.listed.ahead(wish.rid),
            fresh=listed.missed, news=listed.news,
        )  # fmt: skip
        self.outbox.send(source, told)
        for freed in late:
            self._offer_to(listed, freed, now)

    def _turn_down(self, source: str, wish: m.Await, refusals: tuple[Refusal, ...]) -> None:
        self.outbox.send(source, m.Locked(rid=wish.rid, att=wish.att, refusals=refusals))

    def follow(self, listed: WaitingListEntry, known: WaitingListEntry) -> list[Stretch]:
        """Put `listed` in the place of `known`; a broker that missed the offer does not answer it so.

        Returns as `_end_offer`.
        """
        listed.news = known.news
        if not listed.missed:
            return self._end_offer(known)
        listed.offer = known.offer
        return []

    def answered(self, rid: str) -> None:
        """End the offer of a request that has chosen, or is gone; those behind get what is left."""
        listed = self.listed.get(rid)
        if listed is not None:
            self._declined += [(piece, listed.order) for piece in self._end_offer(listed)]

    def leave(self, rid: str) -> None:
        if self.listed.get(rid) is not None:
            self.answered(rid)
            self.listed.leave(rid)

    def release(self, rid: str, att: int) -> None:
        """Leave the list for attempts up to `att`."""
        listed = self.listed.get(rid)
        if listed is not None and listed.wish.att <= att:
            self.leave(rid)

    def take_declined(self) -> list[tuple[Stretch, Order]]:
        """Return what is not offered any more since the last call, and whose it was."""
        declined, self._declined = self._declined, []
        return declined

    def offer(
        self, freed: Iterable[Stretch], declined: Iterable[tuple[Stretch, Order]], now: Moment
    ) -> None:
        """Offer each to the first whom it may help; what was declined, to those behind."""
        for piece in dict.fromkeys(freed):
            self._offer_next(piece, None, now)
        for piece, behind in declined:
            self._offer_next(piece, behind, now)

    def next_deadline_ms(self) -> int | None:
        return self.listed.next_deadline_ms()

    def secret_of(self, rid: str) -> str | None:
        listed = self.listed.get(rid)
        return listed.wish.secret if listed is not None else None

    def check(self) -> None:
        """Raises `AssertionError` when the indexes disagree."""
        self.listed.check()
        self.offers.check()

    def _next_news(self, wish: m.Await) -> int:
        """Return a number that `wish` has not seen, not even from an earlier start of this site."""
        self._news += 1
        if self._news == wish.seen:
            self._news += 1
        return self._news

    def _may_see(self, principal: Principal, want: m.Want) -> bool:
        calendar = self.calendars.get(want.resource)
        return calendar is not None and calendar.visible_to(principal)

    def _too_many(self, wish: m.Await) -> Refusal | None:
        if self.listed.count(wish.principal.user) < LISTED_PER_PRINCIPAL_MAX:
            return None
        detail = f"{LISTED_PER_PRINCIPAL_MAX} requests of this user are on waiting lists here, the maximum"
        return self.here.refusal(RefusalCode.LIMIT, detail)

    def _offer_next(self, freed: Stretch, behind: Order | None, now: Moment) -> None:
        """Offer what is free of this to the first behind whom it may help."""
        for listed in self.listed.after(behind, freed[0]):
            room = self.room_in(listed, freed)
            if room is None:
                continue
            refusal = self._too_dear(listed, room)
            if refusal is None:
                self._offer_to(listed, freed, now)
                return
            self._pass_over(listed, room, refusal)

    def _too_dear(self, listed: WaitingListEntry, room: m.Want) -> Refusal | None:
        wish = listed.wish
        if wish.pays is None or not self.payments.charges:
            return None
        return self.payments.why_too_dear(wish.principal, wish.pays, room, wish.length_s)

    def _pass_over(self, listed: WaitingListEntry, room: m.Want, refusal: Refusal) -> None:
        """Tell who cannot pay for `room`, which is offered to those behind, what it costs."""
        known = listed.dear
        listed.dear = room, refusal
        if known != listed.dear:
            told = m.Awaited(
                rid=listed.rid, att=listed.wish.att, ahead=self.listed.ahead(listed.rid),
                news=listed.news, dear=refusal,
            )  # fmt: skip
            self.outbox.send(listed.asker, told)

    def _offer_to(self, listed: WaitingListEntry, freed: Stretch, now: Moment) -> None:
        if listed.offer is not None:
            listed.offer.late.append(freed)
        else:
            missed = listed.missed
            listed.news = self._next_news(listed.wish)
            self.listed.offered(listed, WaitingListOffer(now.monotonic_ms + OFFER_MS, [freed]))
            told = m.Awaited(
                rid=listed.rid, att=listed.wish.att, offered=(m.Freed(*freed),),
                fresh=missed, news=listed.news,
            )  # fmt: skip
            self.outbox.send(listed.asker, told)
        self._keep_offered(listed)

    def _keep_offered(self, listed: WaitingListEntry) -> None:
        """Keep what is offered, as much of it as this request wants."""
        assert listed.offer is not None
        pieces = [
            (
                resource,
                max(start, want.start),
                min(end, want.end + self.calendars[resource].gap_s),
                want.units,
            )
            for resource, start, end in dict.fromkeys((*listed.offer.freed, *listed.offer.late))
            for want in listed.windows.get(resource, ())
            if want.start < end and start < want.end + self.calendars[resource].gap_s
        ]
        self.offers.keep(listed.rid, listed.order, pieces)

    def room_in(self, listed: WaitingListEntry, freed: Stretch) -> m.Want | None:
        """Return where enough is free for long enough, in part during `freed`, in one of the windows."""
        resource, start, end = freed
        gap_s = self.calendars[resource].gap_s
        length_s = listed.wish.length_s + gap_s
        for want in listed.windows[resource]:
            latest = want.end + gap_s
            if want.start >= end or latest <= start:
                continue
            first, last = max(want.start, start - length_s), min(latest, end + length_s)
            if last - first < length_s:
                continue
            calendar = self.calendars[resource].calendar
            if calendar.earliest_fit(want.units, length_s, first, last) is not None:
                return m.Want(resource, first, last, want.units)
        return None

    def _end_offer(self, listed: WaitingListEntry) -> list[Stretch]:
        """End the offer; offer the rest of it to the requests behind.

        Returns what came free after `listed` had been told: it may not have seen that.
        """
        offer = listed.offer
        if offer is None:
            return []
        self.listed.offered(listed, None)
        self.offers.drop(listed.rid)
        self._declined += [(piece, listed.order) for piece in offer.freed]
        return offer.late

    def advance(self, now: Moment) -> None:
        """End leases and offers whose time is over."""
        for listed in self.listed.overdue(now.monotonic_ms):
            if listed.lease_ms <= now.monotonic_ms:
                self.leave(listed.rid)
                continue
            for freed in self._end_offer(listed):
                self._offer_to(listed, freed, now)
