"""The judge of waiting: order of service, no lost wake-up, bounded waits, recalls in time, no ghosts.

It knows what it hears at the edge of sites, and which requests have ended; it asks nothing of the code
under test. Whom it accuses has surely done wrong: what may have happened unheard excuses.

- *Order of service*: nobody gets room that a request before it, in line at that site, needs.
- *No lost wake-up*: who is first in line, and has room, is granted it.
- *Bounded waiting*: who waits ends within one turn for itself and one for every older request.
- *Recalls*: a hold that is recalled has been promised, given back, released or taken back when its
  time is over; a promise is never recalled, nor taken back.
- *No ghosts*: only who waits is granted anything, or counts as being ahead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kalends.core import messages as m
from tests.simulation.line_books import (
    FASTEST,
    PAUSE_MS,
    SiteBooks,
    Span,
    Taken,
    Waiter,
    lacking,
    overlapping,
    spans_of,
)
from tests.simulation.listening import Listener, milliseconds

if TYPE_CHECKING:
    from tests.simulation.world import World

TURN_MS: Final = 150_000
"""One request's turn: what it holds is recalled from it, its promise is decided, or it runs out."""

WAKE_MS: Final = 5_000
"""A grant follows what made room at once; a disk may be slow, an answer on its way."""

OVERDUE_MS: Final = 2_000
"""After a recall's deadline, once the site is seen to be awake."""

ENDED: Final = ("commit", "closed", "cancelled", "replaced")


class LineOracle(Listener):
    """`capacities` by resource. `head_start_ms` is what the owners' rules give to a request in line.

    `turn_ms` is how long one request can stand in the way of another, once faults have stopped and
    `settle_ms` have passed: timers that a pause has put off run when it would have ended.
    """

    def __init__(
        self,
        capacities: dict[str, int],
        *,
        head_start_ms: Callable[[m.Principal], int] = lambda principal: 0,
        turn_ms: int = TURN_MS,
        wake_ms: int = WAKE_MS,
        settle_ms: int = PAUSE_MS,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(now_ms)
        self.capacities = capacities
        self.complaints: list[str] = []
        self.grants = 0
        self.recalls = 0
        self.waits = 0
        self._head_start_ms = head_start_ms
        self._turn_ms = turn_ms
        self._wake_ms = wake_ms
        self._settle_ms = settle_ms
        self._sites: dict[str, SiteBooks] = defaultdict(SiteBooks)
        self._visits: dict[tuple[str, str, int], m.Visit] = {}
        self._replaces: dict[str, str] = {}
        self._stamps: dict[str, tuple[int, str]] = {}
        self._stamp_of_dispatch: dict[tuple[str, str, int], m.Dispatch] = {}
        self._delivered: dict[tuple[str, str, int, str], int] = {}
        """When the first message of this kind, that is not answered yet, came."""
        self._waits_since_ms: dict[str, int] = {}
        self._ended_ms: dict[str, int] = {}
        self._healed_ms: int | None = None

    def attach(self, world: World) -> None:
        super().attach(world)
        self.capacities = world.auditor.capacities
        changed, heal = world.auditor.register_changed, world.network.heal

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
        self._healed_ms = self._now_ms() + self._settle_ms
        for books in self._sites.values():
            for waiter in books.waiters.values():
                waiter.room_since_ms = None

    def ended(self, rid: str) -> None:
        """The request is committed, closed or cancelled, durably."""
        if rid not in self._ended_ms:
            self._ended_ms[rid] = self._now_ms()
            self._in_time(rid, self._ended_ms[rid])

    def finish(self) -> list[str]:
        """All that was wrong, in words."""
        now_ms = self._now_ms()
        for site in sorted(self._sites):
            self._look_around(site, now_ms)
        for rid in sorted(self._waits_since_ms.keys() - self._ended_ms.keys()):
            self._in_time(rid, now_ms)
        return self.complaints

    def _in_time(self, rid: str, now_ms: int) -> None:
        since_ms = self._waits_since_ms.get(rid)
        if since_ms is None or self._healed_ms is None:
            return
        since_ms = max(since_ms, self._healed_ms)
        older = sum(
            stamp < self._stamps[rid] and self._ended_ms.get(other, since_ms) >= since_ms
            for other, stamp in self._stamps.items()
        )
        if now_ms - since_ms > (older + 1) * self._turn_ms:
            self._wrong(f"{rid} has waited {now_ms - since_ms} ms behind {older} older ones")

    # What sites are asked

    def on_delivered(self, site: str, source: str, message: m.Message, moment: int) -> None:
        books = self._sites[site]
        self._look_around(site, milliseconds(moment))
        match message:
            case m.Visit() | m.Dispatch():
                self._visited(site, message, moment)
            case m.Await():
                now_ms = milliseconds(moment)
                wish = _as_visit(message)
                books.listed[message.rid] = Waiter(wish, moment, now_ms)
                self._stamps[message.rid] = (message.stamp, message.rid)
                # For what is locked it may wait as long as it likes.
                self._waits_since_ms.pop(message.rid, None)
            case m.Prepare():
                key = (site, message.rid, message.att, "prepare")
                self._delivered.setdefault(key, moment)
                books.asked.setdefault(message.rid, message)
            case m.Release():
                self._released(books, message, moment)
            case m.Give():
                taken = books.taken.get(message.rid)
                if (
                    taken is not None
                    and taken.state == "held"
                    and taken.att == message.att
                    and taken.spans.keys() <= set(message.hold_ids)
                ):
                    books.enter_again(message.rid, moment)
            case m.Renew():
                taken = books.taken.get(message.rid)
                if taken is not None and taken.state == "held" and taken.att <= message.att:
                    renewed = milliseconds(moment), message.hold_ms
                    if taken.surely(renewed[0]):
                        taken.asked_ms, taken.hold_ms = renewed
                    else:
                        taken.renewing = renewed
            case m.Decide() | m.Outcome():
                self._decided(site, message, moment)
            case m.Cancel():
                books.drop(message.rid, message.att, "locked", "held")
            case m.PeerAsk() | m.PeerSays():
                taken = books.taken.get(message.rid)
                if taken is not None:
                    taken.sure = False
                if message.rid in books.waiters:
                    books.waiters[message.rid].sure = False

    def _visited(self, site: str, visit: m.Visit | m.Dispatch, moment: int) -> None:
        books = self._sites[site]
        self._stamps[visit.rid] = (visit.stamp, visit.rid)
        self._delivered.setdefault((site, visit.rid, visit.att, "visit"), moment)
        taken = books.taken.get(visit.rid)
        if taken is not None and taken.att < visit.att:
            taken.sure = False
        books.leave(visit.rid, visit.att - 1, moment)
        if isinstance(visit, m.Dispatch):
            self._stamp_of_dispatch[site, visit.rid, visit.att] = visit
            return
        self._visits[site, visit.rid, visit.att] = visit
        if visit.replaces:
            self._replaces[visit.rid] = visit.replaces
        books.asked[visit.rid] = visit
        if visit.queue and (taken is None or taken.att < visit.att):
            books.enter(visit, moment)

    def _released(self, books: SiteBooks, release: m.Release, moment: int) -> None:
        taken = books.taken.get(release.rid)
        if not release.hold_ids:
            books.leave(release.rid, release.att, moment)
            if release.rid in books.listed:
                del books.listed[release.rid]
                books.unlisted[release.rid] = moment
            books.drop(release.rid, release.att, "held")
        elif taken is not None and taken.state == "held" and taken.att <= release.att:
            for hold_id in release.hold_ids:
                taken.spans.pop(hold_id, None)
            if not taken.spans:
                del books.taken[release.rid]

    def _decided(self, site: str, decision: m.Decide | m.Outcome, moment: int) -> None:
        books, rid = self._sites[site], decision.rid
        if decision.outcome == "pending":
            return
        books.leave(rid, decision.att, moment)
        taken = books.taken.get(rid)
        if decision.outcome == "commit" and rid in self._replaces:
            books.taken.pop(self._replaces[rid], None)
        if decision.outcome == "abort":
            self._delivered[site, rid, decision.att, "abort"] = moment
            books.asked.pop(rid, None)
            books.drop(rid, decision.att, "held", "promised")
        elif taken is not None and taken.att == decision.att:
            chosen = set(decision.chosen.get(site, ()))
            taken.spans = {key: span for key, span in taken.spans.items() if key in chosen}
            taken.state = "locked"
            if not taken.spans:
                del books.taken[rid]

    # What sites say

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
            case m.Stale():
                books.asked.pop(rid, None)
                self._delivered.pop((site, rid, message.att, "visit"), None)
            case m.Voted():
                self._voted(site, message, moment)
            case m.Recall():
                self._recalled(site, message, moment)
            case m.Renewed():
                self._lost(site, message, moment)
            case m.Awaited() if message.offered:
                since = self._silent_since[site]
                if rid not in books.listed and books.unlisted.get(rid, -1) < since:
                    self._wrong(f"{site} offers something to {rid}, which is not on its list")
        self._look_around(site, milliseconds(moment))

    def _aborted(self, books: SiteBooks, site: str, done: m.Done) -> None:
        """What was answered only after the abort had come, and is of before, is over as well."""
        came = self._delivered.get((site, done.rid, done.att, "abort"), 0)
        taken = books.taken.get(done.rid)
        if taken is not None and taken.since <= came:
            books.drop(done.rid, done.att, "held", "promised")

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
        books.answered(rid, visited.att, since, moment)
        taken = books.taken.get(rid)
        if not visited.held:
            if taken is not None and taken.att < visited.att:
                del books.taken[rid]
            return
        state = "promised" if visited.vote == "yes" else "held"
        spans = {held.hold_id: _span(visit.wants[held.index]) for held in visited.held}
        if taken is None or taken.att != visited.att or taken.spans != spans:
            self._nobody_before(site, visit, list(spans.values()), since, moment)
        elif taken.state == state:
            return
        books.taken[rid] = Taken(
            visited.att, state, spans, since, milliseconds(since), visit.hold_ms, visit
        )

    def _waits_now(self, site: str, visited: m.Visited, since: int, moment: int) -> None:
        books, now_ms = self._sites[site], milliseconds(moment)
        waiter = books.waiters.get(visited.rid)
        if waiter is None or waiter.visit.att != visited.att:
            return
        waiter.sure = True
        self.waits += 1
        self._waits_since_ms.setdefault(visited.rid, now_ms)
        books.drop(visited.rid, visited.att - 1, "held", "promised")
        ahead = sum(
            rid != visited.rid
            and any(
                other.perhaps_waits(now_ms) and self._wants_the_same(other, waiter)
                for other in books.waited(rid, since)
            )
            for rid in books.waiters.keys() | books.left.keys()
        )  # fmt: skip
        if visited.ahead > ahead:
            self._wrong(
                f"{site} says {visited.ahead} are ahead of {visited.rid}, at most {ahead} wait"
            )

    def _wants_the_same(self, one: Waiter, other: Waiter) -> bool:
        return overlapping(spans_of(one.visit.wants), spans_of(other.visit.wants))

    def _reported(self, site: str, report: m.Report, moment: int) -> None:
        books, rid = self._sites[site], report.rid
        since = self._delivered.pop((site, rid, report.att, "visit"), self._silent_since[site])
        dispatch = self._stamp_of_dispatch.get((site, rid, report.att))
        own = next((each for each in report.sites if each.site == site), None)
        taken = books.taken.get(rid)
        if dispatch is None or own is None or (taken is not None and taken.att >= report.att):
            return
        books.taken.pop(rid, None)
        spans = {
            held.hold_id: (held.resource, held.start, held.end, held.units) for held in own.held
        }
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
        if not waiter.perhaps_waits(milliseconds(moment)):
            self._wrong(f"{site} grants something to {rid}, which has long been silent")
        since = max(self._silent_since[site], waiter.entered)
        visit = waiter.visit
        spans = {held.hold_id: _span(visit.wants[held.index]) for held in grant.held}
        start_ms = 0 if waiter.yielded else self._head_start_ms(visit.principal)
        self._nobody_before(site, visit, list(spans.values()), since, moment, start_ms)
        if waiter is not books.waiters.get(rid):
            return
        books.leave(rid, grant.att, moment)
        books.taken[rid] = Taken(
            grant.att, "held", spans, since, milliseconds(since), visit.hold_ms, visit
        )

    def _nobody_before(
        self, site: str, visit: m.Visit | m.Dispatch, spans: Sequence[Span], since: int,
        moment: int, start_ms: int | None = None,
    ) -> None:  # fmt: skip
        """Nobody before `visit` waits since before `since` for what it has got."""
        if isinstance(visit, m.Visit) and visit.replaces:
            return
        books, now_ms = self._sites[site], milliseconds(moment)
        if start_ms is None:
            start_ms = self._head_start_ms(visit.principal)
        place = (visit.stamp - start_ms, visit.rid)
        before = [
            waiter
            for rid, waiter in books.waiters.items()
            if rid != visit.rid
            and waiter.surely_waits(now_ms)
            and waiter.entered < since
            and not waiter.visit.replaces
            and self._place(waiter) < place
        ]
        taken = books.firmly_taken(but=visit.rid)
        for waiter in before:
            kept = spans_of(waiter.visit.wants)
            # Only where this request takes part in it is too much its doing.
            for lack in lacking(self.capacities, [*taken, *kept], spans):
                if overlapping([lack], kept):
                    self._wrong(
                        f"{site} gives {visit.rid} room of {lack[0]} at {lack[1]}"
                        f" that {waiter.visit.rid}, before it in line, needs"
                    )
                    break

    def _place(self, waiter: Waiter) -> tuple[int, str]:
        start_ms = 0 if waiter.yielded else self._head_start_ms(waiter.visit.principal)
        return waiter.visit.stamp - start_ms, waiter.visit.rid

    # Promises and recalls

    def _voted(self, site: str, voted: m.Voted, moment: int) -> None:
        books, rid = self._sites[site], voted.rid
        since = self._delivered.pop((site, rid, voted.att, "prepare"), self._silent_since[site])
        asked = books.asked.get(rid)
        if isinstance(asked, m.Prepare):
            del books.asked[rid]
        taken = books.taken.get(rid)
        if voted.vote != "yes" or taken is None or taken.att != voted.att:
            return
        if taken.state == "held":
            if isinstance(asked, m.Prepare):
                named = set(asked.hold_ids)
                taken.spans = {key: span for key, span in taken.spans.items() if key in named}
            taken.state, taken.since, taken.sure = "promised", since, True
            taken.recall_until_ms = taken.overdue_ms = 0

    def _recalled(self, site: str, recall: m.Recall, moment: int) -> None:
        self.recalls += 1
        taken = self._sites[site].taken.get(recall.rid)
        if taken is None or taken.att != recall.att:
            return
        if taken.state == "promised" and taken.sure and taken.since < self._silent_since[site]:
            self._wrong(f"{site} recalls what it has promised to {recall.rid}")
        elif taken.state == "held" and not taken.recall_until_ms:
            taken.recall_until_ms = int(milliseconds(moment) + recall.left_ms * FASTEST)

    def _lost(self, site: str, renewed: m.Renewed, moment: int) -> None:
        books = self._sites[site]
        taken = books.taken.get(renewed.rid)
        if taken is None or taken.att != renewed.att:
            return
        if taken.renewing is not None and taken.spans.keys() <= set(renewed.kept):
            taken.asked_ms, taken.hold_ms = taken.renewing
        taken.renewing = None
        if not taken.spans.keys() & set(renewed.lost):
            return
        if taken.state == "promised" and taken.sure and taken.since < self._silent_since[site]:
            self._wrong(f"{site} takes back what it has promised to {renewed.rid}")
        elif taken.state == "held":
            for hold_id in renewed.lost:
                taken.spans.pop(hold_id, None)
            if not taken.spans:
                books.enter_again(renewed.rid, moment)

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
        if self._healed_ms is not None and now_ms > self._healed_ms and books.waiters:
            taken_spans = books.perhaps_taken(now_ms)
            for waiter in books.waiters.values():
                self._is_woken(site, waiter, taken_spans, now_ms)

    def _is_woken(self, site: str, waiter: Waiter, taken: Sequence[Span], now_ms: int) -> None:
        books, wants = self._sites[site], spans_of(waiter.visit.wants)
        others = [
            other
            for other in (*books.waiters.values(), *books.listed.values())
            if other.visit.rid != waiter.visit.rid
            and other.perhaps_waits(now_ms)
            and overlapping(spans_of(other.visit.wants), wants)
            and self._first_possible(other) < self._place(waiter)
        ]
        room = waiter.surely_waits(now_ms) and not others and not waiter.visit.replaces
        if not room or any(lacking(self.capacities, taken, wants)):
            waiter.room_since_ms = None
        elif waiter.room_since_ms is None:
            waiter.room_since_ms = now_ms
        elif now_ms > waiter.room_since_ms + self._wake_ms:
            self._wrong(f"{site} has room for {waiter.visit.rid}, first in line, and is silent")
            waiter.room_since_ms = now_ms + self._turn_ms

    def _first_possible(self, waiter: Waiter) -> tuple[int, str]:
        return waiter.visit.stamp - self._head_start_ms(waiter.visit.principal), waiter.visit.rid

    def on_crashed(self, site: str, moment: int) -> None:
        books = self._sites[site]
        books.waiters.clear()
        books.listed.clear()
        for rid, asked in list(books.asked.items()):
            if isinstance(asked, m.Visit) and asked.mode == "hold":
                del books.asked[rid]
        for rid, taken in list(books.taken.items()):
            if taken.state == "held" and rid not in books.asked:
                del books.taken[rid]
        for key in [key for key in self._delivered if key[0] == site]:
            del self._delivered[key]

    def _wrong(self, text: str) -> None:
        self.complaints.append(f"{self._now_ms()} ms: {text}")


def _span(want: m.Want) -> Span:
    return want.resource, want.start, want.end, want.units


def _as_visit(wish: m.Await) -> Any:
    """For its stamp and wants."""
    return m.Visit(
        rid=wish.rid, att=wish.att, stamp=wish.stamp, mode="hold", principal=wish.principal,
        wants=wish.wants, parts=(m.Part("nobody", ""),), need=1, secret="-" * 16, hold_ms=1,
    )  # fmt: skip
