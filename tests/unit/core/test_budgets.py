"""Budgets and rates by site, as people write them and as requests carry them."""

from __future__ import annotations

import pytest

from kalends.core.errors import InvalidInput
from kalends.core.money import CREDIT, parse_budget, parse_rates
from kalends.core.requests import Alternative, Request, Term


def request(*resources: str, **fields: object) -> Request:
    terms = tuple(Term(resource=each) for each in resources)
    return Request(
        alternatives=(Alternative(terms=terms),),
        duration_s=3_600,
        not_before=1_772_409_600,
        **fields,  # type: ignore[arg-type]  # The fields under test.
    )


def test_a_budget_is_for_each_site_or_for_the_only_one() -> None:
    assert parse_budget("40") == {"": 40 * CREDIT}
    assert parse_budget("sdsc=40, caltech=2.5") == {"sdsc": 40 * CREDIT, "caltech": 9_000_000}
    assert parse_rates("sdsc=1,caltech=20") == {"sdsc": 1_000, "caltech": 20_000}


@pytest.mark.parametrize("text", ["", "sdsc", "=4", "sdsc=4,sdsc=5", "40,5", "sdsc=-4", "a=b=c"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_budget(text)
    assert refused.value.where == "at_most"
    assert refused.value.remedy


def test_one_budget_for_two_owners_is_refused_and_names_them() -> None:
    request("sdsc/sp2", "sdsc/onyx", at_most=parse_budget("40")).check()
    request("sdsc/sp2", "caltech/scope", at_most=parse_budget("sdsc=40")).check()
    with pytest.raises(InvalidInput, match="nothing at another") as refused:
        request("sdsc/sp2", "caltech/scope", at_most=parse_budget("40")).check()
    assert "caltech=40,sdsc=40" in refused.value.remedy


def test_a_rate_names_its_site() -> None:
    with pytest.raises(InvalidInput):
        request("sdsc/sp2", rates=parse_rates("2")).check()
