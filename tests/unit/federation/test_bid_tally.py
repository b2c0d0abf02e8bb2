"""What is counted of sites that bid: each job until its foreseen end, and who is asked most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.federation.bid_tally import REASONS_MAX, BidTally, SiteCounts

placements = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=30)


@given(placements, st.integers(0, 120))
def test_a_job_is_there_until_its_site_says_that_it_has_ended_or_the_end_that_was_foreseen(
    placed: list[tuple[int, int, bool]], later_s: int
) -> None:
    counts, now_s, ends_s = SiteCounts(), 0, []
    for number, (pause_s, length_s, over) in enumerate(placed):
        now_s += pause_s
        counts.note_placed(f"job-{number}", now_s + length_s, now_s)
        if over:
            counts.note_over(f"job-{number}")
        else:
            ends_s.append(now_s + length_s)
        assert counts.there(now_s) == sum(end_s > now_s for end_s in ends_s)
    now_s += later_s
    left_s = [end_s for end_s in ends_s if end_s > now_s]
    assert counts.there(now_s) == len(left_s)
    assert counts.next_end_s(now_s) == min(left_s, default=0)
    assert counts.placed == len(placed)


def test_a_site_that_invents_reasons_does_not_make_a_broker_remember_them_all() -> None:
    counts = SiteCounts()
    for number in range(3 * REASONS_MAX):
        counts.note_refusals({f"reason-{number}"})
    assert len(counts.refused) == REASONS_MAX


@given(st.lists(st.integers(0, 1_000), max_size=60))
def test_the_busiest_tenth_gets_a_tenth_at_least_and_all_at_most(asked: list[int]) -> None:
    tally = BidTally()
    for number, times in enumerate(asked):
        tally.of(f"s{number}").asked = times
    share = tally.busiest_share()
    ever = [times for times in asked if times]
    assert (share == 0) == (not ever)
    if len(ever) >= 10:
        assert 0.05 < share <= 1
    if len(set(ever)) == 1 and len(ever) % 10 == 0:
        assert abs(share - 0.1) < 1e-9
