"""The credit that a change gets for what it replaces, and bookings that are made whole or not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.protocol_support import resource
from tests.support import bookings

from kalends.calendars import Booking, ResourceCalendar
from kalends.resource_servers.participation.claims.claim_sets import Claim
from kalends.resource_servers.participation.claims.occupancy import pieces_beyond, place

claims = st.lists(
    st.builds(
        lambda name, start, length, units, common: Claim(
            0, name, start, start + length, units, common=common
        ),
        st.sampled_from(["here/one", "here/pool"]),
        st.integers(0, 8),
        st.integers(1, 5),
        st.integers(1, 3),
        st.sampled_from([0, 0, 7, 8]),
    ),
    max_size=6,
)


def units_at(of: list[Claim], name: str, at: int) -> int:
    return sum(c.units for c in of if c.resource == name and c.start <= at < c.end)


def largest_at(of: list[Claim], name: str, at: int) -> int:
    """The twin: each alternative by itself."""
    return max(units_at([c for c in of if c.common == common], name, at) for common in (0, 7, 8))


@given(claims, claims)
def test_the_pieces_are_what_the_largest_alternative_has_above_the_old_second_by_second(
    new: list[Claim], old: list[Claim]
) -> None:
    pieces = pieces_beyond(new, old)
    for name in ("here/one", "here/pool"):
        for at in range(14):
            above = max(0, largest_at(new, name, at) - units_at(old, name, at))
            assert above == sum(
                units for where, start, end, units in pieces if where == name and start <= at < end
            )
    assert pieces == sorted(pieces)
    assert all(start < end and units > 0 for _, start, end, units in pieces)


def test_a_reservation_moved_onto_itself_needs_nothing() -> None:
    old = [Claim(1, "here/one", 0, 60, 1)]
    assert pieces_beyond(old, old) == []
    assert pieces_beyond([Claim(2, "here/one", 10, 50, 1)], old) == []


def test_a_reservation_extended_to_both_sides_needs_two_pieces() -> None:
    old = [Claim(1, "here/one", 10, 20, 1)]
    new = [Claim(2, "here/one", 0, 30, 1)]
    assert pieces_beyond(new, old) == [("here/one", 0, 10, 1), ("here/one", 20, 30, 1)]


def test_more_units_need_only_the_difference() -> None:
    old = [Claim(1, "here/pool", 0, 60, 2)]
    assert pieces_beyond([Claim(2, "here/pool", 30, 90, 3)], old) == [
        ("here/pool", 30, 60, 1),
        ("here/pool", 60, 90, 3),
    ]


def booking(number: int, start: int, units: int = 1) -> Booking:
    return bookings.booking(number, start, start + 60, units=units)


def test_all_bookings_are_made_or_none() -> None:
    calendars: dict[str, ResourceCalendar] = {
        "here/one": resource("here/one"),
        "here/pool": resource("here/pool", 3),
    }
    names = ["here/pool", "here/one", "here/one"]
    clash = [booking(1, 0, 2), booking(2, 0), booking(3, 30)]
    assert place(calendars, clash, names) == "here/one"
    assert [len(calendar.calendar) for calendar in calendars.values()] == [0, 0]
    touching = [booking(1, 0, 2), booking(2, 0), booking(3, 60)]
    assert place(calendars, touching, names) == ""
    assert [len(calendar.calendar) for calendar in calendars.values()] == [2, 1]
    assert place(calendars, [], []) == ""
