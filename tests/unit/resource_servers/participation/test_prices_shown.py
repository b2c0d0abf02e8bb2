"""What a site shows of its prices: what holds for the asker, once for all resources with the same prices."""

from __future__ import annotations

from itertools import pairwise

from msgspec.structs import replace
from tests.protocol_support import HERE, T0, Site

from kalends.calendars import PriceRule, Prices, Recurrence
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.principals import Principal
from kalends.resource_servers.neighbours.links import shortened

DAY = 86_400
ANN, EVE = Principal("ann"), Principal("eve", ("industry",))
NIGHT = Recurrence("FREQ=DAILY", "20:00", DAY // 2, "UTC")
PRICES = Prices(
    [
        PriceRule("night", "everyone", 2_500, (NIGHT,)),
        PriceRule("industry", "group:industry", 40_000),
        PriceRule("all", "everyone", 10_000),
    ]
)


def view_of(site: Site, who: Principal, days: int = 2) -> m.View:
    wants = tuple(
        m.Want(f"{HERE}/{name}", T0, T0 + days * DAY, 1) for name in ("one", "two", "pool")
    )
    answer = site.answer(m.Query(query_id=1, principal=who, wants=wants))
    assert isinstance(answer, m.View)
    return answer


def priced_site() -> Site:
    class Priced(Site):
        prices = PRICES

    return Priced()


def test_a_view_has_one_list_for_all_resources_with_the_same_prices() -> None:
    view = view_of(priced_site(), ANN)
    (shown,) = view.prices
    assert {each.terms for each in view.views} == {shown.terms}
    assert shown.steps[0][0] == T0
    assert shown.steps[-1][1] == T0 + 2 * DAY
    assert all(before[1] == after[0] for before, after in pairwise(shown.steps))
    assert {rate for _, _, rate in shown.steps} == {2_500, 10_000}


def test_each_asker_sees_the_own_prices_only() -> None:
    site = priced_site()
    mine, theirs = (view_of(site, who).prices[0] for who in (ANN, EVE))
    assert mine.terms != theirs.terms
    assert 40_000 not in {rate for _, _, rate in mine.steps}
    assert {rate for _, _, rate in theirs.steps} == {2_500, 40_000}


def test_a_site_without_prices_shows_none() -> None:
    view = view_of(Site(), ANN)
    assert view.prices == ()
    assert {each.terms for each in view.views} == {""}


def test_a_view_that_is_cut_has_prices_for_all_that_it_shows() -> None:
    view = view_of(priced_site(), ANN)
    many = tuple((T0 + n, T0 + n + 1, n % 2) for n in range(limits.VIEW_STEPS_MAX))
    lists = tuple(m.PriceList(f"terms-{n}", many) for n in range(60))
    free = tuple((T0 + 2 * n, T0 + 2 * n + 1, 1) for n in range(limits.VIEW_STEPS_MAX))
    parts = tuple(
        replace(view.views[0], terms=each.terms, steps=free, until=T0 + 2 * len(free))
        for each in lists
    )
    long = replace(view, views=parts, prices=lists)
    assert len(codec.encode_msgpack(long)) > limits.FRAME_BYTES_MAX
    short = shortened(long)
    assert len(codec.encode_msgpack(short)) <= limits.FRAME_BYTES_MAX
    for part, prices in zip(short.views, short.prices, strict=True):
        assert part.until <= prices.steps[-1][1]
        assert part.steps
