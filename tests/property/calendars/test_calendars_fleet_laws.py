"""A fleet against a twin that asks every calendar about every second of a small horizon."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from tests import effort

from kalends.calendars import Booking, Fleet, UnitCalendar, new_calendar
from kalends.calendars.fleet import common
from kalends.calendars.fleet import index as fleet_index
from kalends.calendars.fleet.column import GONE, Column
from kalends.calendars.fleet.index import GapIndex
from kalends.calendars.fleet.open_counts import tally_of
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.intervals import Interval

HORIZON_S = 40
CROWD_S = 90
NAMES = ("e", "a", "d", "b", "c", "f")

times = st.integers(-3, HORIZON_S + 8)
lengths = st.sampled_from([1, 1, 2, 3, 4, 6, 9])
grains = st.sampled_from([1, 1, 1, 2, 5])
names = st.sampled_from(NAMES)
ids = st.integers(1, 15)


class AskingFleet(Fleet):
    """A fleet that asks its calendars one by one and has no index."""

    FEW = 0


class SlowTwin:
    """Capacities and bookings by name, in order; every answer is worked out second by second."""

    def __init__(self) -> None:
        self.capacities: dict[str, int] = {}
        self.bookings: dict[str, dict[int, Booking]] = {}

    def free(self, name: str, start: int, end: int) -> int:
        return min(
            self.capacities[name]
            - sum(b.units for b in self.bookings[name].values() if b.start <= at < b.end)
            for at in range(start, end)
        )

    def open_at(self, asked: Iterable[str], units: int, start: int, length_s: int) -> list[str]:
        chosen = set(asked)
        return [
            name
            for name in self.capacities
            if name in chosen and self.free(name, start, start + length_s) >= units
        ]

    def starts(
        self,
        count: int,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        asked: Iterable[str],
        grain_s: int,
    ) -> list[int]:
        asked = list(asked)
        return [
            start
            for start in range(max(not_before, 0), not_after - length_s + 1)
            if start % grain_s == 0 and len(self.open_at(asked, units, start, length_s)) >= count
        ]


def booking(
    booking_id: int, start: int, end: int, units: int = 1, expires_ms: int | None = None
) -> Booking:
    return Booking(
        id=booking_id,
        start=start,
        end=end,
        units=units,
        state="held",
        holder="ada",
        reservation="r1",
        expires_ms=expires_ms,
    )


def hilly(starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Many equal weights."""
    return ((starts * 7) % 5).astype(np.float64)


@st.composite
def window_lists(draw: st.DrawFn) -> list[Interval]:
    borders = sorted(draw(st.sets(st.integers(0, HORIZON_S + 8), max_size=8)))
    return [Interval(*pair) for pair in zip(borders[::2], borders[1::2], strict=False)]


class FleetAgainstTwin(RuleBasedStateMachine):
    @initialize(
        capacities=st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=2, max_size=5),
        bucket_gaps=st.integers(1, 4),
        slots=st.lists(st.tuples(names, times, lengths), max_size=20),
    )
    def begin(
        self, capacities: list[int], bucket_gaps: int, slots: list[tuple[str, int, int]]
    ) -> None:
        self.twin = SlowTwin()
        self.fleets = (Fleet({}, bucket_gaps=bucket_gaps), AskingFleet({}))
        for name, capacity in zip(NAMES, capacities, strict=False):
            self.add(name, capacity)
        for units in (1, 2):
            self.search(1, units, 2, 0, HORIZON_S, None, 1)
        for number, (name, start, length_s) in enumerate(slots, 20):
            self.book(name, number, start, length_s, 1, None)

    @rule(name=names, capacity=st.sampled_from([1, 1, 2, 3]))
    def add(self, name: str, capacity: int) -> None:
        for fleet in self.fleets:
            if name in self.twin.capacities:
                with pytest.raises(Conflict):
                    fleet.add(name, new_calendar(capacity))
            else:
                fleet.add(name, new_calendar(capacity))
        if name not in self.twin.capacities:
            self.twin.capacities[name] = capacity
            self.twin.bookings[name] = {}

    @rule(name=names, again=st.booleans())
    def remove_and_perhaps_add_again(self, name: str, again: bool) -> None:
        for fleet in self.fleets:
            if name not in self.twin.capacities:
                with pytest.raises(NotFound):
                    fleet.remove(name)
            else:
                calendar = fleet.remove(name)
                if again:
                    fleet.add(name, calendar)
        if name in self.twin.capacities:
            capacity, bookings = self.twin.capacities.pop(name), self.twin.bookings.pop(name)
            if again:
                self.twin.capacities[name], self.twin.bookings[name] = capacity, bookings

    @rule(
        name=names,
        booking_id=ids,
        start=times,
        length_s=lengths,
        units=st.sampled_from([1, 1, 2, 3]),
        expires_ms=st.none() | st.integers(0, 9),
    )
    def book(
        self,
        name: str,
        booking_id: int,
        start: int,
        length_s: int,
        units: int,
        expires_ms: int | None,
    ) -> None:
        new = booking(booking_id, start, start + length_s, units, expires_ms)
        error: type[Exception] | None = None
        if name not in self.twin.capacities:
            error = NotFound
        elif start < 0 or units > self.twin.capacities[name]:
            error = InvalidInput
        elif (
            booking_id in self.twin.bookings[name]
            or self.twin.free(name, start, start + length_s) < units
        ):
            error = Conflict
        for fleet in self.fleets:
            if error is None:
                fleet.book(name, new)
            else:
                with pytest.raises(error):
                    fleet.book(name, new)
        if error is None:
            self.twin.bookings[name][booking_id] = new

    @rule(
        name=names,
        slots=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=4),
    )
    def load(self, name: str, slots: list[tuple[int, int]]) -> None:
        many = [
            booking(50 + number, 4 * start, 4 * start + length_s)
            for number, (start, length_s) in enumerate(slots)
        ]
        before = dict(self.twin.bookings.get(name, {}))
        good = name in self.twin.capacities
        for new in many:
            good = good and new.start < new.end and new.id not in self.twin.bookings[name]
            good = good and self.twin.free(name, new.start, new.end) >= 1
            if good:
                self.twin.bookings[name][new.id] = new
        for fleet in self.fleets:
            if good:
                fleet.load(name, many)
            else:
                with pytest.raises((Conflict, InvalidInput, NotFound)):
                    fleet.load(name, many)
        if not good and name in self.twin.capacities:
            self.twin.bookings[name] = before

    @rule(name=names, data=st.data())
    def release(self, name: str, data: st.DataObject) -> None:
        known = self.twin.bookings.get(name, {})
        booking_id = data.draw(st.sampled_from([*known, 99]))
        for fleet in self.fleets:
            if booking_id in known:
                assert fleet.release(name, booking_id) == known[booking_id]
            else:
                with pytest.raises(NotFound):
                    fleet.release(name, booking_id)
        known.pop(booking_id, None)

    @rule(now_ms=st.integers(0, 9))
    def expire(self, now_ms: int) -> None:
        due = [
            (name, new)
            for name in self.twin.capacities
            for new in sorted(
                self.twin.bookings[name].values(), key=lambda each: (each.expires_ms or 0, each.id)
            )
            if new.expires_ms is not None and new.expires_ms <= now_ms
        ]
        for fleet in self.fleets:
            assert fleet.expire(now_ms) == due
        for name, new in due:
            del self.twin.bookings[name][new.id]

    @rule(
        count=st.sampled_from([1, 2, 2, 3, 4]),
        units=st.sampled_from([1, 1, 2, 3, 4]),
        length_s=lengths,
        not_before=times,
        not_after=times,
        among=st.none() | st.lists(names, max_size=5),
        grain_s=grains,
    )
    def search(
        self,
        count: int,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        among: list[str] | None,
        grain_s: int,
    ) -> None:
        known = list(self.twin.capacities)
        asked = known if among is None else [name for name in among if name in known]
        if count > len(set(asked)):
            for fleet in self.fleets:
                with pytest.raises(InvalidInput):
                    fleet.earliest_together(count, units, length_s, 0, 9, among=asked)
            return
        starts = self.twin.starts(count, units, length_s, not_before, not_after, asked, grain_s)
        best = sorted(starts, key=lambda start: (-((start * 7) % 5), start))[:count]
        effort.steps["fleet searches"] += 1
        for fleet in self.fleets:
            found = fleet.earliest_together(
                count,
                units,
                length_s,
                not_before,
                not_after,
                among=None if among is None else asked,
                grain_s=grain_s,
            )
            assert (None if found is None else found.start) == (starts[0] if starts else None)
            if found is not None:
                free = self.twin.open_at(asked, units, found.start, length_s)
                assert found.names == tuple(free[:count])
            weighed = fleet.best_starts(
                count,
                hilly,
                count,
                units,
                length_s,
                not_before,
                not_after,
                among=None if among is None else asked,
                grain_s=grain_s,
            )
            assert weighed == [(start, float((start * 7) % 5)) for start in best]

    @rule(
        wanted=st.dictionaries(names, st.sampled_from([1, 1, 2]), min_size=1, max_size=4),
        length_s=lengths,
        not_before=times,
        not_after=times,
        grain_s=grains,
        windows=st.dictionaries(names, window_lists(), max_size=2),
    )
    def search_common(
        self,
        wanted: dict[str, int],
        length_s: int,
        not_before: int,
        not_after: int,
        grain_s: int,
        windows: dict[str, list[Interval]],
    ) -> None:
        wanted = {name: units for name, units in wanted.items() if name in self.twin.capacities}
        windows = {name: given for name, given in windows.items() if name in wanted}
        if not wanted:
            return
        expected = None
        for start in range(max(not_before, 0), not_after - length_s + 1):
            slot = Interval(start, start + length_s)
            if (
                start % grain_s == 0
                and all(self.twin.free(name, *slot) >= units for name, units in wanted.items())
                and all(any(w.contains(slot) for w in given) for given in windows.values())
            ):
                expected = start
                break
        effort.steps["fleet searches"] += 1
        fleet = self.fleets[0]
        found = fleet.common_slot(
            list(wanted), wanted, length_s, not_before, not_after, windows=windows, grain_s=grain_s
        )
        assert found == expected
        parties = [
            common.Party(fleet[name], units, windows.get(name)) for name, units in wanted.items()
        ]
        first, last = max(not_before, 0), not_after - length_s
        count = len(parties)
        assert common.first_of(parties, count, length_s, first, last, grain_s) == expected

    @invariant()
    def index_and_order_equal_the_truth(self) -> None:
        for fleet in self.fleets:
            fleet.check()
            assert list(fleet) == list(self.twin.capacities)
            for name, known in self.twin.bookings.items():
                booked = fleet[name].listing(0, 99)
                assert {each.id: each for each in booked} == known


TestFleetAgainstTwin = FleetAgainstTwin.TestCase
TestFleetAgainstTwin.settings = settings(max_examples=effort.examples(60), stateful_step_count=30)


class CrowdedFleet:
    """A fleet of full calendars beside the free units of each second, and one random user of both."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        capacities = self.random.choices([1, 1, 1, 2, 3], k=self.random.randint(4, 9))
        self.fleet = Fleet(
            {f"c{number}": new_calendar(capacity) for number, capacity in enumerate(capacities)},
            bucket_gaps=self.random.choice([2, 3, 8]),
        )
        self.free = np.array([[capacity] * (2 * CROWD_S) for capacity in capacities])
        self.live: list[tuple[int, Booking]] = []
        self.number = 0
        if self.random.random() < 0.7:
            # An index of empty calendars has one bucket: all others come by cutting.
            self.search()
        for _ in range(20 * len(capacities)):
            self.book()

    def book(self) -> None:
        number, start = self.random.randrange(len(self.free)), self.random.randrange(CROWD_S)
        self.book_at(number, start, start + self.random.choice([1, 2, 3, 8]))

    def book_at(self, number: int, start: int, end: int) -> None:
        self.number += 1
        new = booking(self.number, start, end)
        if self.free[number, start:end].min() < 1:
            with pytest.raises(Conflict):
                self.fleet.book(f"c{number}", new)
            return
        self.fleet.book(f"c{number}", new)
        self.free[number, start:end] -= 1
        self.live.append((number, new))

    def release(self) -> None:
        if self.live:
            number, old = self.live.pop(self.random.randrange(len(self.live)))
            self.fleet.release(f"c{number}", old.id)
            self.free[number, old.start : old.end] += 1

    def move(self) -> None:
        """Book what was booked last somewhat earlier or later, longer or shorter."""
        if self.live:
            number, old = self.live.pop()
            self.fleet.release(f"c{number}", old.id)
            self.free[number, old.start : old.end] += 1
            start = max(old.start + self.random.choice([-2, 0, 0, 1]), 0)
            self.book_at(
                number, start, max(old.end + self.random.choice([-2, 0, 1, 30]), start + 1)
            )

    def search(self) -> None:
        size = len(self.free)
        asked = list(range(size))
        if self.random.random() < 0.3:
            asked = sorted(self.random.sample(range(size), self.random.randint(2, size)))
        count = self.random.randint(1, len(asked))
        units, length_s = self.random.choice([1, 1, 1, 2]), self.random.choice([1, 2, 3, 4, 6])
        grain_s = self.random.choice([1, 1, 2, 3, 6])
        first = self.random.choice([0, 0, self.random.randrange(CROWD_S)])
        end = self.random.choice([CROWD_S, 2 * CROWD_S, first + self.random.randrange(CROWD_S)])
        open_ = np.zeros((len(asked), 0), np.bool_)
        if end >= length_s:
            slots = sliding_window_view(self.free[asked, :end], length_s, axis=1)
            open_ = np.asarray(slots.min(axis=2) >= units)
        starts = [
            start
            for start in range(first, open_.shape[1])
            if start % grain_s == 0 and open_[:, start].sum() >= count
        ]
        among = None if len(asked) == size else [f"c{number}" for number in asked]
        terms = (count, units, length_s, first, end)
        found = self.fleet.earliest_together(*terms, among=among, grain_s=grain_s)
        if starts:
            free = [
                number
                for number, is_open in zip(asked, open_[:, starts[0]], strict=True)
                if is_open
            ]
            assert found == (starts[0], tuple(f"c{number}" for number in free[:count]))
        else:
            assert found is None
        few = self.random.sample(range(len(asked)), min(len(asked), 3))
        common_starts = [
            start
            for start in range(first, open_.shape[1])
            if start % grain_s == 0 and open_[few, start].all()
        ]
        names_of_few = [f"c{asked[row]}" for row in few]
        slot = self.fleet.common_slot(names_of_few, *terms[1:], grain_s=grain_s)
        assert slot == (common_starts[0] if common_starts else None)
        best = self.fleet.best_starts(2 * CROWD_S, hilly, *terms, among=among, grain_s=grain_s)
        assert sorted(start for start, _ in best) == starts
        effort.steps["fleet searches"] += 1


@given(st.integers(0, 2**32))
@settings(max_examples=effort.examples(40))
def test_searches_between_many_bookings_and_releases_are_those_of_counting(seed: int) -> None:
    crowd = CrowdedFleet(seed)
    for _ in range(60):
        crowd.random.choice([crowd.book, crowd.release, crowd.search, crowd.search])()
        if crowd.random.random() < 0.2:
            crowd.fleet.check()
    crowd.fleet.check()


@given(
    st.integers(0, 2**32),
    st.sampled_from([5, 12, 1_000]),
    st.sampled_from([0, 0, 1_000]),
    st.sampled_from([1, 1_000]),
)
@settings(max_examples=effort.examples(40))
def test_changes_that_are_noted_together_end_as_if_made_one_by_one(
    seed: int, noted_max: int, few: int, carried_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GapIndex, "FEW", few)
        patch.setattr(fleet_index, "_CARRIED_MAX", carried_max)
        crowd = CrowdedFleet(seed)
        crowd.fleet = Fleet({name: crowd.fleet[name] for name in crowd.fleet}, bucket_gaps=5)
        for _ in range(4):
            for _ in range(3):
                crowd.search()
            for index in crowd.fleet._indexes.values():
                index._bucket_gaps = noted_max
            for _ in range(crowd.random.choice([3, 20, 60])):
                crowd.random.choice([crowd.book, crowd.release, crowd.move, crowd.move])()
            crowd.search()
            crowd.fleet.check()


@pytest.mark.parametrize("seed", range(3))
def test_the_stretch_around_a_booking_reaches_to_its_neighbours(seed: int) -> None:
    random = Random(seed)
    ends = np.cumsum([random.choice([0, 1, 7]) + 2 for _ in range(700)]).tolist()
    slots = [(end - 2, end) for end in ends]
    calendar = UnitCalendar()
    calendar.load(booking(number, *slot) for number, slot in enumerate(slots))
    before = [0, *ends]
    after = [start for start, _ in slots[1:]] + [limits.TIME_S_MAX]
    for number in random.sample(range(700), 700):
        around = (before[number], after[number])
        assert calendar.around(*slots[number]) == around
        calendar.release(number)
        assert calendar.around(*slots[number]) == around
        calendar.book(booking(number, *slots[number]))
    for number in range(700):
        calendar.release(number)
        assert calendar.around(*slots[number]) == (0, after[number])


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 9)), min_size=1, max_size=9),
        max_size=30,
    ),
    st.data(),
)
@settings(max_examples=effort.examples(100))
def test_a_column_is_a_sorted_dict(puts: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    column, truth = Column(np.zeros(0, np.int64), np.zeros(0, np.int64)), dict[int, int]()
    for changes in puts:
        column.put(*zip(*changes, strict=True))
        truth |= changes
        truth = {key: value for key, value in truth.items() if value != GONE}
        if data.draw(st.integers(0, 4)) == 0:
            column.join(column.split(data.draw(st.integers(0, 31))))
        if data.draw(st.integers(0, 2)) == 0:
            keys, values = column.read()
            assert list(zip(keys.tolist(), values.tolist(), strict=True)) == sorted(truth.items())


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 60)), max_size=120),
    st.integers(1, 30),
    st.integers(1, 40),
    st.integers(0, 300),
    st.integers(1, 300),
    grains,
)
@settings(max_examples=effort.examples(200))
def test_the_first_time_that_a_tally_reaches_a_count_and_its_bound_are_those_of_counting(
    gaps: list[tuple[int, int]], length_s: int, count: int, start: int, width_s: int, grain_s: int
) -> None:
    intervals = [Interval(opens, opens + size_s) for opens, size_s in gaps]
    tally = tally_of(intervals, length_s)
    stop = start + width_s
    counts = {
        at: sum(gap.start <= at and at + length_s <= gap.end for gap in intervals)
        for at in range(start, stop)
        if at % grain_s == 0
    }
    found, bound = tally.first(count, start, stop, grain_s)
    assert found == next((at for at, open_ in counts.items() if open_ >= count), None)
    if found is None:
        assert max(counts.values(), default=0) <= bound < count
    assert tally.at(np.array(list(counts), np.int64)).tolist() == list(counts.values())
