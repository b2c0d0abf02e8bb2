"""Prices on the command line: the words of a budget and of rates, and the columns of starts and calendars."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from kalends.cli.requests import request_texts
from kalends.cli.requests.find import candidate_lines
from kalends.cli.resources import _slot_rows
from kalends.client.inputs.request_builder import BySite, request_from
from kalends.contract.calls import CalendarView, Candidate, ClaimView
from kalends.core.errors import InvalidInput
from kalends.core.money import CREDIT
from kalends.core.requests import Request
from kalends.core.resources import ResourceInfo

UTC = ZoneInfo("UTC")
NOW = 1_800_000_000


def candidate(costs: dict[str, int]) -> Candidate:
    claim = ClaimView(resource="sdsc/sp2", start=NOW, end=NOW + 3_600, units=1)
    return Candidate(start=NOW, end=NOW + 3_600, claims=(claim,), costs=costs)


def asked(at_most: BySite = "", rates: BySite = "", prefer: str | list[str] = "") -> Request:
    return request_from(
        "sdsc/sp2", duration="1h", at_most=at_most, rates=rates, prefer=prefer, now_s=NOW, zone=UTC
    )


def test_the_cost_of_a_start_is_shown_by_site_and_never_added_up() -> None:
    one = candidate_lines([candidate({"sdsc": 40 * CREDIT}), candidate({})], UTC)
    assert one[0].split()[-2:] == ["COST", "ON"]
    assert one[1].split()[-2:] == ["40.00", "sdsc/sp2"]
    assert one[2].split()[-2:] == ["-", "sdsc/sp2"]
    (_, two) = candidate_lines([candidate({"sdsc": 40 * CREDIT, "caltech": CREDIT})], UTC)
    assert "1.00 caltech, 40.00 sdsc" in two
    assert "COST" not in candidate_lines([candidate({})], UTC)[0]


def test_a_calendar_shows_the_price_of_each_free_time() -> None:
    view = CalendarView(
        resource=ResourceInfo(name="sdsc/sp2"), start=NOW, end=NOW + 7_200, until=NOW + 7_200,
        free=((NOW, NOW + 7_200, 1),), slots=(),
        prices=((NOW, NOW + 3_600, 2_500), (NOW + 3_600, NOW + 7_200, 10_000)),
    )  # fmt: skip
    header, cheap, dear = _slot_rows(view, UTC)
    assert header.endswith("PRICE")
    assert (cheap.split()[-1], dear.split()[-1]) == ("2.5", "10")


@pytest.mark.parametrize("budget", [40, "40", {"": 40}])
def test_a_budget_is_a_number_a_text_or_a_mapping(budget: BySite) -> None:
    if budget == {"": 40}:
        with pytest.raises(InvalidInput):
            asked(budget)
        return
    assert asked(budget).at_most == {"": 40 * CREDIT}
    assert asked({"sdsc": 2.5}).at_most == {"sdsc": 9_000_000}
    assert asked(0).at_most == {"": 0}


def test_price_is_a_preference_beside_times() -> None:
    made = asked(prefer=["price", "mornings"], rates="sdsc=1")
    assert made.prefer_price
    assert made.preferences
    assert made.rates == {"sdsc": 1_000}
    assert not asked(prefer="mornings").prefer_price


def test_the_echo_says_what_may_be_spent() -> None:
    lines = request_texts.understood(
        asked({"sdsc": 40}, prefer="price"), UTC, exact=False, now_s=NOW
    )
    assert "prefer   the lowest price" in lines
    assert "at most  40.00 at sdsc" in lines
    assert "at most  40.00 credits" in request_texts.understood(
        asked("40"), UTC, exact=False, now_s=NOW
    )
