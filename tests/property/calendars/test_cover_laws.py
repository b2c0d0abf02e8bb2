"""The fewest bookings that have what lacks, against a twin that tries every choice."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.calendars.covers import Cover, Lack, fewest

PLACES = 9


@st.composite
def lacks(draw: st.DrawFn) -> list[Lack]:
    """Bookings that have the same units all the time, and lacks that some of them make up for."""
    units = draw(st.lists(st.integers(1, 5), min_size=1, max_size=PLACES))
    found = []
    for _ in range(draw(st.integers(0, 6))):
        places = sorted(draw(st.sets(st.integers(0, len(units) - 1), min_size=1)))
        held_by = {place: units[place] for place in places}
        found.append(Lack(draw(st.integers(1, sum(held_by.values()))), held_by))
    return found


def enough(places: frozenset[int], wanted: list[Lack]) -> bool:
    return all(
        sum(has for place, has in lack.held_by.items() if place in places) >= lack.units
        for lack in wanted
    )


def slow(wanted: list[Lack]) -> int:
    return next(
        number
        for number in range(PLACES + 1)
        if any(enough(frozenset(some), wanted) for some in combinations(range(PLACES), number))
    )


@given(lacks())
@settings(max_examples=effort.examples(200), deadline=None)
def test_no_fewer_bookings_have_what_lacks_at_every_time(wanted: list[Lack]) -> None:
    found = fewest(wanted, tries_max=100_000)
    assert found.exact
    assert enough(found.places, wanted)
    assert len(found.places) == slow(wanted)
    effort.steps["lacks covered"] += len(wanted)


@given(lacks())
@settings(max_examples=effort.examples(100), deadline=None)
def test_beyond_the_limit_of_work_they_are_enough_and_none_could_be_left_out(
    wanted: list[Lack],
) -> None:
    found = fewest(wanted, tries_max=0)
    assert enough(found.places, wanted)
    assert all(not enough(found.places - {place}, wanted) for place in found.places)


def test_lacks_that_have_no_booking_in_common_are_covered_each_by_itself() -> None:
    many = [Lack(1, {2 * number: 1, 2 * number + 1: 1}) for number in range(500)]
    assert fewest(many, tries_max=10) == Cover(frozenset(range(0, 1000, 2)), True)
