"""Bids that were lost: which of the next are spared, and for how long that is believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.core.intervals import Moment
from kalends.federation.lost_bids import (
    BROKERS_MAX,
    FAR_S,
    IN_A_ROW,
    ONE_IN,
    TOLD_MS_MAX,
    LostBids,
)


def at(ms: int) -> Moment:
    return Moment(ms, 10**12 + ms)


def lost_in_a_row(times: int, behind_s: int = FAR_S, runs_s: int = 3_600) -> LostBids:
    bids = LostBids()
    for _ in range(times):
        bids.lost("npaci", behind_s, runs_s, at(0))
    return bids


def spared(bids: LostBids, ms: int = 0, broker: str = "npaci") -> list[bool]:
    return [bool(bids.why_spared(broker, at(ms))) for _ in range(2 * ONE_IN)]


def test_after_many_losses_in_a_row_one_bid_in_four_is_made() -> None:
    assert not any(spared(lost_in_a_row(IN_A_ROW - 1)))
    assert spared(lost_in_a_row(IN_A_ROW)) == [True, True, True, False] * 2


def test_a_bid_that_has_won_or_lost_by_little_ends_it_at_once() -> None:
    bids = lost_in_a_row(IN_A_ROW)
    bids.won("npaci")
    assert not any(spared(bids))
    bids = lost_in_a_row(IN_A_ROW)
    bids.lost("npaci", FAR_S - 1, 3_600, at(0))
    assert not any(spared(bids))


def test_a_loss_is_forgotten_when_the_job_that_has_won_is_over_and_soon_in_any_case() -> None:
    assert any(spared(lost_in_a_row(IN_A_ROW, runs_s=60), 59_999))
    assert not any(spared(lost_in_a_row(IN_A_ROW, runs_s=60), 60_000))
    assert any(spared(lost_in_a_row(IN_A_ROW), TOLD_MS_MAX - 1))
    assert not any(spared(lost_in_a_row(IN_A_ROW), TOLD_MS_MAX))


def test_what_one_broker_tells_changes_no_bid_for_another() -> None:
    assert not any(spared(lost_in_a_row(100), broker="another"))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2_000), st.integers(0, 10**6)), max_size=60
    )
)
def test_whatever_is_told_at_most_three_bids_of_four_are_spared(
    told: list[tuple[int, int, int]],
) -> None:
    bids = LostBids()
    for ms, (broker, behind_s, runs_s) in enumerate(told):
        bids.lost(str(broker), behind_s, runs_s, at(ms))
        bids.check()
        bids.why_spared("0", at(ms))
    assert not all(spared(bids, len(told)))


def test_brokers_without_number_are_forgotten_again() -> None:
    bids = LostBids()
    for number in range(BROKERS_MAX + 10):
        bids.lost(str(number), FAR_S, 60, at(0))
    bids.check()
