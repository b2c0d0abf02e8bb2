"""The judge of waiting: order of service, no lost wake-up, bounded waits, recalls in time, no ghosts.

It knows what it hears at the edge of sites, and which requests have ended; it asks nothing of the code
under test. Whom it accuses has surely done wrong: what may have happened unheard excuses.

- *Order of service*: nobody gets room that a request before it, in line at that site, needs.
- *No lost wake-up*: who is first in line, and has room, is granted it.
- *Nobody waits beside room*: who is on lists, first everywhere, and has room for all of it, asks for it.
- *Bounded waiting*: who waits ends within one turn for itself and one for every older request.
- *Recalls*: a hold that is recalled has been promised, given back, released or taken back when its
  time is over; only what was recalled is taken back, and a promise is neither.
- *No ghosts*: only who waits is granted anything, or counts as being ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kalends.contract import messages as m
from kalends.core.principals import Principal
from tests.simulation.clocks import EPOCH_S
from tests.simulation.line_books import (
    PAUSE_MS,
    Span,
    Taken,
    Waiter,
)
from tests.simulation.line_lists import SERVE_MS, Lists
from tests.simulation.line_order import Order, most_ahead
from tests.simulation.line_recalls import LineRecalls
from tests.simulation.line_turns import Turns
from tests.simulation.listening import milliseconds
from tests.simulation.slot_knowledge import own_report

if TYPE_CHECKING:
    from tests.simulation.world import World

TURN_MS: Final = 150_000
"""One request's turn: what it holds is recalled from it, its promise is decided, or it runs out."""

DOUBT_MS: Final = 75_000
"""Between two questions of a site that is in doubt at most, by a clock that is slow."""

WAKE_MS: Final = 5_000
"""A grant follows what made room at once; a disk may be slow, an answer on its way."""

OVERDUE_MS: Final = 2_000
"""After a deadline, once the site is awake: its timers run after the messages that it has slept through."""

ENDED: Final = ("commit", "closed", "cancelled", "replaced")


class LineOracle(LineRecalls):
    """`capacities` by resource. `head_start_ms` is what the owners' rules give to a request in line.

    `turn_ms` is how long one request can stand in the way of another, once faults have stopped and
    `settle_ms` have passed: timers that a pause has put off run when it would have ended.
    """

    def __init__(
        self,
        capacities: dict[str, int],
        *,
        head_start_ms: Callable[[Principal], int] = lambda principal: 0,
        turn_ms: int = TURN_MS,
        wake_ms: int = WAKE_MS,
        doubt_ms: int = DOUBT_MS,
        settle_ms: int = PAUSE_MS,
        serve_ms: int = SERVE_MS,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(Turns(turn_ms, doubt_ms), now_ms)
        self._order = Order(capacities, head_start_ms)
        self._lists = Lists(self._order, lambda: -3_600, serve_ms=serve_ms)
        self.grants = 0
        self.waits = 0
        self._turn_ms = turn_ms
        self._wake_ms = wake_ms
        self._settle_ms = settle_ms
        self._told: set[tuple[str, str, int, int]] = set()
        """Site, request, attempt and hold id: ids are never used again."""
        self.exists: Callable[[str], bool] = lambda rid: True
        """Whether the register ever took a request."""
        self._healed_ms = 0
        self.woken_ms: Callable[[str], int] = lambda site: -OVERDUE_MS
        """When the site's last pause ended: pauses that follow each other are one long one."""

    def attach(self, world: World) -> None:
        super().attach(world)
        self._order.capacities = world.auditor.capacities
        self.guarded = world.auditor.guarded | world.auditor.asked
        self._lists.now_s = lambda: EPOCH_S + self._now_ms() // 1_000
        self._lists.can_pay = world.can_pay
        self.exists = world.auditor.rows.__contains__
        changed, heal = world.auditor.register_changed, world.network.heal
        sites = {site.name: site for site in world.sites}
        self.woken_ms = lambda site: max(sites[site].paused_until_ms, self._healed_ms)

        def register_changed(rids: Iterable[str]) -> None:
            listed = list(rids)
            changed(listed)
            for rid in listed:
                row = world.auditor.rows.get(rid)
                if row is not None and row.state in ENDED:
                    self.ended(rid)

        def healed() -> None:
            heal()
            self.healed()

        world.auditor.register_changed = register_changed
        world.network.heal = healed

    # What is known besides messages

    def healed(self) -> None:
        """From now on there are no faults: everybody gets their turn."""
        self._healed_ms = self._now_ms()
        self._turns.healed(self._healed_ms + self._settle_ms)
        self._lists.healed()
        for books in self._sites.values():
            for waiter in books.waiters.values():
                waiter.room_since_ms = None

    def ended(self, rid: str) -> None:
        """The request is committed, closed or cancelled, durably."""
        self._lists.ended(rid)
        if late := self._turns.ended(rid, self._now_ms()):
            self._wrong(late)

    def finish(self) -> list[str]:
        """All that was wrong, in words."""
        now_ms = self._now_ms()
        for site in sorted(self._sites):
            self._look_around(site, now_ms)
        for rid, late in self._turns.unfinished(now_ms):
            # A request that the register never took has nobody who waits for it.
            if self.exists(rid):
                self._wrong(late)
        return self.complaints

    # What sites say

    def on_delivered(self, site: str, source: str, message: m.Message, moment: int) -> None:
        self._look_around(site, milliseconds(moment))
        if isinstance(message, m.Visit | m.Dispatch):
            self._lists.asked(message.rid)
        super().on_delivered(site, source, message, moment)

    def on_left(self, site: str, to: str, message: m.Message, moment: int) -> None:
        books = self._sites[site]
        rid = getattr(message, "rid", "")
        match message:
            case m.Visited():
                self._answered(site, message, moment)
            case m.Report():
                self._reported(site, message, moment)
            case m.Grant():
                self._granted(site, message, moment)
            case m.Locked():
                books.leave(rid, message.att, moment)
            case m.Done() if message.of == "abort":
                self._aborted(books, site, message)
            case m.OwnerSays(state="declined" | "lapsed"):
                # The owner has ended it, whoever asks for it now.
                books.drop(rid, message.att, "held")
                books.leave(rid, message.att, moment)
            case m.OwnerSays(state="approved"):
                books.before_owners.discard(rid)
            case m.Stale():
                self._over(site, message, moment)
            case m.Voted():
                self._voted(site, message, moment)
            case m.Recall():
                self._recalled(site, message, moment)
            case m.Renewed():
                self._lost(site, message, moment)
            case m.Awaited() if not message.offered:
                if rid in books.listed:
                    books.listed[rid].sure = True
            case m.Awaited():
                since = self._silent_since[site]
                if rid not in books.listed and books.unlisted.get(rid, -1) < since:
                    self._wrong(f"{site} offers something to {rid}, which is not on its list")
        self._look_around(site, milliseconds(moment))

    def _answered(self, site: str, visited: m.Visited, moment: int) -> None:
        books, rid = self._sites[site], visited.rid
        since = self._delivered.pop((site, rid, visited.att, "visit"), self._silent_since[site])
        books.asked.pop(rid, None)
        visit = self._visits.get((site, rid, visited.att))
        if visit is None:
            return
        taken = books.taken.get(rid)
        if (
            not visited.held
            and taken is not None
            and taken.att == visited.att
            and taken.state == "held"
        ):
            books.enter_again(rid, moment)
        if visited.ahead >= 0:
            self._waits_now(site, visited, since, moment)
            return
        told = {(site, rid, visited.att, held.hold_id) for held in visited.held}
        if told and told <= self._told and taken is None:
            return  # What it had, and has given back while this answer waited for the disk.
        self._told |= told
        books.answered(rid, visited.att, since, moment)
        taken = books.taken.get(rid)
        if not visited.held:
            if taken is not None and taken.att < visited.att:
                del books.taken[rid]
            return
        state = "promised" if visited.vote == "yes" else "held"
        spans = {held.hold_id: _span(visit.wants[held.index]) for held in visited.held}
        if taken is None or taken.att != visited.att or taken.spans != spans:
            got = self._promised_since.get((site, rid, visited.att), since)
            self._nobody_before(site, visit, list(spans.values()), got, moment)
        elif taken.state == state:
            return
        # An abort that has come meanwhile may be stored by the time of a crash, and may not. What was
        # given back between the visit and its answer is free, unless the visit came once more after.
        given_up, given_up_at = self._given_up.get((site, rid), (0, 0))
        stays = (site, rid, visited.att, "abort") not in self._delivered and (
            given_up < visited.att or given_up_at < since
        )
        books.taken[rid] = Taken(
            visited.att, state, spans, since, milliseconds(since), visit.hold_ms, visit, sure=stays
        )

    def _waits_now(self, site: str, visited: m.Visited, since: int, moment: int) -> None:
        books, now_ms = self._sites[site], milliseconds(moment)
        if books.forgotten(visited.rid, visited.att, since):
            books.enter(self._visits[site, visited.rid, visited.att], since)
        waiter = books.waiters.get(visited.rid)
        if waiter is None or waiter.visit.att != visited.att:
            return
        if not waiter.sure:
            # Agents of those who hold may be asked first: a visit is in line only after their answer.
            if milliseconds(waiter.entered) < now_ms:
                waiter.entered = moment
            waiter.sure = True
        self.waits += 1
        self._turns.waits(visited.rid, now_ms)
        books.drop(visited.rid, visited.att - 1, "held", "promised")
        ahead = most_ahead(books, waiter, since, now_ms)
        if visited.ahead > ahead:
            self._wrong(
                f"{site} says {visited.ahead} are ahead of {visited.rid}, at most {ahead} wait"
            )

    def _reported(self, site: str, report: m.Report, moment: int) -> None:
        books, rid = self._sites[site], report.rid
        since = self._delivered.pop((site, rid, report.att, "visit"), self._silent_since[site])
        dispatch = self._dispatches.get((site, rid, report.att))
        own = own_report(site, report, dispatch.asks) if dispatch is not None else ()
        taken = books.taken.get(rid)
        books.agents.pop(rid, None)
        if dispatch is None or (taken is not None and taken.att > report.att):
            return
        if taken is None or taken.att < report.att:
            books.taken.pop(rid, None)
        elif taken.sure or taken.state != "held":
            return
        # What a repeated report tells again may be given back by the time that it leaves.
        spans = {
            held.hold_id: (held.resource, held.start, held.end, held.units)
            for held in own
            if (site, held.hold_id) not in self._reported_ids
        }
        self._reported_ids |= {(site, hold_id) for hold_id in spans}
        for span in spans.values():
            self._nobody_before(site, dispatch, [span], since, moment)
        if spans:
            # Of alternatives the larger counts, of which nothing is sure here.
            books.taken[rid] = Taken(
                report.att, "held", spans, since, milliseconds(moment), dispatch.hold_ms, sure=False
            )

    def _granted(self, site: str, grant: m.Grant, moment: int) -> None:
        books, rid = self._sites[site], grant.rid
        self.grants += 1
        places = books.waited(rid, self._silent_since[site])
        waiter = next((each for each in places if each.visit.att == grant.att), None)
        if waiter is None:
            self._wrong(f"{site} grants something to {rid}, which does not wait there")
            return
        now_ms = milliseconds(moment)
        awake = now_ms > self.woken_ms(site) + OVERDUE_MS
        if awake and not waiter.perhaps_waits(now_ms):
            self._wrong(f"{site} grants something to {rid}, which has long been silent")
        since = max(self._silent_since[site], waiter.entered)
        visit = waiter.visit
        spans = {held.hold_id: _span(visit.wants[held.index]) for held in grant.held}
        spans_got = list(spans.values())
        self._nobody_before(site, visit, spans_got, since, moment, yielded=waiter.yielded)
        if waiter is not books.waiters.get(rid):
            return
        self._told |= {(site, rid, grant.att, hold_id) for hold_id in spans}
        books.leave(rid, grant.att, moment)
        books.taken[rid] = Taken(
            grant.att, "held", spans, since, milliseconds(since), visit.hold_ms, visit
        )

    def _nobody_before(
        self, site: str, visit: m.Visit | m.Dispatch, spans: Sequence[Span], since: int,
        moment: int, *, yielded: bool = False,
    ) -> None:  # fmt: skip
        """Nobody before `visit` waits since before `since` for what it has got."""
        if isinstance(visit, m.Visit) and visit.replaces:
            return
        place = self._order.place_of(visit, yielded=yielded)
        for waiter, lack in self._order.passed_over(self._sites[site], place, spans, since, moment):
            self._wrong(
                f"{site} gives {visit.rid} room of {lack[0]} at {lack[1]}"
                f" that {waiter.visit.rid}, before it in line, needs"
            )

    # Whenever something is heard of a site

    def _look_around(self, site: str, now_ms: int) -> None:
        books = self._sites[site]
        for rid, taken in books.taken.items():
            recalled = taken.recall_until_ms and taken.state == "held" and taken.surely(now_ms)
            if recalled and rid not in books.asked and now_ms > taken.recall_until_ms:
                taken.overdue_ms = taken.overdue_ms or now_ms
                if now_ms > taken.overdue_ms + OVERDUE_MS:
                    self._wrong(f"{site} has recalled what {rid} holds, and lets it be held")
                    taken.recall_until_ms = 0
        if books.waiters and self._turns.are_fair(now_ms):
            taken_spans = books.perhaps_taken(now_ms)
            for waiter in books.waiters.values():
                self._is_woken(site, waiter, taken_spans, now_ms)
        if books.listed and self._turns.are_fair(now_ms):
            for rid, length_ms in self._lists.unserved(books.listed, self._sites, now_ms):
                if self.exists(rid):
                    self._wrong(f"{rid} has been on lists beside room for {length_ms} ms")

    def _is_woken(self, site: str, waiter: Waiter, taken: Sequence[Span], now_ms: int) -> None:
        first = not any(self._order.perhaps_before(self._sites[site], waiter, now_ms))
        sure = waiter.surely_waits(now_ms) and not waiter.visit.replaces
        if not (sure and first and self._order.has_room(waiter, taken)):
            waiter.room_since_ms = None
        elif waiter.room_since_ms is None:
            waiter.room_since_ms = now_ms
        elif now_ms > waiter.room_since_ms + self._wake_ms:
            self._wrong(f"{site} has room for {waiter.visit.rid}, first in line, and is silent")
            waiter.room_since_ms = now_ms + self._turn_ms


def _span(want: m.Want) -> Span:
    return want.resource, want.start, want.end, want.units
