"""Whatever happens with sites, and in whatever order: records stay whole, and no rest is without an end."""

from __future__ import annotations

from math import inf
from statistics import median_high

from hypothesis import given
from hypothesis import strategies as st
from tests import effort

from kalends.core.intervals import Moment
from kalends.federation.answer_delays import ANSWERS_KEPT, DELAY_MS_MAX
from kalends.federation.back_off import PROBE_MS, REST_MS_MAX, REST_MS_MIN, SHORTENED
from kalends.federation.experience import DELAY_MS_PRIOR, Experience
from kalends.federation.told_waits import TOLD_MS, WAIT_S_MAX

SITES = ("a", "b", "c")
EPOCH_MS = 1_800_000_000_000
ANYTHING = st.floats(allow_nan=True, allow_infinity=True)
JITTERS = st.floats(0, 1, exclude_max=True)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(SITES),
        st.sampled_from(("asked", "bid", "refused", "silent", "back")),
        st.integers(0, 4_000_000),
        ANYTHING,
        ANYTHING,
        JITTERS,
    ),
    max_size=60,
)


def bounded(value: float, most: float) -> float:
    return min(value, most) if value > 0 else 0.0


class SlowTwin:
    """All that ever happened at one site, gone through from the beginning whenever somebody asks."""

    def __init__(self) -> None:
        self.happened: list[tuple[str, int, float, float, float]] = []

    def note(self, what: str, now_ms: int, delay_ms: float, value: float, jitter: float) -> None:
        self.happened.append((what, now_ms, delay_ms, value, jitter))

    def until_ms(self) -> float:
        until_ms, failures, probed = 0.0, 0, False
        for what, now_ms, _, _, jitter in self.happened:
            if what in ("bid", "back"):
                until_ms, failures, probed = 0.0, 0, False
            elif what == "refused":
                until_ms, failures, probed = now_ms + REST_MS_MIN, 0, False
            elif what == "asked":
                if failures and now_ms >= until_ms:
                    until_ms, probed = now_ms + PROBE_MS, True
            elif now_ms >= until_ms or probed:
                failures += 1
                rest_ms = min(REST_MS_MIN * 2 ** (failures - 1), REST_MS_MAX)
                until_ms, probed = now_ms + int(rest_ms * (1 - SHORTENED * jitter)), False
        return until_ms

    def median_ms(self) -> float:
        delays_ms = [
            bounded(delay_ms, DELAY_MS_MAX)
            for what, _, delay_ms, _, _ in self.happened
            if what in ("bid", "refused")
        ]
        return median_high(delays_ms[-ANSWERS_KEPT:]) if delays_ms else DELAY_MS_PRIOR

    def told_s(self, now_ms: int) -> float | None:
        bids = [(at_ms, value) for what, at_ms, _, value, _ in self.happened if what == "bid"]
        if not bids or now_ms - bids[-1][0] >= TOLD_MS:
            return None
        return bounded(bids[-1][1], WAIT_S_MAX)


@given(STEPS)
def test_experience_is_what_a_record_of_everything_says(
    steps: list[tuple[str, str, int, float, float, float]],
) -> None:
    known, twins, now_ms = Experience(), {site: SlowTwin() for site in SITES}, 1
    for site, what, after_ms, delay_ms, value, jitter in steps:
        now_ms += after_ms
        now = Moment(now_ms, EPOCH_MS + now_ms)
        happen(known, site, what, delay_ms, value, jitter, now)
        twins[site].note(what, now_ms, delay_ms, value, jitter)
        known.check()
        for each, twin in twins.items():
            assert known.active_at_ms(each) == twin.until_ms()
            assert known.rests(each, now) == (now_ms < twin.until_ms())
            assert known.usual_answer_ms([each]) == twin.median_ms()
            expected_s = known.expected_wait_s(each, now)
            assert 0 <= expected_s <= WAIT_S_MAX * (1 + 1e-9)
            assert twin.told_s(now_ms) in (None, expected_s)
            effort.steps["experience of sites"] += 1


def happen(
    known: Experience,
    site: str,
    what: str,
    delay_ms: float,
    value: float,
    jitter: float,
    now: Moment,
) -> None:
    match what:
        case "asked":
            known.asked(site, now)
        case "bid":
            known.bid(site, delay_ms, value, now)
        case "refused":
            known.refused(site, delay_ms, now)
        case "silent":
            known.silent(site, jitter, now)
        case _:
            known.back(site)


@given(STEPS)
def test_whatever_has_happened_an_hour_later_every_site_may_be_asked(
    steps: list[tuple[str, str, int, float, float, float]],
) -> None:
    known, now_ms = Experience(), 1
    for site, what, after_ms, delay_ms, value, jitter in steps:
        now_ms += after_ms
        happen(known, site, what, delay_ms, value, jitter, Moment(now_ms, EPOCH_MS + now_ms))
        assert known.active_at_ms(site) <= now_ms + REST_MS_MAX
    later = Moment(now_ms + REST_MS_MAX, EPOCH_MS + now_ms + REST_MS_MAX)
    assert not any(known.rests(site, later) for site in SITES)


@given(st.lists(st.tuples(st.sampled_from(("silent", "refused")), JITTERS), max_size=20))
def test_one_probe_that_is_answered_ends_the_longest_rest(
    failures: list[tuple[str, float]],
) -> None:
    known, now_ms = Experience(), 1
    for what, jitter in failures:
        now_ms = max(now_ms, known.active_at_ms("a"))
        known.asked("a", Moment(now_ms, EPOCH_MS))
        happen(known, "a", what, 80.0, 0.0, jitter, Moment(now_ms, EPOCH_MS))
    now_ms = max(now_ms, known.active_at_ms("a"))
    known.asked("a", Moment(now_ms, EPOCH_MS))
    known.bid("a", 80.0, inf, Moment(now_ms, EPOCH_MS))
    assert not known.rests("a", Moment(now_ms, EPOCH_MS))
