"""What users saw of a failure is counted as they saw it, and no lost booking goes unnoticed."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kalends.contract.calls import AuditClaim, AuditRecord
from kalends.demo.failover.tally import (
    AuditFound,
    BookingSeen,
    Window,
    failure_seen,
    found_again,
    longest_gap_s,
)

NOTHING = AuditFound(frozenset(), frozenset(), frozenset())
UNITS = {"sdsc/sp2": 64, "caltech/beamline": 1}

moments = st.integers(0, 100).map(float)
windows = st.lists(moments, min_size=3, max_size=3, unique=True).map(lambda at: Window(*sorted(at)))


def booked(start: int, began_s: float, ended_s: float, calls: int = 1) -> BookingSeen:
    return BookingSeen(start, began_s, ended_s, "booked", calls, f"r{start}")


def claims(
    start: int, state: str = "locked", names: tuple[str, ...] = tuple(UNITS)
) -> list[AuditClaim]:
    return [
        AuditClaim(
            id=f"r{start}", att=1, resource=name, start=start, end=start + 60, units=UNITS[name],
            state=state,  # type: ignore[arg-type]  # one of them, by the tests
        )
        for name in names
    ]  # fmt: skip


def record(start: int, state: str = "commit") -> AuditRecord:
    return AuditRecord(id=f"r{start}", att=1, state=state)


@given(st.lists(moments).map(sorted), moments, moments)
def test_a_gap_is_the_longest_time_in_which_nobody_booked(
    booked_s: list[float], one_s: float, other_s: float
) -> None:
    since_s, until_s = sorted((one_s, other_s))
    before = [at_s for at_s in booked_s if at_s <= since_s]
    edges = [max(before, default=since_s), until_s, *(a for a in booked_s if since_s < a < until_s)]
    slowly = max(
        later - earlier
        for earlier in edges
        for later in edges
        if later >= earlier and not any(earlier < at_s < later for at_s in booked_s)
    )
    assert longest_gap_s(booked_s, since_s, until_s) == slowly


def test_a_gap_begins_with_the_last_booking_before_the_strike() -> None:
    assert longest_gap_s([1.0, 9.0, 15.0, 16.0], 10.0, 17.0) == 6.0


def test_a_gap_that_goes_on_lasts_until_now() -> None:
    assert longest_gap_s([1.0, 9.0], 10.0, 17.0) == 8.0
    assert longest_gap_s([], 10.0, 17.0) == 7.0


@given(st.lists(st.tuples(moments, moments).map(sorted)), windows)
def test_every_booking_is_counted_in_one_window(times: list[list[float]], window: Window) -> None:
    bookings = [booked(number, *at) for number, at in enumerate(times)]
    since_s, struck_s, until_s = window
    seen = [
        failure_seen("", bookings, Window(-1.0, since_s, struck_s), NOTHING),
        failure_seen("", bookings, Window(struck_s, until_s, math.inf), NOTHING),
    ]
    assert sum(each.before + each.after for each in seen) == len(bookings)


def test_refused_repeated_and_slow_bookings_are_those_after_the_strike() -> None:
    bookings = [
        BookingSeen(1, 0.0, 1.0, "refused", 3),
        booked(2, 1.0, 2.0),
        booked(3, 2.0, 8.0, calls=3),
        BookingSeen(4, 3.0, 4.0, "refused", 1),
        BookingSeen(5, 3.0, 9.0, "undecided", 2),
        booked(6, 9.0, 99.0),
    ]
    seen = failure_seen("it", bookings, Window(0.0, 2.5, 10.0), NOTHING)
    assert (seen.before, seen.after, seen.refused, seen.repeated) == (1, 1, 1, 3)
    assert (seen.gap_s, seen.slowest_s, seen.undecided, seen.lost) == (6.0, 6.0, 1, 0)


def test_what_an_audit_misses_is_counted_for_the_failure_at_which_it_was_booked() -> None:
    bookings = [booked(1, 0.0, 1.0), booked(2, 4.0, 5.0), booked(3, 4.0, 6.0)]
    found = AuditFound(frozenset({1, 2}), frozenset({3}), frozenset())
    first = failure_seen("", bookings, Window(0.0, 0.5, 3.0), found)
    second = failure_seen("", bookings, Window(3.0, 4.0, 7.0), found)
    assert [(seen.lost, seen.undecided) for seen in (first, second)] == [(1, 0), (1, 1)]


def test_a_booking_that_all_have_is_found_again() -> None:
    assert found_again([booked(1, 0.0, 1.0)], UNITS, claims(1), [record(1)]) == NOTHING


def test_a_booking_that_one_site_or_the_broker_has_lost_is_lost() -> None:
    one = [booked(1, 0.0, 1.0)]
    whole, at_sdsc = claims(1), claims(1, names=("sdsc/sp2",))
    assert found_again(one, UNITS, at_sdsc, [record(1)]).lost == {1}
    assert found_again(one, UNITS, whole, []).lost == {1}
    assert found_again(one, UNITS, whole, [record(1, "abort")]).lost == {1}
    assert found_again(one, UNITS, claims(1, "cancelled"), [record(1)]).lost == {1}


def test_a_promise_or_an_open_request_is_undecided() -> None:
    one = [booked(1, 0.0, 1.0)]
    assert found_again(one, UNITS, claims(1, "prepared"), [record(1)]).undecided == {1}
    assert found_again(one, UNITS, claims(1), [record(1, "open")]).undecided == {1}


def test_a_slot_that_is_locked_though_its_user_was_refused_is_stray() -> None:
    refused = [BookingSeen(1, 0.0, 1.0, "refused")]
    assert found_again(refused, UNITS, claims(1), [record(1)]).stray == {1}


def test_a_slot_whose_user_has_no_answer_may_be_locked() -> None:
    unanswered = [BookingSeen(1, 0.0, 1.0, "undecided")]
    assert found_again(unanswered, UNITS, claims(1), [record(1)]) == NOTHING
