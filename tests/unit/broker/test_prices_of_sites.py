"""A broker believes a price list only if it makes sense; what makes none is a refusal of that site."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kalends.broker.coordination.trust.answer_checks import SiteQuestion, complaint_about_view
from kalends.broker.planning.price_lists import NOTHING_PRICED
from kalends.contract import messages as m
from kalends.contract.messages import FreeSteps, PriceList, View, Want

WANT = Want("here/one", 1_000, 2_000, 1)
FREE = FreeSteps(resource="here/one", until=2_000, steps=((1_000, 2_000, 1),), terms="a")
ASKED = SiteQuestion("here", (WANT,), ())
GOOD = PriceList("a", ((900, 1_500, 10), (1_500, 2_000, 20)))


def view(*prices: PriceList, seen: FreeSteps = FREE) -> View:
    return View(query_id=1, epoch=1, views=(seen,), prices=prices)


def test_a_price_list_that_reaches_over_what_is_free_is_believed() -> None:
    assert complaint_about_view("here", view(GOOD), ASKED) == ""
    assert complaint_about_view("here", view(seen=replace(FREE, terms="")), ASKED) == ""


@pytest.mark.parametrize(
    "prices",
    [
        (),
        (GOOD, GOOD),
        (PriceList("a"),),
        (PriceList("b", GOOD.steps),),
        (PriceList("a", ((1_000, 1_400, 10), (1_500, 2_000, 20))),),
        (PriceList("a", ((1_000, 1_500, 10), (1_500, 1_500, 20), (1_500, 2_000, 1))),),
        (PriceList("a", ((1_100, 2_000, 10),)),),
        (PriceList("a", ((1_000, 1_900, 10),)),),
    ],
)
def test_a_price_list_without_sense_is_a_complaint(prices: tuple[PriceList, ...]) -> None:
    assert complaint_about_view("here", view(*prices), ASKED)


def test_lists_of_two_sites_with_the_same_name_are_kept_apart() -> None:
    there = replace(FREE, resource="there/one")
    of_there = m.View(
        query_id=2, epoch=1, views=(there,), prices=(PriceList("a", ((900, 2_000, 7),)),)
    )
    lists = NOTHING_PRICED.added([view(GOOD), of_there])
    assert lists.steps("here/one") == GOOD.steps
    assert lists.steps("there/one") == ((900, 2_000, 7),)
    assert lists.owners() == ["here", "there"]
    wants = [WANT, Want("there/one", 1_000, 1_100, 2), Want("there/free", 1_000, 1_100, 2)]
    assert lists.costs(wants) == {"here": 500 * 10 + 500 * 20, "there": 2 * 100 * 7}


def test_a_later_view_without_a_price_makes_a_resource_free_again() -> None:
    lists = NOTHING_PRICED.added([view(GOOD)]).added([view(seen=replace(FREE, terms=""))])
    assert lists.steps("here/one") == ()
    assert not lists
