"""What a broker learns of sites: how soon they answer, how long jobs wait there, when to leave them alone."""

from __future__ import annotations

from math import inf, nan

import pytest

from kalends.core.intervals import Moment
from kalends.federation import answer_delays, back_off, experience, told_waits
from kalends.federation.experience import Experience

DAY_S = 86_400


@pytest.fixture
def known() -> Experience:
    return Experience()


def at(seconds: float) -> Moment:
    """So long after a midnight (UTC)."""
    return Moment(int(1_000 * seconds), 20_000 * DAY_S * 1_000 + int(1_000 * seconds))


def silences(known: Experience, count: int, jitter: float = 0.0) -> list[float]:
    """The rests in seconds after failures in a row, each found by a probe."""
    now_s, rests_s = 0.0, []
    for _ in range(count):
        known.asked("far", at(now_s))
        known.silent("far", jitter, at(now_s))
        until_s = known.active_at_ms("far") / 1_000
        assert known.rests("far", at(until_s - 0.001))
        assert not known.rests("far", at(until_s))
        rests_s.append(until_s - now_s)
        now_s = until_s
    return rests_s


def test_a_silent_site_rests_twice_as_long_each_time_and_an_hour_at_most(known: Experience) -> None:
    rests_s = silences(known, 10)
    known.check()
    assert rests_s == [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]


def test_rests_differ_so_that_brokers_do_not_ask_together() -> None:
    assert silences(Experience(), 2, jitter=0.5) == [22.5, 45]


def test_one_probe_that_is_answered_by_a_bid_ends_all_rests(known: Experience) -> None:
    silences(known, 5)
    now_s = known.active_at_ms("far") / 1_000
    known.asked("far", at(now_s))
    assert known.rests("far", at(now_s + 0.1)), "nobody else asks while the probe is under way"
    known.bid("far", 90, 0, at(now_s + 0.2))
    assert not known.rests("far", at(now_s + 0.2))
    assert silences(known, 1)[-1] == 30


def test_a_probe_of_which_nothing_is_heard_is_followed_by_another(known: Experience) -> None:
    silences(known, 1)
    known.asked("far", at(30))
    assert not known.rests("far", at(30 + back_off.PROBE_MS / 1_000))


def test_a_burst_of_questions_that_fail_together_is_one_failure(known: Experience) -> None:
    for _ in range(20):
        known.asked("far", at(0))
    for n in range(20):
        known.silent("far", 0, at(1 + n / 10))
    assert known.active_at_ms("far") == 31_000


def test_a_site_that_takes_nothing_is_asked_again_every_half_minute_however_long_it_lasts() -> None:
    known = Experience()
    for now_s in (0, 30, 60, 3_600):
        known.asked("full", at(now_s))
        known.refused("full", 80, at(now_s))
        assert known.active_at_ms("full") == 1_000 * (now_s + 30)


def test_a_site_that_comes_back_by_itself_rests_no_more(known: Experience) -> None:
    silences(known, 6)
    known.back("far")
    assert not known.rests("far", at(0))
    known.back("unknown")
    assert not known.rests("unknown", at(0))


def test_a_delay_is_the_median_of_the_last_answers_whatever_a_few_of_them_do() -> None:
    known = Experience()
    for _ in range(8):
        known.bid("near", 20, 0, at(0))
    for _ in range(7):
        known.bid("near", 50_000, 0, at(0))
    assert known.usual_answer_ms(["near"]) == 20
    known.bid("near", 50_000, 0, at(0))
    assert known.usual_answer_ms(["near"]) == 50_000, "it has become slow"
    known.bid("near", nan, 0, at(0))
    known.bid("near", inf, 0, at(0))
    known.check()


def test_of_several_sites_the_one_in_the_middle_counts_and_unknown_ones_are_guessed() -> None:
    known = Experience()
    for site, delay_ms in (("a", 10), ("b", 20), ("c", 900)):
        known.bid(site, delay_ms, 0, at(0))
    assert known.usual_answer_ms(["c", "a", "b"]) == 20
    assert known.usual_answer_ms(["c"]) == 900
    assert known.usual_answer_ms(["new"]) == experience.DELAY_MS_PRIOR
    assert known.usual_answer_ms([]) == 0


def test_what_was_told_a_moment_ago_is_believed_and_then_what_is_usual(known: Experience) -> None:
    for day in range(20):
        known.bid("quiet", 80, 10, at(day * DAY_S))
        known.bid("busy", 80, 4_000, at(day * DAY_S))
    now_s = 19 * DAY_S + 60
    known.bid("quiet", 80, 9_999, at(now_s))
    assert known.expected_wait_s("quiet", at(now_s + 599)) == 9_999
    then = at(now_s + 600)
    quiet_s, busy_s = (known.expected_wait_s(site, then) for site in ("quiet", "busy"))
    assert quiet_s < 200 < busy_s
    assert quiet_s < known.expected_wait_s("new", then) < busy_s


def test_busy_hours_of_the_day_are_learned(known: Experience) -> None:
    for day in range(10):
        known.bid("lab", 80, 5, at(day * DAY_S + 3 * 3_600))
        known.bid("lab", 80, 5_000, at(day * DAY_S + 15 * 3_600))
    night_s, noon_s = (
        known.expected_wait_s("lab", at(12 * DAY_S + hour * 3_600)) for hour in (3, 15)
    )
    assert night_s < 30 < 1_000 < noon_s
    assert night_s < known.expected_wait_s("lab", at(12 * DAY_S + 9 * 3_600)) < noon_s


def test_waits_without_an_end_or_without_sense_are_bounded(known: Experience) -> None:
    for told, noted_s in ((inf, told_waits.WAIT_S_MAX), (-1, 0), (nan, 0)):
        known.bid("odd", 80, told, at(0))
        assert known.expected_wait_s("odd", at(0)) == noted_s
    known.check()


def test_the_site_that_was_noted_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experience, "SITES_MAX", 3)
    known = Experience()
    for site in ("a", "b", "c", "a", "d"):
        known.silent(site, 0, at(0))
        known.check()
    assert [site for site in "abcd" if known.rests(site, at(1))] == ["a", "c", "d"]


def test_a_median_is_one_of_the_values() -> None:
    assert answer_delays.median_of([3.0, 1.0, 2.0]) == 2.0
    assert answer_delays.median_of([4.0, 1.0]) == 4.0


def test_a_site_that_says_until_when_it_is_closed_rests_until_then_and_an_hour_at_most(
    known: Experience,
) -> None:
    for closed_s, rests_s in ((600, 600), (7_200, 3_600), (-5, 30), (0, 30)):
        known.refused("closed", 80, at(0), closed_s)
        assert known.active_at_ms("closed") == 1_000 * rests_s
