"""A site at which many wait, against what its messages have said and what each second has room for.

Brokers do as they like: they wait, promise, give back, or fall silent. What every request has is known
from the site's messages and the passing of time alone; who may take what is counted second by second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.effort import examples, steps
from tests.protocol_support import (
    DAY,
    HERE,
    T0,
    Site,
    abort,
    commit,
    give,
    line_up,
    list_up,
    prepare,
    release,
    renew,
    rid,
    visit,
    want,
)

from kalends.contract import messages as m
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.contention.wait_queue import QueueEntry
from kalends.resource_servers.participation.contention.waiting_list_offers import (
    LISTED_MS,
    OFFER_MS,
)
from kalends.resource_servers.participation.contention.wound_wait import (
    LEASE_MS,
    RECALL_CONSIDERED_MS,
    RECALL_MS,
)
from kalends.resource_servers.participation.effects import ParticipantEffects

CAPACITY: Final = {"one": 1, "pool": 3}
SECONDS: Final = range(8)
NUMBERS: Final = range(1, 7)

Row = tuple[str, int, int, int]
Second = tuple[str, int]

numbers = st.sampled_from(NUMBERS)
holds_ms = st.sampled_from([2_000, 30_000, 30_000, 300_000])


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Few places, so that requests meet."""
    name = draw(st.sampled_from(["one", "pool", "pool", "pool"]))
    start = draw(st.integers(0, 5))
    return name, start, start + draw(st.integers(1, 3)), draw(st.integers(1, CAPACITY[name]))


@dataclass
class Told:
    """What a request has, as far as its broker can know. Times are monotonic milliseconds."""

    att: int = 1
    state: str = "none"
    ids: tuple[int, ...] = ()
    queue: bool = False
    hold_ms: int = 0
    until_ms: int = 0
    """When the hold, or the place in line, ends if nothing is said."""
    recalled_ms: int = 0
    """When the hold is taken back; 0: nobody asks for it."""
    listed_ms: int = 0
    """When the place on the list ends; 0: it has none."""
    fin: int = 0


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.site = Site()
        self.told = {number: Told() for number in NUMBERS}
        self.numbers = {rid(number): number for number in NUMBERS}

    # Steps: something happens, and then what was said is taken down

    def deliver(self, message: m.Message) -> list[m.Message]:
        return self.happens(partial(self.site.receive, message))

    def happens(self, step: Callable[[], ParticipantEffects]) -> list[m.Message]:
        offers = self.kept_by_offers()
        before = self.bookings()
        effects = step()
        assert not effects.alarms
        sent = [send.message for send in effects.sends]
        for message in sent:
            self.hear(message)
        self.nobody_was_passed_over(before, offers)
        steps["waiting at a site by the second"] += 1
        return sent

    def hear(self, message: m.Message) -> None:
        told = self.told[self.numbers[getattr(message, "rid", "")]]
        match message:
            case m.Visited(held=held, ahead=ahead, vote=vote):
                if ahead >= 0:
                    told.state, told.ids = "line", ()
                    told.until_ms = self.site.ms + LEASE_MS
                elif held:
                    told.state = "prepared" if vote == "yes" else "held"
                    told.ids = tuple(slot.hold_id for slot in held)
                else:
                    told.state, told.ids = "none", ()
            case m.Grant(held=held):
                assert told.state == "line"
                told.state, told.ids = "held", tuple(slot.hold_id for slot in held)
                told.until_ms, told.recalled_ms = self.site.ms + told.hold_ms, 0
            case m.Locked():
                assert told.state == "line"
                told.state = "none"
            case m.Recall(left_ms=left_ms):
                assert told.state == "held"
                assert not told.recalled_ms, "a hold has one deadline"
                assert left_ms in (RECALL_MS, RECALL_CONSIDERED_MS)
                told.recalled_ms = self.site.ms + left_ms
            case m.Renewed(lost=lost) if lost:
                assert told.recalled_ms <= self.site.ms
                assert set(lost) == set(told.ids)
                self.taken_back(told)
            case m.Awaited():
                assert told.listed_ms, "only who is on the list hears of it"

    def taken_back(self, told: Told) -> None:
        told.state, told.ids, told.recalled_ms = ("line" if told.queue else "none"), (), 0
        told.until_ms = self.site.ms + LEASE_MS

    # What brokers do

    @rule(
        number=numbers, wanted=rows(), hold_ms=holds_ms, considered=st.booleans(),
        queue=st.sampled_from([True, True, True, False]), again=st.booleans(),
    )  # fmt: skip
    def visit(
        self, number: int, wanted: Row, hold_ms: int, considered: bool, queue: bool, again: bool
    ) -> None:
        """A higher attempt where something was asked for already, unless it is a repetition."""
        told = self.told[number]
        if told.state == "locked":
            return
        fresh = told.state == "none" and told.att > told.fin
        if not fresh:
            if again:
                return
            told.att += 1
            told.fin = told.att - 1
        was_recalled = told.recalled_ms
        told.queue, told.hold_ms = queue, hold_ms
        told.until_ms = self.site.ms + hold_ms
        make = line_up if queue else visit
        self.deliver(
            make(number, want(*wanted), att=told.att, hold_ms=hold_ms, considered=considered)
        )
        if told.state != "held":
            told.recalled_ms = 0
        elif was_recalled:
            self.recall_is_known(number)

    def recall_is_known(self, number: int) -> None:
        """A higher attempt may keep the deadline that the lower one had."""
        holder = self.site.participant.wound_wait.holders[rid(number)]
        assert holder.recall_until_ms in (0, self.told[number].recalled_ms)
        self.told[number].recalled_ms = holder.recall_until_ms

    @rule(number=numbers, wanted=rows())
    def vote(self, number: int, wanted: Row) -> None:
        told = self.told[number]
        if told.state == "none" and told.att > told.fin:
            self.deliver(visit(number, want(*wanted), att=told.att, mode="vote"))

    @rule(number=numbers)
    def repeat_the_visit(self, number: int) -> None:
        """Only where it waits: then nothing changes, but its place lives on."""
        place = self.site.participant.wound_wait.line.get(rid(number))
        if place is not None:
            state = self.told[number].state
            assert state == "line"
            self.deliver(place.visit)
            assert self.told[number].state == "line"

    @precondition(lambda self: any(each.state == "held" for each in self.told.values()))
    @rule(data=st.data(), how=st.sampled_from(["prepare", "prepare", "give", "give", "renew"]))
    def answer_for_a_hold(self, data: st.DataObject, how: str) -> None:
        held = [number for number, told in self.told.items() if told.state == "held"]
        number = data.draw(st.sampled_from(held))
        told = self.told[number]
        if how == "prepare":
            told.state, told.recalled_ms = "prepared", 0
            (voted,) = self.deliver(prepare(number, *told.ids, att=told.att))
            assert isinstance(voted, m.Voted)
            assert voted.vote == "yes", "a promise is never too late while it is held"
        elif how == "give":
            ids = told.ids
            self.taken_back(told)
            self.deliver(give(number, *ids, att=told.att))
        else:
            told.until_ms = self.site.ms + told.hold_ms
            message = renew(number, *told.ids, att=told.att, hold_ms=told.hold_ms)
            (renewed,) = self.deliver(message)
            assert isinstance(renewed, m.Renewed)
            assert renewed.recall_ms == max(told.recalled_ms - self.site.ms, 0)

    @precondition(lambda self: any(each.state == "prepared" for each in self.told.values()))
    @rule(data=st.data(), committed=st.booleans())
    def decide(self, data: st.DataObject, committed: bool) -> None:
        promised = [number for number, told in self.told.items() if told.state == "prepared"]
        number = data.draw(st.sampled_from(promised))
        told = self.told[number]
        if committed:
            told.state, told.listed_ms = "locked", 0
            self.deliver(commit(number, *told.ids, att=told.att))
        else:
            told.state, told.ids, told.fin = "none", (), told.att
            self.deliver(abort(number, att=told.att))

    @rule(number=numbers, aborted=st.booleans())
    def give_up(self, number: int, aborted: bool) -> None:
        told = self.told[number]
        if told.state not in ("held", "line"):
            return
        told.state, told.ids, told.recalled_ms = "none", (), 0
        if aborted:
            told.fin = told.att
            self.deliver(abort(number, att=told.att))
        else:
            told.listed_ms = 0
            self.deliver(release(number, att=told.att))

    @rule(number=numbers)
    def cancel(self, number: int) -> None:
        told = self.told[number]
        if told.state == "locked":
            told.state = "over"
            self.deliver(m.Cancel(rid=rid(number), att=told.att))

    @rule(number=numbers, wanted=rows(), length_s=st.integers(1, 3))
    def stand_on_the_list(self, number: int, wanted: Row, length_s: int) -> None:
        told = self.told[number]
        if told.state == "none" and told.att > told.fin:
            told.listed_ms = self.site.ms + LISTED_MS
            self.deliver(list_up(number, want(*wanted), att=told.att, length_s=length_s))

    @rule(ms=st.sampled_from([1, 1_000, 2_000, RECALL_MS, OFFER_MS, 20_000, LEASE_MS]))
    def time_passes(self, ms: int) -> None:
        """Step by step: what ends at once is told in one step, whatever comes of it later."""
        end_ms = self.site.ms + ms
        while self.site.ms < end_ms:
            due_ms = min(self.site.participant.next_deadline_ms(), end_ms)
            self.happens(partial(self.pass_time, max(due_ms - self.site.ms, 1)))

    def pass_time(self, ms: int) -> ParticipantEffects:
        now_ms = self.site.ms + ms
        for told in self.told.values():
            if told.state in ("held", "line") and told.until_ms <= now_ms:
                told.state, told.ids, told.recalled_ms = "none", (), 0
            if told.listed_ms <= now_ms:
                told.listed_ms = 0
        return self.site.advance(ms)

    @rule()
    def restart(self) -> None:
        self.site.restart()
        for told in self.told.values():
            told.listed_ms = 0
            if told.state in ("held", "line"):
                told.state, told.ids, told.recalled_ms = "none", (), 0

    # What each second has room for

    def bookings(self) -> dict[tuple[int, str], Row]:
        """All that is held, promised or locked, by booking and the request it is for."""
        found = {}
        for name in CAPACITY:
            calendar = self.site.participant.book.calendars[f"{HERE}/{name}"].calendar
            for each in calendar.listing(T0 + DAY, T0 + DAY + len(SECONDS)):
                row = (name, each.start - T0 - DAY, each.end - T0 - DAY, each.units)
                found[each.id, f"{each.state} {each.reservation}"] = row
        return found

    def room(self, *gone: str) -> dict[Second, int]:
        """Units that nobody has, at every second; as if the requests `gone` had nothing."""
        free = {(name, at): units for name, units in CAPACITY.items() for at in SECONDS}
        for (_, what), (name, start, end, units) in self.bookings().items():
            if what.split()[1] not in gone:
                for at in range(start, end):
                    free[name, at] -= units
        return free

    def kept_by_offers(self) -> dict[str, tuple[Piece, ...]]:
        offers = self.site.participant.lists.offers
        return {each: offers.pieces(each) for each in self.numbers if each in offers}

    def places(self) -> list[QueueEntry]:
        return sorted(self.site.participant.wound_wait.line, key=lambda place: place.order)

    def lacks(self, place: QueueEntry, free: dict[Second, int]) -> bool:
        return any(free[second] < units for second, units in seconds(place.pieces))

    def nobody_was_passed_over(
        self, before: dict[tuple[int, str], Row], offers: dict[str, tuple[Piece, ...]]
    ) -> None:
        """What was taken in this step leaves, at all its seconds, what older ones wait for."""
        states = {(number, what.split()[1]) for number, what in before}
        after = self.bookings()
        free = self.room()
        kept_now = self.kept_by_offers()
        for (number, what), (name, start, end, _) in after.items():
            taker = what.split()[1]
            if (number, taker) in states:
                continue
            order = (self.numbers[taker], taker)
            pieces = [
                piece for place in self.places() if place.order < order for piece in place.pieces
            ]
            for each, of_offer in offers.items():
                if kept_now.get(each) == of_offer and (self.numbers[each], each) < order:
                    pieces += of_offer
            left = dict(free)
            for second, units in seconds(pieces):
                left[second] -= units
            assert all(left[name, at] >= 0 for at in range(start, end)), (taker, pieces)

    # What must always hold

    @invariant()
    def it_is_as_brokers_were_told(self) -> None:
        participant = self.site.participant
        for number, told in self.told.items():
            stake = participant.book.stakes.get(rid(number))
            place = participant.wound_wait.line.get(rid(number))
            states = {claim.state for claim in stake.claims} if stake is not None else set()
            assert (place is not None) == (told.state == "line"), number
            assert states == (
                {told.state} & {"held", "prepared", "locked"} or (states & {"cancelled"})
            )
            assert (participant.lists.listed.get(rid(number)) is not None) == bool(told.listed_ms)
            if told.state == "held":
                assert (
                    participant.wound_wait.holders[rid(number)].recall_until_ms == told.recalled_ms
                )

    @invariant()
    def nobody_waits_for_what_is_there_or_will_never_be(self) -> None:
        """No wake-up is lost: in their order, all who wait lack something at this moment."""
        free = self.room()
        held = [
            what.split()[1]
            for _, what in self.bookings()
            if what.split()[0] in ("held", "prepared")
        ]
        unlocked = self.room(*held)
        offers = self.kept_by_offers()
        for place in self.places():
            left = dict(free)
            kept = [
                piece
                for each, pieces in offers.items()
                if (self.numbers[each], each) < place.order
                for piece in pieces
            ]
            for second, units in seconds(kept):
                left[second] -= units
            assert self.lacks(place, left), place.rid
            assert not self.lacks(place, unlocked), place.rid
            for second, units in seconds(place.pieces):
                free[second] -= units

    @invariant()
    def whoever_is_older_has_enough_asked_back(self) -> None:
        """Unless a promise is to be decided first, which brings it up again."""
        told = {rid(number): each for number, each in self.told.items()}
        promised = [each for each in told if told[each].state == "prepared"]
        older: list[Piece] = []
        for place in self.places():
            younger = [
                each
                for each in told
                if told[each].state == "held" and (self.numbers[each], each) > place.order
            ]
            asked = [each for each in younger if told[each].recalled_ms]
            without_younger, without_asked = self.room(*younger), self.room(*asked, *promised)
            mine = {second for second, _ in seconds(place.pieces)}
            for second, units in seconds(older):
                if second in mine:
                    without_younger[second] -= units
                    without_asked[second] -= units
            if not self.lacks(place, without_younger):
                assert not self.lacks(place, without_asked), place.rid
            older += place.pieces

    @invariant()
    def recalls_and_places_end_in_time(self) -> None:
        for told in self.told.values():
            assert not told.recalled_ms or told.recalled_ms > self.site.ms
            assert told.state != "line" or told.until_ms > self.site.ms


def seconds(pieces: list[Piece] | tuple[Piece, ...]) -> list[tuple[Second, int]]:
    return [
        ((resource.removeprefix(f"{HERE}/"), at - T0 - DAY), units)
        for resource, start, end, units in pieces
        for at in range(start, end)
    ]


TestWaiting = Machine.TestCase
TestWaiting.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)
