"""Prices against an obvious twin that walks second by second, across changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalends.calendars import PriceRule, Prices, Recurrence
from kalends.core import money
from kalends.core.errors import InvalidInput
from kalends.core.money import CancelRule, Piece, cost_of
from kalends.core.principals import Principal

ZONE = ZoneInfo("Europe/Berlin")
HOUR = 3_600
CHANGE = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp())
"""When the clocks of Berlin are set back from 03:00 to 02:00."""

ANN = Principal("ann", ("staff",))
WHO = ("everyone", "user:ann", "user:bob", "group:staff", "group:industry")
CLASSES = ("", "high")


@st.composite
def rules(draw: st.DrawFn) -> tuple[PriceRule, ...]:
    return tuple(
        PriceRule(
            f"price-{number}",
            draw(st.sampled_from(WHO)),
            draw(st.integers(0, 9_999)),
            tuple(
                Recurrence("FREQ=DAILY", f"{hour:02}:{minute:02}", length, "Europe/Berlin")
                for hour, minute, length in draw(
                    st.lists(
                        st.tuples(
                            st.integers(0, 23), st.sampled_from((0, 30)), st.integers(1, 20 * HOUR)
                        ),
                        max_size=2,
                    )
                )
            ),
            draw(st.sampled_from(CLASSES)),
        )
        for number in range(draw(st.integers(0, 4)))
    )


def rate_at(every: tuple[PriceRule, ...], second: int, priority: str) -> int:
    """The rate by the definition: the first rule that means ann and whose window is open on the wall."""
    for rule in every:
        meant = rule.who in ("everyone", "user:ann", "group:staff")
        if meant and rule.priority in ("", priority) and is_open(rule, second):
            return rule.rate
    return 0


def is_open(rule: PriceRule, second: int) -> bool:
    if not rule.windows:
        return True
    # What the clock has shown so far: in the hour that is shown twice, the second time counts no further.
    shown = datetime.fromtimestamp(second, ZONE).replace(tzinfo=None, fold=0)
    if CHANGE <= second < CHANGE + HOUR:
        shown = datetime(2026, 10, 25, 3) - timedelta(microseconds=1)
    for window in rule.windows:
        for back in (0, 1):
            day = shown.date() - timedelta(days=back)
            opens = datetime.combine(day, window.start)
            if opens <= shown < opens + timedelta(seconds=window.duration_s):
                return True
    return False


@settings(max_examples=60, deadline=None)
@given(rules(), st.integers(-20 * HOUR, 20 * HOUR), st.integers(1, 5 * HOUR), st.integers(1, 9),
       st.sampled_from(CLASSES))  # fmt: skip
def test_a_slot_costs_the_sum_over_its_seconds(
    every: tuple[PriceRule, ...], offset: int, length: int, units: int, priority: str
) -> None:
    start, end = CHANGE + offset, CHANGE + offset + length
    pieces = Prices(every).pieces(ANN, units, start, end, priority)
    walked = [rate_at(every, second, priority) for second in range(start, end)]
    assert cost_of(pieces) == units * sum(walked)
    if pieces:
        told = [rate for unit_s, rate in pieces for _ in range(unit_s // units)]
        assert told == walked
        assert all(one.rate != other.rate for one, other in pairwise(pieces))


@settings(max_examples=60, deadline=None)
@given(
    rules(),
    st.integers(-20 * HOUR, 20 * HOUR),
    st.lists(st.integers(1, 4 * HOUR), min_size=2, max_size=2),
)
def test_two_slots_that_touch_cost_what_the_whole_costs(
    every: tuple[PriceRule, ...], offset: int, lengths: list[int]
) -> None:
    prices, start = Prices(every), CHANGE + offset
    middle, end = start + lengths[0], start + sum(lengths)
    whole = prices.pieces(ANN, 3, start, end)
    parts = [prices.pieces(ANN, 3, start, middle), prices.pieces(ANN, 3, middle, end)]
    assert cost_of(whole) == sum(map(cost_of, parts))
    cut = [
        money.between(whole, 3, start, start, middle),
        money.between(whole, 3, start, middle, end),
    ]
    assert cut == parts


pieces_of_two = st.lists(
    st.tuples(st.integers(1, HOUR).map(lambda s: 2 * s), st.integers(0, 9_999)).map(
        lambda each: Piece(*each)
    ),
    min_size=1,
    max_size=5,
)
percents = st.integers(0, 100)


@settings(max_examples=200)
@given(
    pieces_of_two, percents, percents, st.integers(0, 3 * HOUR), st.integers(-4 * HOUR, 6 * HOUR)
)
def test_a_refund_is_what_is_left_after_a_fee_that_is_rounded_down(
    pieces: list[Piece], fee: int, unused: int, free_until_s: int, at: int
) -> None:
    begins = 10 * HOUR
    refund = CancelRule(free_until_s, fee, unused).refund(pieces, 2, begins, begins, begins + at)
    by_second = [rate for unit_s, rate in pieces for _ in range(unit_s // 2)]
    cost = 2 * sum(by_second)
    if at <= -free_until_s:
        assert refund == cost
    elif at < 0:
        assert refund == cost - int(cost * fee / 100) or cost > 1 << 50
        assert 0 <= refund * 100 - cost * (100 - fee) < 100
    else:
        left = 2 * sum(by_second[at:])
        assert 0 <= refund * 100 - left * unused < 100
    assert 0 <= refund <= cost


@given(st.integers(-(10**12), 10**12))
def test_credits_are_shown_with_two_decimals_halves_up(parts: int) -> None:
    shown = money.format_credits(parts)
    hundredths = int(shown.replace(".", ""))
    assert 2 * parts - 36_000 < hundredths * 72_000 <= 2 * parts + 36_000
    assert shown != "-0.00"


@given(st.integers(0, money.RATE_MAX))
def test_a_price_is_read_as_it_is_shown(rate: int) -> None:
    assert money.rate_of(money.format_rate(rate), "credits") == rate


@pytest.mark.parametrize("text", ["-1", "2.5001", "", "1e3", "nan", "10000.001", "\u0661"])
def test_what_is_no_price_is_refused_by_its_place(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        money.rate_of(text, "here")
    assert refused.value.where == "here"
    assert refused.value.remedy


def test_a_night_in_which_clocks_go_back_has_one_hour_more_to_pay() -> None:
    hours = Recurrence("FREQ=DAILY", "20:00", 12 * HOUR, "Europe/Berlin")
    night = PriceRule("night", "everyone", 1_000, (hours,))
    start = int(datetime(2026, 10, 24, 20, tzinfo=ZONE).timestamp())
    end = int(datetime(2026, 10, 25, 8, tzinfo=ZONE).timestamp())
    assert cost_of(Prices([night]).pieces(ANN, 1, start, end)) == 13 * money.CREDIT


def test_too_many_pieces_and_too_much_money_are_refused_by_name() -> None:
    hourly = Recurrence("FREQ=DAILY;BYHOUR=0,2,4,6,8,10,12,14,16,18,20,22", "00:00", HOUR, "UTC")
    prices = Prices([PriceRule("odd", "everyone", 5, (hourly,))])
    assert len(prices.pieces(ANN, 1, 0, 511 * HOUR)) == 511
    with pytest.raises(InvalidInput, match="513 pieces"):
        prices.pieces(ANN, 1, 0, 513 * HOUR)
    dear = Prices([PriceRule("dear", "everyone", money.RATE_MAX)])
    with pytest.raises(InvalidInput, match="credits: at most"):
        dear.pieces(ANN, 10_000_000, 0, 366 * 24 * HOUR)


def test_prices_are_named_by_what_holds_for_the_asker() -> None:
    industry = PriceRule("industry", "group:industry", 40_000)
    everyone = PriceRule("all", "everyone", 10_000)
    assert Prices([industry, everyone]).terms(ANN) == Prices([everyone]).terms(ANN)
    assert Prices([industry]).terms(ANN) == ""
    assert Prices([industry, everyone]).terms(Principal("eve", ("industry",))) not in (
        "",
        Prices([everyone]).terms(ANN),
    )
