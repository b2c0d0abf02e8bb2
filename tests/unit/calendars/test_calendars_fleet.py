"""A fleet by example: what is named when more are free, borders, errors, and upkeep of its index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from kalends.calendars import Booking, Calendar, CapacityCalendar, Fleet, UnitCalendar
from kalends.calendars.fleet import STARTS_MAX, common
from kalends.calendars.fleet.fleet import INDEXES_MAX
from kalends.calendars.fleet.gap_changes import GapChanges
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.intervals import Interval


def booking(booking_id: int, start: int, end: int, units: int = 1) -> Booking:
    return Booking(
        id=booking_id,
        start=start,
        end=end,
        units=units,
        state="locked",
        holder="ada",
        reservation="r1",
        expires_ms=None,
    )


def unit(*slots: tuple[int, int]) -> UnitCalendar:
    calendar = UnitCalendar()
    calendar.load(booking(number, *slot) for number, slot in enumerate(slots, 1))
    return calendar


def fleet_of(calendars: Mapping[str, Calendar], bucket_gaps: int = 1) -> Fleet:
    """Of one gap a bucket: every search crosses borders."""
    return Fleet(calendars, bucket_gaps=bucket_gaps)


def flat(starts: Any) -> Any:
    return np.zeros(len(starts))


def test_of_more_calendars_than_wanted_the_first_in_the_order_of_the_fleet_are_named() -> None:
    fleet = fleet_of({"zoe": unit(), "amy": unit((0, 10)), "bob": unit(), "cat": unit()})
    assert fleet.earliest_together(2, 1, 5, 0, 100) == (0, ("zoe", "bob"))
    assert fleet.earliest_together(2, 1, 5, 0, 100, among=["cat", "bob", "amy"]) == (
        0,
        ("bob", "cat"),
    )
    assert fleet.earliest_together(3, 1, 5, 10, 100) == (10, ("zoe", "amy", "bob"))


def test_a_calendar_that_is_taken_out_and_added_again_is_the_last_in_order() -> None:
    fleet = fleet_of({"amy": unit(), "bob": unit()})
    fleet.earliest_together(1, 1, 5, 0, 100)
    fleet.add("amy", fleet.remove("amy"))
    assert list(fleet) == ["bob", "amy"]
    assert fleet.earliest_together(1, 1, 5, 0, 100) == (0, ("bob",))
    fleet.check()


def test_of_equal_weights_the_earlier_start_comes_first() -> None:
    fleet = fleet_of({"amy": unit((3, 5))})
    assert fleet.best_starts(4, flat, 1, 1, 2, 0, 9) == [(0, 0), (1, 0), (5, 0), (6, 0)]
    late = fleet.best_starts(2, lambda starts: starts * 1.0, 1, 1, 2, 0, 9)
    assert late == [(7, 7.0), (6, 6.0)]


@pytest.mark.parametrize("few", [0, 16])
def test_a_slot_may_begin_at_not_before_and_end_at_not_after_and_touch_bookings(few: int) -> None:
    class Either(Fleet):
        FEW = few

    fleet = Either({"amy": unit((0, 10), (20, 30)), "bob": unit((0, 10), (20, 30))}, bucket_gaps=1)
    assert fleet.earliest_together(2, 1, 10, 0, 20) == (10, ("amy", "bob"))
    assert fleet.earliest_together(2, 1, 10, 10, 20) == (10, ("amy", "bob"))
    assert fleet.earliest_together(2, 1, 10, 11, 39) is None
    assert fleet.earliest_together(2, 1, 10, 0, 19) is None
    assert fleet.common_slot(["amy", "bob"], 1, 10, 10, 20) == 10
    assert fleet.common_slot(["amy", "bob"], 1, 10, 0, 19) is None
    assert fleet.best_starts(9, flat, 2, 1, 10, 0, 20) == [(10, 0)]


@pytest.mark.parametrize("few", [0, 16])
def test_the_last_gap_is_open_until_the_end_of_time_and_no_longer(few: int) -> None:
    class Either(Fleet):
        FEW = few

    end = limits.TIME_S_MAX
    fleet = Either({"amy": unit((5, 9)), "bob": CapacityCalendar(3)}, bucket_gaps=1)
    assert fleet.earliest_together(2, 1, 100, 5, 10**40) == (9, ("amy", "bob"))
    assert fleet.earliest_together(2, 1, 100, end - 100, 10**40) == (end - 100, ("amy", "bob"))
    assert fleet.earliest_together(2, 1, 100, end - 99, 10**40) is None
    assert fleet.earliest_together(2, 1, end - 9, 0, end) == (9, ("amy", "bob"))
    assert fleet.earliest_together(2, 1, end - 8, 0, end) is None
    assert fleet.earliest_together(1, 1, end, -(10**40), end) == (0, ("bob",))
    assert fleet.earliest_together(1, 1, 10**40, 0, end) is None
    assert fleet.common_slot(["amy", "bob"], 1, 100, end - 100, 10**40) == end - 100
    assert fleet.common_slot(["amy", "bob"], 1, 100, end - 99, 10**40) is None
    fleet.check()


def test_a_grain_moves_a_start_to_its_next_multiple_that_still_fits() -> None:
    fleet = fleet_of({"amy": unit((0, 11), (25, 31)), "bob": unit()})
    assert fleet.earliest_together(2, 1, 5, 0, 100, grain_s=10) == (20, ("amy", "bob"))
    assert fleet.earliest_together(2, 1, 6, 0, 100, grain_s=10) == (40, ("amy", "bob"))
    assert fleet.common_slot(["amy", "bob"], 1, 6, 0, 100, grain_s=10) == 40
    assert fleet.best_starts(9, flat, 2, 1, 5, 0, 50, grain_s=10) == [(20, 0), (40, 0)]


def test_calendars_of_different_needs_have_a_common_slot_within_their_windows() -> None:
    wide = CapacityCalendar(4)
    wide.load([booking(1, 0, 50, 2), booking(2, 60, 70, 1)])
    fleet = fleet_of({"wide": wide, "narrow": unit((0, 20))})
    both = ["wide", "narrow", "wide"]
    assert fleet.common_slot(both, {"wide": 2, "narrow": 1}, 10, 0, 200) == 20
    assert fleet.common_slot(both, {"wide": 3, "narrow": 1}, 10, 0, 200) == 50
    assert fleet.common_slot(both, {"wide": 4, "narrow": 1}, 11, 0, 200) == 70
    assert fleet.common_slot(both, {"wide": 5, "narrow": 1}, 10, 0, 200) is None
    windows = {"narrow": [Interval(0, 25), Interval(44, 58), Interval(90, 120)]}
    assert fleet.common_slot(both, 2 - 1, 10, 0, 200, windows=windows) == 44
    assert fleet.common_slot(both, 1, 15, 0, 200, windows=windows) == 90


class Counting(UnitCalendar):
    """Counts the fits that it was asked for."""

    fits = 0

    def earliest_fit(self, *args: Any, **kwargs: Any) -> int | None:
        self.fits += 1
        return super().earliest_fit(*args, **kwargs)


def test_a_rare_common_slot_is_found_by_sweeping_after_leapfrog_has_given_up() -> None:
    turns = 1_000
    one, other = Counting(), Counting()
    one.load(booking(n, 20 * n, 20 * n + 10) for n in range(turns))
    other.load(booking(n, 20 * n + 9, 20 * n + 20) for n in range(turns))
    fleet = fleet_of({"one": one, "other": other})
    assert fleet.common_slot(["one", "other"], 1, 2, 0, 10**6) == 20 * turns
    assert one.fits + other.fits <= 2 * common.LEAPFROG_ROUNDS


def test_a_booking_that_fails_leaves_calendar_and_index_as_they_were() -> None:
    fleet = fleet_of({"amy": unit((10, 20)), "bob": CapacityCalendar(2)})
    fleet.earliest_together(2, 1, 5, 0, 100)
    fleet.earliest_together(1, 2, 5, 0, 100)
    failures: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: fleet.book("amy", booking(2, 19, 21)), Conflict),
        (lambda: fleet.book("amy", booking(1, 30, 31)), Conflict),
        (lambda: fleet.book("bob", booking(1, 30, 30)), InvalidInput),
        (lambda: fleet.book("bob", booking(1, 30, 31, 3)), InvalidInput),
        (lambda: fleet.book("bob", booking(1, 3.0, 31)), InvalidInput),  # type: ignore[arg-type] # wrong on purpose
        (lambda: fleet.book("bob", booking(1, 10**40, 10**40 + 1)), InvalidInput),
        (lambda: fleet.book("cat", booking(1, 30, 31)), NotFound),
        (lambda: fleet.load("amy", [booking(2, 30, 40), booking(3, 39, 41)]), Conflict),
        (lambda: fleet.release("amy", 7), NotFound),
        (lambda: fleet.release("cat", 1), NotFound),
        (lambda: fleet.change_state("amy", 1, "locked", 5), InvalidInput),
        (lambda: fleet.change_state("cat", 1, "held", 5), NotFound),
        (lambda: fleet.add("amy", unit()), Conflict),
        (lambda: fleet.add(7, unit()), InvalidInput),  # type: ignore[arg-type] # wrong on purpose
        (lambda: fleet.remove("cat"), NotFound),
        (lambda: fleet.expire(float("nan")), InvalidInput),  # type: ignore[arg-type] # wrong on purpose
    ]
    for call, error in failures:
        with pytest.raises(error):
            call()
        fleet.check()
        assert list(fleet) == ["amy", "bob"]
        assert [each.id for each in fleet["amy"].listing(0, 99)] == [1]
        assert len(fleet["bob"]) == 0


NONSENSE: list[Any] = [True, 1.0, float("nan"), float("inf"), "1", None, [1]]


@pytest.mark.parametrize("value", [*NONSENSE, 0, -1, -(10**40)])
@pytest.mark.parametrize("name", ["best", "count", "units", "length_s", "grain_s"])
def test_amounts_that_are_no_positive_whole_numbers_are_refused(name: str, value: Any) -> None:
    refuse(name, value)


@pytest.mark.parametrize("value", NONSENSE)
@pytest.mark.parametrize("name", ["not_before", "not_after"])
def test_times_that_are_no_whole_numbers_are_refused(name: str, value: Any) -> None:
    refuse(name, value)


@pytest.mark.parametrize(("name", "value"), [("count", 3), ("count", 10**40), ("grain_s", 10**40)])
def test_amounts_beyond_the_fleet_are_refused(name: str, value: int) -> None:
    refuse(name, value)


def refuse(name: str, value: Any) -> None:
    fleet = fleet_of({"amy": unit(), "bob": unit()})
    search: dict[str, Any] = {"length_s": 5, "not_before": 0, "not_after": 100, "grain_s": 1}
    search |= {"units": 1, name: value}
    searches: list[tuple[Callable[..., object], dict[str, Any]]] = [
        (fleet.earliest_together, {"count": 1}),
        (fleet.common_slot, {"names": ["amy"]}),
        (fleet.best_starts, {"count": 1, "best": 1, "weight": flat}),
    ]
    asked = 0
    for method, more in searches:
        if name in {"length_s", "not_before", "not_after", "grain_s", "units"} | more.keys():
            asked += 1
            with pytest.raises(InvalidInput):
                method(**(more | search))
    assert asked
    fleet.check()


def test_units_that_no_calendar_has_are_never_together() -> None:
    fleet = fleet_of({"amy": unit(), "bob": CapacityCalendar(2)})
    assert fleet.earliest_together(1, 10**40, 5, 0, 100) is None
    assert fleet.earliest_together(2, 2, 5, 0, 100) is None
    assert fleet.earliest_together(1, 2, 5, 0, 100) == (0, ("bob",))
    assert fleet.best_starts(1, flat, 1, 3, 5, 0, 100) == []
    assert fleet.common_slot(["amy", "bob"], 2, 5, 0, 100) is None


@pytest.mark.parametrize(
    ("among", "error"),
    [
        (["amy", "cat"], NotFound),
        ("amy", InvalidInput),
        ([["amy"]], InvalidInput),
        (7, InvalidInput),
        ([], InvalidInput),
    ],
)
def test_names_that_are_not_in_the_fleet_are_refused(among: Any, error: type[Exception]) -> None:
    fleet = fleet_of({"amy": unit(), "bob": unit()})
    with pytest.raises(error):
        fleet.earliest_together(1, 1, 5, 0, 100, among=among)
    with pytest.raises(error):
        fleet.best_starts(1, flat, 1, 1, 5, 0, 100, among=among)
    with pytest.raises(error):
        fleet.common_slot(among, 1, 5, 0, 100)


@pytest.mark.parametrize("windows", [{"bob": []}, [Interval(0, 9)], 7])
def test_windows_for_what_is_not_searched_are_refused(windows: Any) -> None:
    fleet = fleet_of({"amy": unit(), "bob": unit()})
    with pytest.raises(InvalidInput):
        fleet.common_slot(["amy"], 1, 5, 0, 100, windows=windows)
    with pytest.raises(InvalidInput):
        fleet.common_slot(["amy", "bob"], {"amy": 1}, 5, 0, 100)


def test_a_name_given_twice_counts_once() -> None:
    fleet = fleet_of({"amy": unit(), "bob": unit()})
    with pytest.raises(InvalidInput):
        fleet.earliest_together(2, 1, 5, 0, 100, among=["amy", "amy"])
    assert fleet.earliest_together(1, 1, 5, 0, 100, among=["bob", "bob"]) == (0, ("bob",))


def broken(starts: Any) -> Any:
    raise ZeroDivisionError("no")


def spoiling(starts: Any) -> Any:
    starts[:] = 0
    return starts


@pytest.mark.parametrize(
    "weight",
    [
        broken,
        lambda starts: 1.0,
        lambda starts: starts[1:],
        lambda starts: np.full(len(starts), np.nan),
        lambda starts: ["high"] * len(starts),
        lambda starts: None,
        None,
    ],
)
def test_a_weight_that_fails_or_is_no_number_for_each_start_is_refused(weight: Any) -> None:
    fleet = fleet_of({"amy": unit()})
    with pytest.raises(InvalidInput) as refused:
        fleet.best_starts(3, weight, 1, 1, 5, 0, 100)
    assert refused.value.where == "weight"
    fleet.check()


def test_a_weight_that_changes_its_argument_changes_no_answer() -> None:
    fleet = fleet_of({"amy": unit()})
    assert fleet.best_starts(2, spoiling, 1, 1, 5, 0, 100) == [(0, 0), (1, 0)]


def test_more_starts_than_can_be_weighed_are_refused_with_advice() -> None:
    fleet = fleet_of({"amy": unit()})
    with pytest.raises(InvalidInput, match="grain"):
        fleet.best_starts(1, flat, 1, 1, 5, 0, STARTS_MAX + 5)
    assert fleet.best_starts(1, flat, 1, 1, 5, 0, STARTS_MAX + 5, grain_s=2) == [(0, 0)]
    assert fleet.best_starts(1, flat, 1, 1, 5, 0, STARTS_MAX + 4) == [(0, 0)]


def names(count: int) -> list[str]:
    return [f"c{number:03}" for number in range(count)]


def test_an_index_is_kept_for_a_few_amounts_and_all_follow_changes() -> None:
    wide = {name: CapacityCalendar(2 * INDEXES_MAX) for name in names(3)}
    fleet = Fleet(wide, bucket_gaps=2)
    for units in range(1, 2 * INDEXES_MAX + 1):
        assert fleet.earliest_together(3, units, 5, 0, 100) == (0, tuple(wide))
    assert len(fleet._indexes) == INDEXES_MAX
    fleet.book("c001", booking(1, 0, 50, INDEXES_MAX))
    fleet.check()
    assert fleet.earliest_together(3, INDEXES_MAX, 5, 0, 100) == (0, tuple(wide))
    assert fleet.earliest_together(3, INDEXES_MAX + 1, 5, 0, 100) == (50, tuple(wide))


def test_a_fleet_from_which_most_calendars_are_taken_keeps_its_order_and_forgets_their_numbers() -> (
    None
):
    fleet = Fleet({name: unit((0, 5)) for name in names(200)}, bucket_gaps=8)
    assert fleet.earliest_together(200, 1, 5, 0, 100) is not None
    for name in names(195):
        fleet.remove(name)
        if name.endswith("0"):
            fleet.check()
    fleet.add("new", unit())
    assert fleet.earliest_together(6, 1, 5, 0, 100) == (5, (*names(200)[195:], "new"))
    assert len(fleet._names) < 200
    fleet.check()


def sizes(fleet: Fleet) -> Iterable[int]:
    return (column.size_max() for column in fleet._indexes[1]._opening)


def test_buckets_stay_even_while_bookings_come_at_the_end_and_go_at_the_beginning() -> None:
    fleet = Fleet({name: unit() for name in names(8)}, bucket_gaps=8)
    live: list[tuple[str, int]] = []
    for number in range(3_000):
        name = names(8)[number % 8]
        at = 10 * (number // 8)
        fleet.book(name, booking(number, at + 2, at + 8))
        live.append((name, number))
        if len(live) > 400:
            fleet.release(*live.pop(0))
        if number % 100 == 0:
            found = fleet.earliest_together(8, 1, 4, at - 100, at + 1_000)
            assert found is not None
            assert found.start <= at + 8
    fleet.check()
    assert max(sizes(fleet)) <= 6 * 8
    assert len(list(sizes(fleet))) <= 4 * (400 // 8)


def test_a_party_is_open_where_its_gaps_and_its_windows_overlap() -> None:
    calendar = unit((10, 20), (30, 40))
    windows = [Interval(0, 3), Interval(5, 7), Interval(8, 25), Interval(26, 33), Interval(38, 60)]
    party = common.Party(calendar, 1, windows)
    every = [(0, 3), (5, 7), (8, 10), (20, 25), (26, 30), (40, 60)]
    assert party.openings(0, 100) == every
    assert party.openings(6, 26) == every[1:4]
    assert common.Party(calendar, 1).openings(15, 35) == [(20, 30)]
    assert common.first_of([party], 1, 4, 0, 90, 1) == 20


def test_a_calendar_that_is_added_is_seen_where_a_search_found_too_few_before() -> None:
    fleet = fleet_of({name: unit((0, 5), (10, 90)) for name in names(3)} | {"free": unit()})
    assert fleet.earliest_together(2, 1, 6, 0, 95) is None
    fleet.add("new", unit())
    assert fleet.earliest_together(2, 1, 6, 0, 95) == (0, ("free", "new"))
    fleet.check()


def test_many_bookings_loaded_at_once_into_one_bucket_are_cut_into_many() -> None:
    fleet = fleet_of({"amy": unit()}, bucket_gaps=4)
    fleet.earliest_together(1, 1, 5, 0, 100)
    fleet.load("amy", [booking(number, 2 * number, 2 * number + 1) for number in range(1_000)])
    assert max(sizes(fleet)) <= 16
    fleet.check()


def test_changes_are_noted_until_a_search_and_no_more_of_them_than_a_bucket_has_gaps() -> None:
    fleet = fleet_of({name: unit() for name in names(4)}, bucket_gaps=50)
    fleet.earliest_together(1, 1, 5, 0, 100)
    log = fleet._indexes[1]._log
    longest = 0
    for number in range(400):
        fleet.book(names(4)[number % 4], booking(number, 10 * number, 10 * number + 9))
        longest = max(longest, len(log))
    assert longest == 49
    fleet.book("c000", booking(400, 9_000, 9_001))
    assert len(log) == 1
    assert fleet.earliest_together(4, 1, 5, 9_000, 9_100) == (9_001, tuple(names(4)))
    assert len(log) == 0
    fleet.check()


class Plain(CapacityCalendar):
    """A calendar of one unit that is no `UnitCalendar`."""

    def __init__(self) -> None:
        super().__init__(1)


def test_a_calendar_of_one_unit_of_another_make_is_followed_too() -> None:
    fleet = fleet_of({"amy": Plain(), "bob": unit()})
    assert fleet.earliest_together(2, 1, 5, 0, 100) == (0, ("amy", "bob"))
    fleet.book("amy", booking(1, 0, 10))
    with pytest.raises(Conflict):
        fleet.book("amy", booking(2, 9, 11))
    assert fleet.earliest_together(2, 1, 5, 0, 100) == (10, ("amy", "bob"))
    fleet.release("amy", 1)
    assert fleet.earliest_together(2, 1, 5, 0, 100) == (0, ("amy", "bob"))
    fleet.check()


def test_starts_are_weighed_with_what_was_noted_just_before() -> None:
    fleet = fleet_of({"amy": unit()}, bucket_gaps=50)
    assert fleet.best_starts(9, flat, 1, 1, 2, 0, 3) == [(0, 0), (1, 0)]
    fleet.book("amy", booking(1, 0, 1))
    assert fleet.best_starts(9, flat, 1, 1, 2, 0, 3) == [(1, 0)]


def test_what_was_noted_is_taken_out_of_the_log_once() -> None:
    log = GapChanges()
    log.cut(7, 0, 90, 10, 20, back=True)
    log.free(0, 90)
    cuts, freed = log.take()
    assert list(cuts.listed()) == [(7, [0, 90, 10, 20], True)]
    assert freed.tolist() == [[0, 90]]
    cuts, freed = log.take()
    assert len(log) == len(cuts.numbers) == len(freed) == 0
