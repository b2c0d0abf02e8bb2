"""Licences that are free beside reservations and jobs, compared with a count of every second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.backends.records import SystemJob, SystemReservation
from kalends.backends.slurm.licences import too_few

LAST = 20
TOTAL = 6

spans = st.builds(
    lambda start, length: (start, start + length), st.integers(0, LAST), st.integers(1, 8)
)
counts = st.integers(1, TOTAL + 1)


def reservation(name: str, span: tuple[int, int], count: int) -> SystemReservation:
    return SystemReservation(name, *span, (), ("ann",), licences=(("solver", count),))


def job(span: tuple[int, int], count: int, endless: bool, inside: str) -> SystemJob:
    end = None if endless else span[1]
    return SystemJob("1", "bob", (), span[0], end, inside, licences=(("solver", count),))


@given(
    spans, counts, st.lists(st.tuples(spans, counts), max_size=4),
    st.lists(st.builds(job, spans, counts, st.booleans(), st.sampled_from(["", "r0", "r9"])), max_size=4),
)  # fmt: skip
def test_a_wish_is_refused_just_when_at_some_second_there_are_too_few(
    span: tuple[int, int], count: int, others: list[tuple[tuple[int, int], int]], jobs: list[SystemJob]
) -> None:  # fmt: skip
    reserved = [reservation(f"r{number}", *each) for number, each in enumerate(others)]
    wish = reservation("wish", span, count)
    its_old_self = reservation("wish", (0, 99), TOTAL)
    inside = {each.name: each.licences[0][1] for each in reserved}
    short = False
    for at in range(*span):
        used = sum(each.licences[0][1] for each in reserved if each.start <= at < each.end)
        for each in jobs:
            if each.start <= at and (each.end is None or at < each.end):
                used += max(0, each.licences[0][1] - inside.get(each.reservation, 0))
        short = short or used + count > TOTAL
    assert bool(too_few(wish, {"solver": TOTAL}, [*reserved, its_old_self], jobs)) == short
