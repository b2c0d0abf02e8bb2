"""What a used share leaves of a week is shown as free, and nothing else, also across its borders."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kalends.core.intervals import Interval
from kalends.resource_servers.participation.claims.usage import share_steps

WEEK = Interval(100, 150)


@given(
    left=st.integers(0, 400),
    length=st.integers(1, 24),
    amounts=st.sets(st.integers(1, 12), min_size=1, max_size=4),
    start=st.integers(60, 160),
)
def test_a_booking_is_bounded_exactly_where_its_part_of_the_week_is_more_than_is_left(
    left: int, length: int, amounts: set[int], start: int
) -> None:
    steps = share_steps(WEEK, left, length, amounts)
    assert all(begin < end for begin, end, _ in steps)
    assert all(one[1] <= other[0] for one, other in pairwise(steps))
    end = start + length
    part = max(min(end, WEEK.end) - max(start, WEEK.start), 0)
    for units in amounts:
        within = all(
            units <= bound for begin, finish, bound in steps if begin < end and start < finish
        )
        assert within == (units * part <= left)
