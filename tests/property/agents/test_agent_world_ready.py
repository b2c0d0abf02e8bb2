"""Ready-made agents against rankings written down plainly, on random calendars."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.agent_worlds import DAY_S, MONDAY, Taken, Visit, calendar, chosen, visit

from kalends.agents import ready
from kalends.agents.world.offers import Offer
from kalends.core.scripts import Ask

HOUR_S = 3_600
NAMES = ("here/a", "here/b", "here/c")
ZONES = ("UTC", "Europe/Zurich", "America/Los_Angeles", "Asia/Kathmandu")
SPRING = int(datetime(2027, 3, 25, tzinfo=UTC).timestamp())

Rank = Callable[[Visit, list[Offer]], Any]


@st.composite
def visits(draw: st.DrawFn) -> Visit:
    first = draw(st.sampled_from((MONDAY, SPRING)))
    calendars, asks = [], []
    for number, name in enumerate(NAMES[: draw(st.integers(1, 3))]):
        taken, at = [], first
        for gap, length, holder in draw(
            st.lists(
                st.tuples(st.integers(0, 20), st.integers(1, 20), st.sampled_from(("ada", "bob"))),
                max_size=8,
            )
        ):
            start = at + gap * 1_800
            at = start + length * 1_800
            taken.append(Taken(start, at, draw(st.integers(1, 2)), holder))
        price = draw(st.none() | st.integers(1, 3))
        calendars.append(
            calendar(
                name, taken, capacity=2, grain_s=1_800, zone=draw(st.sampled_from(ZONES)),
                attributes={} if price is None else {"price": price},
            )
        )  # fmt: skip
        asks.append(
            Ask(
                term=min(number, 1), resource=name, units=draw(st.integers(1, 2)),
                length_s=HOUR_S, offset_s=HOUR_S * min(number, 1),
            )
        )  # fmt: skip
    return visit(calendars, asks, first, first + 5 * DAY_S, 2 * HOUR_S)


def groups_of(visited: Visit) -> list[list[Offer]]:
    """The slots of every common start at which all terms are served; else of every one."""
    by_common: dict[int, list[Offer]] = {}
    for offer in visited.offers:
        by_common.setdefault(offer.common, []).append(offer)
    terms = {ask.term for ask in visited.asks}
    whole = [group for group in by_common.values() if {offer.term for offer in group} == terms]
    return whole or list(by_common.values())


def wall(time_s: int, zone: str) -> datetime:
    return datetime.fromtimestamp(time_s, ZoneInfo(zone))


def zone_of(visited: Visit, offer: Offer) -> str:
    return visited.shown[offer.resource].info.zone


def by_earliest(visited: Visit, group: list[Offer]) -> Any:
    return group[0].common


def by_latest(visited: Visit, group: list[Offer]) -> Any:
    return -group[0].common


def by_time_of_day(visited: Visit, group: list[Offer]) -> Any:
    local = wall(group[0].common, zone_of(visited, group[0]))
    minutes = local.hour * 60 + local.minute
    return min(abs(minutes + turn - 23 * 60) for turn in (-1_440, 0, 1_440)), group[0].common


def by_working_hours(visited: Visit, group: list[Offer]) -> Any:
    """Each quarter of an hour of each slot, looked at by itself."""
    outside = 0
    for offer in group:
        for time_s in range(offer.start, offer.end, 900):
            local = wall(time_s, zone_of(visited, offer))
            minutes = local.hour * 60 + local.minute
            working = 540 <= minutes < 720 or 780 <= minutes < 1_020
            outside += not (working and local.weekday() < 5)
    return outside, group[0].common


def by_price(visited: Visit, group: list[Offer]) -> Any:
    unknown = total = 0
    for term in {offer.term for offer in group}:
        costs = []
        for offer in group:
            if offer.term == term:
                price = visited.shown[offer.resource].info.attributes.get("price")
                costs.append((1, 0) if price is None else (0, price * offer.units))
        unknown += min(costs)[0]
        total += min(costs)[1]
    return unknown, total, group[0].common


def by_nearness(visited: Visit, group: list[Offer]) -> Any:
    """Steps of half an hour from each slot to the nearest time that is mine, in both directions."""
    distances = []
    for offer in group:
        here = visited.shown[offer.resource]
        own = [(slot.start, slot.end) for slot in here.taken if here.is_mine(slot)]
        joined = [(s, e) for s, e in _joined(own) if e <= offer.start or s >= offer.end]
        distances += [max(s - offer.end, offer.start - e) for s, e in joined]
    return min(distances, default=4_000 * DAY_S), group[0].common


def by_scraps(visited: Visit, group: list[Offer]) -> Any:
    scraps = idle = 0
    for offer in group:
        taken = _joined([(slot.start, slot.end) for slot in visited.shown[offer.resource].taken])
        ends = [end for _, end in taken if end <= offer.start] or [MONDAY]
        starts = [start for start, _ in taken if start >= offer.end] or [offer.end + DAY_S]
        scraps += sum(
            piece
            for piece in (offer.start - max(ends), min(starts) - offer.end)
            if piece < offer.end - offer.start
        )
        idle += offer.free - offer.units
    return scraps, idle, group[0].common


def _joined(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half hours that are in any of `intervals`, put together again."""
    halves = sorted({time_s for start, end in intervals for time_s in range(start, end, 1_800)})
    joined: list[tuple[int, int]] = []
    for time_s in halves:
        if joined and joined[-1][1] == time_s:
            joined[-1] = joined[-1][0], time_s + 1_800
        else:
            joined.append((time_s, time_s + 1_800))
    return joined


def check(name: str, arguments: dict[str, Any], rank: Rank, visited: Visit) -> None:
    found = asyncio.run(chosen(ready.source(name), visited, arguments))
    groups = sorted(groups_of(visited), key=lambda group: rank(visited, group))
    assert list(dict.fromkeys(offer.common for offer in found)) == [
        group[0].common for group in groups
    ]
    assert sorted(found) == sorted(offer for group in groups for offer in group)
    commons = [offer.common for offer in found]
    assert all(
        commons.index(common) + commons.count(common) > place
        for place, common in enumerate(commons)
    )


@given(visits())
@settings(max_examples=effort.examples(12))
def test_agents_rank_common_starts_as_a_plain_ranking_does(visited: Visit) -> None:
    check("earliest", {}, by_earliest, visited)
    check("latest", {}, by_latest, visited)
    check("spread", {}, by_earliest, visited)
    check("time-of-day", {"at": "23:00"}, by_time_of_day, visited)
    check("working-hours", {}, by_working_hours, visited)
    check("cheapest", {}, by_price, visited)
    check("beside-mine", {}, by_nearness, visited)
    check("tidy", {}, by_scraps, visited)


@given(visits(), st.booleans())
@settings(max_examples=effort.examples(12))
def test_spread_orders_the_resources_of_a_time_by_their_use(visited: Visit, mine: bool) -> None:
    found = asyncio.run(chosen(ready.source("spread"), visited, {"of": "mine"} if mine else {}))

    def used(offer: Offer) -> float:
        here = visited.shown[offer.resource]
        return sum(
            slot.units * (slot.end - slot.start) / here.info.capacity
            for slot in here.taken
            if here.is_mine(slot) or not mine
        )

    for common in {offer.common for offer in found}:
        loads = [used(offer) for offer in found if offer.common == common]
        assert loads == sorted(loads)


@given(visits())
@settings(max_examples=effort.examples(15))
def test_cheapest_orders_the_resources_of_a_time_by_their_cost(visited: Visit) -> None:
    found = asyncio.run(chosen(ready.source("cheapest"), visited))

    def cost(offer: Offer) -> float:
        price = visited.shown[offer.resource].info.attributes.get("price")
        return float("inf") if price is None else float(price) * offer.units

    for common in {offer.common for offer in found}:
        costs = [cost(offer) for offer in found if offer.common == common]
        assert costs == sorted(costs)
