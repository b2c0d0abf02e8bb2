"""What is kept for whom, second by second: kept room, lines, lists, and what is in flight at a broker."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.effort import examples, steps
from tests.protocol_support import line_up, list_up, rid

from kalends.broker.planning.in_flight import InFlight, fits, without
from kalends.calendars import profiles
from kalends.contract.messages import Want
from kalends.resource_servers.participation.claims.earmarks import LAST, Earmarks, Order
from kalends.resource_servers.participation.claims.occupancy import Piece, peak_units
from kalends.resource_servers.participation.contention.wait_queue import QueueEntry, WaitQueue
from kalends.resource_servers.participation.contention.waiting_list import (
    WaitingList,
    WaitingListEntry,
    WaitingListOffer,
)

SECONDS = range(12)
NAMES = ("here/one", "there/two")
NUMBERS = range(1, 6)

Span = tuple[int, int, int]

numbers = st.sampled_from(NUMBERS)
names = st.sampled_from(NAMES)


@st.composite
def spans(draw: st.DrawFn, least: int = 1) -> Span:
    start = draw(st.integers(0, 10))
    return start, draw(st.integers(start + 1, 12)), draw(st.integers(least, 3))


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    return (draw(names), *draw(spans()))


@st.composite
def steps_of_time(draw: st.DrawFn) -> list[Span]:
    """Steps as views have them: in order, of at least one unit, with gaps and equal neighbours."""
    borders = sorted(draw(st.sets(st.integers(0, 12), min_size=2, max_size=7)))
    found = []
    for start, end in pairwise(borders):
        units = draw(st.integers(0, 3))
        if units:
            found.append((start, end, units))
    return found


some_pieces = st.lists(pieces(), min_size=1, max_size=3)


def at(of: list[Span], second: int) -> int:
    """The sum of all spans over this second."""
    return sum(units for start, end, units in of if start <= second < end)


def overlap(one: Piece, other: Piece) -> bool:
    return one[0] == other[0] and bool(set(range(*one[1:3])) & set(range(*other[1:3])))


# Sums of spans


@given(st.lists(spans(), max_size=6), spans())
@settings(max_examples=examples(200))
def test_the_peak_is_that_of_the_fullest_second(of: list[Span], window: Span) -> None:
    start, end, _ = window
    assert peak_units(of, start, end) == max(at(of, second) for second in range(start, end))


@given(st.lists(spans(-3), max_size=6), spans())
@settings(max_examples=examples(200))
def test_a_total_has_every_second_of_its_window_once(of: list[Span], window: Span) -> None:
    start, end, _ = window
    total = list(profiles.total(of, start, end))
    assert [begin for begin, _, _ in total] == [start, *(finish for _, finish, _ in total[:-1])]
    assert total[-1][1] == end
    assert all(at(total, second) == at(of, second) for second in range(start, end))


@given(st.lists(st.integers(0, 3), min_size=12, max_size=12), st.lists(spans(-3), max_size=6))
@settings(max_examples=examples(200))
def test_a_changed_profile_is_changed_at_every_second_and_never_below_nothing(
    units: list[int], changes: list[Span]
) -> None:
    profile = [(second, second + 1, units[second]) for second in SECONDS]
    made = list(profiles.changed(profile, changes, 0, 12))
    assert [at(made, second) for second in SECONDS] == [
        max(units[second] + at(changes, second), 0) for second in SECONDS
    ]
    assert sum(end - start for start, end, _ in made) == 12


# What the requests of one broker ask for


def wants_of(of: list[Piece]) -> tuple[Want, ...]:
    return tuple(Want(*piece) for piece in of)


@given(steps_of_time(), st.lists(spans(), min_size=1, max_size=4))
@settings(max_examples=examples(300))
def test_steps_without_wants_have_what_is_left_of_every_second(
    free: list[Span], taken: list[Span]
) -> None:
    left = list(without(free, [Want("here/one", *span) for span in taken]))
    assert left == sorted(left)
    assert all(units > 0 and start < end for start, end, units in left)
    for second in SECONDS:
        assert at(left, second) == max(at(free, second) - at(taken, second), 0)


@given(some_pieces, steps_of_time(), steps_of_time())
@settings(max_examples=examples(400))
def test_wants_fit_when_every_second_has_room_for_all_of_them(
    wanted: list[Piece], one: list[Span], two: list[Span]
) -> None:
    free = dict(zip(NAMES, (one, two), strict=True))
    expected = all(
        at([piece[1:] for piece in wanted if piece[0] == name], second) <= at(free[name], second)
        for name in NAMES
        for second in SECONDS
    )
    assert fits(wants_of(wanted), free) == expected


class Flights(RuleBasedStateMachine):
    """`InFlight` against a dict of wants."""

    def __init__(self) -> None:
        super().__init__()
        self.flights = InFlight()
        self.wants: dict[int, list[Piece]] = {}

    @rule(number=numbers, wanted=st.lists(pieces(), max_size=3))
    def note(self, number: int, wanted: list[Piece]) -> None:
        self.flights.note(rid(number), number, wants_of(wanted))
        self.wants[number] = wanted

    @rule(number=numbers, site=st.sampled_from(["", "here", "there", "elsewhere"]))
    def drop(self, number: int, site: str) -> None:
        self.flights.drop(rid(number), site)
        self.wants[number] = [
            piece
            for piece in self.wants.get(number, [])
            if site and not piece[0].startswith(f"{site}/")
        ]

    @rule(number=numbers, free=steps_of_time(), before=st.none() | numbers)
    def less(self, number: int, free: list[Span], before: int | None) -> None:
        stamp = (before, "") if before is not None else None
        left = self.flights.less(dict.fromkeys(NAMES, free), rid(number), stamp)
        for name in NAMES:
            others = [
                piece[1:]
                for other, wanted in self.wants.items()
                for piece in wanted
                if other != number and piece[0] == name and (before is None or other < before)
            ]
            for second in SECONDS:
                expected = max(at(free, second) - at(others, second), 0)
                assert at(list(left[name]), second) == expected
        steps["what is in flight at a broker"] += 1

    @rule(number=numbers, name=names)
    def others(self, number: int, name: str) -> None:
        expected = any(
            piece[0] == name
            for other, wanted in self.wants.items()
            for piece in wanted
            if other != number
        )
        assert self.flights.others(rid(number), [name]) == expected

    def teardown(self) -> None:
        """Nothing is left behind."""
        for number in NUMBERS:
            self.flights.drop(rid(number))
        assert (self.flights._wants, self.flights._resources, self.flights._stamps) == ({}, {}, {})


# What a site keeps


class Keepings(RuleBasedStateMachine):
    """`Earmarks` and the line built on it against a dict of pieces; leases against another."""

    def __init__(self) -> None:
        super().__init__()
        self.line = WaitQueue()
        self.kept: dict[int, tuple[Order, list[Piece], int]] = {}

    @property
    def keeping(self) -> Earmarks:
        return self.line.earmarks

    @rule(number=numbers, wanted=some_pieces, start=st.integers(0, 3), lease_ms=st.integers(1, 9))
    def put(self, number: int, wanted: list[Piece], start: int, lease_ms: int) -> None:
        order = (number - start, rid(number))
        visit = line_up(number, *wants_of(wanted))
        self.line.put(QueueEntry(visit, "broker", order, tuple(wanted), (), lease_ms))
        self.kept[number] = order, wanted, lease_ms

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        place = self.line.leave(rid(number))
        known = self.kept.pop(number, None)
        assert (place is None) == (known is None)

    @rule(number=numbers, lease_ms=st.integers(1, 9))
    def renew(self, number: int, lease_ms: int) -> None:
        place = self.line.get(rid(number))
        assert (place is None) == (number not in self.kept)
        if place is not None:
            self.line.renew(place, "another", lease_ms)
            self.kept[number] = (*self.kept[number][:2], lease_ms)

    @rule(now_ms=st.integers(0, 9))
    def overdue(self, now_ms: int) -> None:
        found = {place.rid for place in self.line.overdue(now_ms)}
        assert found == {rid(n) for n, (_, _, lease_ms) in self.kept.items() if lease_ms <= now_ms}

    @rule(number=numbers, start=st.integers(0, 3), name=names)
    def before(self, number: int, start: int, name: str) -> None:
        for order in ((number - start, rid(number)), LAST):
            expected = [
                piece
                for other, wanted, _ in self.kept.values()
                for piece in wanted
                if other < order and piece[0] == name
            ]
            assert sorted(self.keeping.before(order, name)) == sorted(expected)

    @rule(number=numbers)
    def ahead(self, number: int) -> None:
        if number in self.kept:
            order, wanted, _ = self.kept[number]
            expected = sum(
                other < order and any(overlap(one, two) for one in wanted for two in theirs)
                for other, theirs, _ in self.kept.values()
            )
            assert self.line.ahead(rid(number)) == expected

    @rule(wanted=some_pieces)
    def touching(self, wanted: list[Piece]) -> None:
        expected = sorted(
            order
            for order, theirs, _ in self.kept.values()
            if any(overlap(one, two) for one in wanted for two in theirs)
        )
        found = self.line.touching({piece[:3] for piece in wanted})
        assert found == [each for _, each in expected]

    @rule(number=numbers)
    def senior_pieces(self, number: int) -> None:
        """By age and not by order: only what is wanted at the same seconds."""
        place = self.line.get(rid(number))
        if place is None:
            return
        mine = [
            (name, second) for name, start, end, _ in place.pieces for second in range(start, end)
        ]
        for name in NAMES:
            of_one = [piece[1:] for piece in self.line.senior_pieces(place) if piece[0] == name]
            theirs = [
                piece[1:]
                for other, (_, wanted, _) in self.kept.items()
                for piece in wanted
                if other < number and piece[0] == name
            ]
            for second in SECONDS:
                times = mine.count((name, second))
                assert at(of_one, second) == at(theirs, second) * times

    @invariant()
    def it_is_whole(self) -> None:
        self.line.check()
        leases = [lease_ms for _, _, lease_ms in self.kept.values()]
        assert self.line.next_lease_ms() == min(leases, default=None)
        assert len(self.line) == len(self.keeping) == len(self.kept)
        assert self.line.count("ann") == sum(len(wanted) for _, wanted, _ in self.kept.values())
        steps["places in line"] += 1


class Lists(RuleBasedStateMachine):
    """`WaitingList` against a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = WaitingList()
        self.known: dict[int, tuple[list[Piece], int, int]] = {}
        """Windows, the end of the lease, and that of the offer (0: nothing is offered)."""

    @rule(number=numbers, wanted=some_pieces, lease_ms=st.integers(1, 9))
    def put(self, number: int, wanted: list[Piece], lease_ms: int) -> None:
        wish = list_up(number, *wants_of(wanted))
        self.listed.put(WaitingListEntry(wish, "broker", (number, rid(number)), lease_ms))
        self.known[number] = wanted, lease_ms, 0

    @rule(number=numbers, until_ms=st.integers(0, 9))
    def offered(self, number: int, until_ms: int) -> None:
        listed = self.listed.get(rid(number))
        assert (listed is None) == (number not in self.known)
        if listed is not None:
            self.listed.offered(listed, WaitingListOffer(until_ms, []) if until_ms else None)
            self.known[number] = (*self.known[number][:2], until_ms)

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        assert (self.listed.leave(rid(number)) is None) == (number not in self.known)
        self.known.pop(number, None)

    @rule(number=st.none() | numbers, name=names)
    def after(self, number: int | None, name: str) -> None:
        order = (number, rid(number)) if number is not None else None
        expected = [
            rid(other)
            for other, (wanted, _, _) in sorted(self.known.items())
            if (number is None or other > number) and any(piece[0] == name for piece in wanted)
        ]
        assert [each.rid for each in self.listed.after(order, name)] == expected

    @rule(number=numbers)
    def ahead(self, number: int) -> None:
        if number in self.known:
            expected = sum(
                other < number
                and any(overlap(one, two) for one in self.known[number][0] for two in wanted)
                for other, (wanted, _, _) in self.known.items()
            )
            assert self.listed.ahead(rid(number)) == expected

    @invariant()
    def deadlines_are_those_of_leases_and_offers(self) -> None:
        self.listed.check()
        ends = {
            rid(number): min(lease_ms, until_ms or lease_ms)
            for number, (_, lease_ms, until_ms) in self.known.items()
        }
        assert self.listed.next_deadline_ms() == min(ends.values(), default=None)
        for now_ms in (0, 4, 9):
            found = {each.rid for each in self.listed.overdue(now_ms)}
            assert found == {each for each, end_ms in ends.items() if end_ms <= now_ms}
        assert self.listed.count("ann") == len(self.listed) == len(self.known)
        steps["waiting lists"] += 1


MACHINE = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)

TestFlights = Flights.TestCase
TestFlights.settings = MACHINE
TestKeepings = Keepings.TestCase
TestKeepings.settings = MACHINE
TestLists = Lists.TestCase
TestLists.settings = MACHINE
