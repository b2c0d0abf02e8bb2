"""Waiting lists: whoever waits for what is taken is told when something comes free, one after the other.

Being told is an offer: for a few seconds nobody behind gets that room (but who was before in line
does). It ends when the request asks for something here, or waits on after having looked, or lets the time
pass; then what is left of it is offered to the next. Whatever is told may be lost: all that is told has a
number, and who waits on without having seen the last one is told to look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.participation.earmarks import Order, Stretch
from kalends.resource_servers.participation.waiting_list import Listed, Offer
from kalends.resource_servers.participation.wound_wait import Lining

LISTED_MS: Final = 60_000
"""Brokers wait again every few seconds; one that is silent for so long is gone."""

OFFER_MS: Final = 5_000
"""A broker that is told looks, and asks, within two round trips; this is several of the longest."""

LISTED_PER_PRINCIPAL_MAX: Final = 256


class Listing(Lining):
    """The list, from `Await` to the offer, and what is kept for whom it is offered to."""

    def _await(self, source: str, wish: m.Await, now: Moment) -> None:
        if self._stale(source, wish.rid, wish.att):
            return
        seen = tuple(want for want in wish.wants if self._may_see(wish.principal, want))
        wish = structs.replace(wish, wants=seen)
        known = self._listed.get(wish.rid)
        refusal = self._too_many(wish) if known is None else None
        if refusal is not None:
            self.outbox.send(source, m.Locked(rid=wish.rid, att=wish.att, refusals=(refusal,)))
            return
        order = self._order_of(wish.principal, wish.stamp, wish.rid, seen)
        listed = Listed(wish, source, order, now.monotonic_ms + LISTED_MS)
        late = self._follow(listed, known) if known is not None else []
        if known is None or not set(wish.wants) <= set(known.wish.wants):
            listed.news = self._next_news(wish)
        self._listed.put(listed)
        if listed.offer is not None:
            self._keep_offered(listed)
        told = m.Awaited(
            rid=wish.rid, att=wish.att, ahead=self._listed.ahead(wish.rid),
            fresh=listed.missed, news=listed.news,
        )  # fmt: skip
        self.outbox.send(source, told)
        for freed in late:
            self._offer_to(listed, freed, now)

    def _follow(self, listed: Listed, known: Listed) -> list[Stretch]:
        """`listed` in the place of `known`; who has not heard of its offer does not answer it by this.

        Returns as `_end_offer`.
        """
        listed.news = known.news
        if not listed.missed:
            return self._end_offer(known)
        listed.offer = known.offer
        return []

    def _next_news(self, wish: m.Await) -> int:
        """A number that `wish` has not seen: not even at an earlier start of this site."""
        self._news += 1
        if self._news == wish.seen:
            self._news += 1
        return self._news

    def _may_see(self, principal: Principal, want: m.Want) -> bool:
        calendar = self.book.calendars.get(want.resource)
        return calendar is not None and calendar.visible_to(principal)

    def _too_many(self, wish: m.Await) -> Refusal | None:
        if self._listed.count(wish.principal.user) < LISTED_PER_PRINCIPAL_MAX:
            return None
        detail = f"{LISTED_PER_PRINCIPAL_MAX} requests of one user wait for something here already"
        return self.here.refusal(RefusalCode.LIMIT, detail)

    def _offer_freed(self, freed: Iterable[Stretch], now: Moment) -> None:
        for piece in dict.fromkeys(freed):
            self._offer_next(piece, None, now)

    def _offer_next(self, freed: Stretch, behind: Order | None, now: Moment) -> None:
        """Offer what is free of this to the first behind whom it may help."""
        for listed in self._listed.after(behind, freed[0]):
            if self._may_help(listed, freed):
                self._offer_to(listed, freed, now)
                return

    def _offer_to(self, listed: Listed, freed: Stretch, now: Moment) -> None:
        if listed.offer is not None:
            listed.offer.late.append(freed)
        else:
            missed = listed.missed
            listed.news = self._next_news(listed.wish)
            self._listed.offered(listed, Offer(now.monotonic_ms + OFFER_MS, [freed]))
            told = m.Awaited(
                rid=listed.rid, att=listed.wish.att, offered=(m.Freed(*freed),),
                fresh=missed, news=listed.news,
            )  # fmt: skip
            self.outbox.send(listed.asker, told)
        self._keep_offered(listed)

    def _keep_offered(self, listed: Listed) -> None:
        """What is offered is kept, as much of it as this request wants."""
        assert listed.offer is not None
        pieces = [
            (resource, max(start, want.start), min(end, want.end), want.units)
            for resource, start, end in dict.fromkeys((*listed.offer.freed, *listed.offer.late))
            for want in listed.windows.get(resource, ())
            if want.start < end and start < want.end
        ]
        self._offers.keep(listed.rid, listed.order, pieces)

    def _may_help(self, listed: Listed, freed: Stretch) -> bool:
        """Whether enough is free for long enough, in part during `freed`, in one of the windows."""
        resource, start, end = freed
        length_s = listed.wish.length_s
        for want in listed.windows[resource]:
            if want.start >= end or want.end <= start:
                continue
            first, last = max(want.start, start - length_s), min(want.end, end + length_s)
            if last - first < length_s:
                continue
            calendar = self.book.calendars[resource].calendar
            if calendar.earliest_fit(want.units, length_s, first, last) is not None:
                return True
        return False

    def _end_offer(self, listed: Listed) -> list[Stretch]:
        """It is not offered any more; what is left of it goes to those behind.

        Returns what came free after `listed` had been told: it may not have seen that.
        """
        offer = listed.offer
        if offer is None:
            return []
        self._listed.offered(listed, None)
        self._offers.drop(listed.rid)
        self._declined += [(piece, listed.order) for piece in offer.freed]
        return offer.late

    def _decline(self, listed: Listed) -> None:
        """It has made its choice, or is gone: those behind are offered all that is left."""
        self._declined += [(piece, listed.order) for piece in self._end_offer(listed)]

    def _leave_list(self, rid: str) -> None:
        listed = self._listed.get(rid)
        if listed is not None:
            self._decline(listed)
            self._listed.leave(rid)

    def _end_waits(self, now: Moment) -> None:
        """Leases and offers whose time is over."""
        for listed in self._listed.overdue(now.monotonic_ms):
            if listed.lease_ms <= now.monotonic_ms:
                self._leave_list(listed.rid)
                continue
            for freed in self._end_offer(listed):
                self._offer_to(listed, freed, now)

    def waiting_here(self) -> list[str]:
        """The requests that are in line here, or on a waiting list."""
        return sorted({*(place.rid for place in self._line), *self._listed})

    # The end of every step

    def _find_takers(self, now: Moment) -> None:
        """Whatever came free, was locked, or is not kept any more in this step finds its next taker."""
        while True:
            freed, locked = self.book.take_freed(), self.book.take_locked()
            declined, self._declined = self._declined, []
            if not (freed or locked or declined):
                return
            if self.recovery.recovering or not (self._listed or self._line):
                continue
            self._offer_freed(freed, now)
            for piece, behind in declined:
                self._offer_next(piece, behind, now)
            if self._line:
                self._serve(now, {*freed, *locked, *(piece for piece, _ in declined)})
