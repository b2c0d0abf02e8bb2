"""What an owner writes about prices is what a slot costs; what can never be is refused, with its place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kalends.batch.terms import terms_of_all
from kalends.calendars import ResourceCalendar
from kalends.core.errors import InvalidInput, Refusal, RefusalCode
from kalends.core.money import CREDIT, CancelRule, cost_of
from kalends.core.principals import Principal
from kalends.resource_servers.setup.assembly import accounts_of, calendars_of
from kalends.serving.configuration import load_configuration

HOUR = 3_600
MONDAY = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
ANN = Principal("ann")

SITE = '[site]\nname = "sdsc"\nstore = "s"\n'
SCOPE = '[[site.resources]]\nname = "scope"\n'
NIGHT = """
[[site.resources.prices]]
name = "Night rate"
hours = [{ rrule = "FREQ=DAILY", start = "20:00", duration = "12h" }]
credits = 2.5
"""
ALL = '[[site.resources.prices]]\nname = "all"\ncredits = 10\n'
INDUSTRY = '[[site.resources.prices]]\nname = "industry"\nwho = "group:industry"\ncredits = 40\n'


def calendar_of(text: str) -> ResourceCalendar:
    site = load_configuration(SITE + text, Path()).site
    assert site is not None
    return calendars_of(site)["sdsc/scope"]


def cost(calendar: ResourceCalendar, start: int, end: int, who: Principal = ANN) -> int:
    found = calendar.priced(who, 1, start, end)
    assert not isinstance(found, Refusal)
    return cost_of(found)


def fault(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        calendar_of(text)
    return refused.value


def test_the_first_price_that_means_the_user_and_covers_the_second_decides() -> None:
    calendar = calendar_of(SCOPE + NIGHT + INDUSTRY + ALL)
    assert cost(calendar, MONDAY + 19 * HOUR, MONDAY + 21 * HOUR) == 12.5 * CREDIT
    industry = Principal("eve", ("industry",))
    assert cost(calendar, MONDAY + 19 * HOUR, MONDAY + 21 * HOUR, industry) == 42.5 * CREDIT
    assert calendar_of(SCOPE).priced(ANN, 1, MONDAY, MONDAY + HOUR) == ()


def test_prices_are_among_the_rules_that_a_user_reads() -> None:
    calendar = calendar_of(SCOPE + NIGHT + INDUSTRY + ALL)
    told = "\n".join(calendar.rules_for(ANN))
    assert "night-rate (everyone): 2.5 credits for a unit and an hour, daily 20:00-08:00" in told
    assert "industry" not in told
    assert "industry" not in "\n".join(calendar.info.rules)


def test_a_resource_has_its_own_prices_before_those_of_its_site() -> None:
    default = '[[site.defaults.prices]]\nname = "all"\ncredits = 3\n'
    assert cost(calendar_of(default + SCOPE), MONDAY, MONDAY + HOUR) == 3 * CREDIT
    assert cost(calendar_of(default + SCOPE + ALL), MONDAY, MONDAY + HOUR) == 10 * CREDIT


def test_a_claim_that_is_too_much_for_one_sum_is_refused() -> None:
    dear = '[[site.resources]]\nname = "scope"\ncapacity = 1000000\n' + ALL.replace("10", "10000")
    found = calendar_of(dear).priced(ANN, 1_000_000, MONDAY, MONDAY + 366 * 24 * HOUR)
    assert isinstance(found, Refusal)
    assert found.code == RefusalCode.TOO_MUCH


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (ALL.replace("10", "-1"), "prices[0].credits", "negative"),
        (ALL.replace("10", "0.0005"), "prices[0].credits", "three decimals"),
        (ALL.replace("10", "1e9"), "prices[0].credits", "10,000"),
        (ALL + ALL, "prices", "two prices are called all"),
        (ALL + INDUSTRY, "prices[1]", "all stands before it"),
        (ALL + NIGHT, "prices[1]", "all stands before it"),
        (NIGHT + NIGHT.replace("Night rate", "x").replace("12h", "3h"), "prices[1]", "night-rate"),
        (
            NIGHT.replace("FREQ=DAILY", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"),
            "prices[0].hours",
            "never applies",
        ),
        (ALL + 'class = "high"\n', "prices[0].class", "no jobs of the class"),
        ("[site.resources.cancel]\nfee = 101\n", "cancel.fee", "percentage"),
        ("[site.resources.cancel]\nfee = 50\n", "cancel.fee", "free until the start"),
    ],
)
def test_prices_that_can_never_be_are_refused_with_their_place(
    text: str, where: str, words: str
) -> None:
    error = fault(SCOPE + text)
    assert error.where == f"site.resources[0].{where}"
    assert words in f"{error.detail} {error.remedy}"
    assert error.remedy


def test_two_halves_of_a_day_leave_nothing_to_a_third_price() -> None:
    day = NIGHT.replace("Night rate", "day").replace("20:00", "08:00")
    assert "never applies" in fault(SCOPE + NIGHT + day + ALL).detail
    calendar_of(SCOPE + NIGHT + ALL)


def test_cancel_rules_are_the_resources_own_or_the_sites() -> None:
    rule = '[site.defaults.cancel]\nfree_until = "1d"\nfee = 50\n'
    assert calendar_of(rule + SCOPE).rules.cancel == CancelRule(24 * HOUR, 50, 0)
    own = "[site.resources.cancel]\nunused = 100\n"
    assert calendar_of(rule + SCOPE + own).rules.cancel == CancelRule(0, 0, 100)
    assert calendar_of(SCOPE).rules.cancel == CancelRule()


TARIFF = (
    '[[site.machines]]\nresource = "scope"\nreserved_credits = 20\n'
    "[site.machines.tariff]\nnormal = 10\nhigh = 30\n"
)
ACCOUNT = '[[site.accounts]]\nname = "everyone"\ndebt = 5\n'


def test_with_accounts_the_tariff_of_a_machine_is_its_last_prices_and_is_not_counted_beside() -> (
    None
):
    site = load_configuration(SITE + SCOPE + NIGHT + TARIFF + ACCOUNT, Path()).site
    assert site is not None
    prices = calendars_of(site)["sdsc/scope"].rules.prices
    noon, night = MONDAY + 12 * HOUR, MONDAY + 21 * HOUR

    def rate(start: int, priority: str) -> int:
        ((_, _, found),) = prices.steps(ANN, start, start + HOUR, priority)
        return found

    assert [rate(noon, each) for each in ("normal", "high", "low", "")] == [
        10_000, 30_000, 0, 20_000,
    ]  # fmt: skip
    assert rate(night, "high") == 2_500, "the owner's prices stand before it"
    assert [prices.dearest(ANN, each) for each in ("high", "low")] == [30_000, 2_500]
    (terms,) = terms_of_all(site).values()
    assert (terms.tariff, terms.reserved_credits) == ({}, 0)


def test_without_accounts_or_prices_the_tariff_is_counted_as_ever_and_nobody_is_refused() -> None:
    site = load_configuration(SITE + SCOPE + TARIFF, Path()).site
    assert site is not None
    assert not calendars_of(site)["sdsc/scope"].rules.prices
    (terms,) = terms_of_all(site).values()
    assert (terms.tariff, terms.reserved_credits) == ({"normal": 10, "high": 30}, 20)


def test_a_budget_of_all_users_together_is_refused_and_not_ignored() -> None:
    text = (
        SITE + SCOPE + ACCOUNT + 'parent = "project:all"\n[[site.accounts]]\nname = "project:all"\n'
    )
    site = load_configuration(text, Path()).site
    assert site is not None
    with pytest.raises(InvalidInput, match="cannot be parts of one budget") as refused:
        accounts_of(site)
    assert refused.value.where == "accounts[0].parent"
