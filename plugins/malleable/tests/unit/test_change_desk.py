"""Demands for other sizes: the latest counts, each is answered, and again when it is repeated."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends_malleable.change_desk import ChangeDesk
from kalends_malleable.control_lines import SizeDemand, SizeReply

SIZES = [1, 2, 4]


def test_a_demand_waits_for_the_next_sop() -> None:
    desk = ChangeDesk()
    assert desk.next(SIZES) is None
    assert desk.hear(SizeDemand(1, 2, (0, 1))) == []
    assert desk.next(SIZES) == SizeDemand(1, 2, (0, 1))
    assert desk.next(SIZES) is None


def test_a_demand_that_is_repeated_is_answered_again_and_not_carried_out_again() -> None:
    desk = ChangeDesk()
    desk.hear(SizeDemand(1, 2))
    desk.hear(SizeDemand(1, 2))
    desk.next(SIZES)
    done = desk.done(SizeReply(1, 2, 0.5))
    assert desk.hear(SizeDemand(1, 2)) == [done]
    assert desk.next(SIZES) is None


def test_a_later_demand_takes_the_place_of_one_that_waits() -> None:
    desk = ChangeDesk()
    desk.hear(SizeDemand(1, 2))
    [refused] = desk.hear(SizeDemand(2, 4))
    assert (refused.number, refused.why) == (1, "change 2 has replaced it")
    [refused] = desk.hear(SizeDemand(1, 2))
    assert refused.number == 1
    assert desk.next(SIZES) == SizeDemand(2, 4)


def test_a_size_that_is_not_eligible_is_refused_with_those_that_are() -> None:
    desk = ChangeDesk()
    desk.hear(SizeDemand(7, 3))
    refused = desk.next(SIZES)
    assert refused == SizeReply(
        7, 0, why="3 ranks are not eligible here: this stage runs on 1, 2 or 4 ranks"
    )
    assert desk.hear(SizeDemand(7, 3)) == [refused]


def test_a_set_of_ranks_knows_what_the_one_before_it_has_answered() -> None:
    done = SizeReply(5, 4, 0.1)
    desk = ChangeDesk(last=done)
    assert desk.hear(SizeDemand(5, 4)) == [done]
    assert desk.hear(SizeDemand(4, 1))[0].why == "change 5 has replaced it"


demands = st.builds(SizeDemand, st.integers(1, 5), st.integers(1, 5))


@given(st.lists(demands | st.none(), max_size=30))
def test_every_number_is_carried_out_once_at_most_and_numbers_rise(
    events: list[SizeDemand | None],
) -> None:
    desk, done = ChangeDesk(), []
    for event in events:
        if event is not None:
            assert all(reply.number <= 5 for reply in desk.hear(event))
        elif isinstance(demand := desk.next(SIZES), SizeDemand):
            assert demand.to in SIZES
            done.append(demand.number)
            desk.done(SizeReply(demand.number, demand.to))
    assert done == sorted(set(done))
