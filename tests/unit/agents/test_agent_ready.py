"""Ready-made agents on real calendars: each keeps what its docstring promises."""

from __future__ import annotations

import ast
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.agent_worlds import DAY_S, MONDAY, Taken, at, calendar, chosen, run, visit

from kalends.agents import ready
from kalends.agents.language.checker import parsed
from kalends.agents.runs import ScriptRun
from kalends.agents.sandbox.language_only import LanguageOnly
from kalends.agents.world.views import Asker, recall_arguments
from kalends.calendars import OwnerRules, PriceRule, Prices, Recurrence
from kalends.core.errors import NotFound
from kalends.core.scripts import Ask, HeldChoice

HOUR_S = 3_600
SCOPE = "here/scope"
ONE_HOUR = Ask(term=0, resource=SCOPE, length_s=HOUR_S)


def in_zurich(time_s: int) -> str:
    return f"{datetime.fromtimestamp(time_s, ZoneInfo('Europe/Zurich')):%H:%M}"


def commons(offers: list[Any]) -> list[int]:
    return list(dict.fromkeys(offer.common for offer in offers))


@pytest.mark.parametrize("name", ready.names())
def test_every_one_keeps_the_rules_of_the_language(name: str) -> None:
    assert parsed(ready.source(name))[1] == ()


@pytest.mark.parametrize("name", ready.names())
async def test_every_one_defines_choose_and_recall(name: str) -> None:
    checked = await LanguageOnly().check(ready.source(name), "ada")
    assert checked.functions == ("choose", "recall")


@pytest.mark.parametrize("name", ready.names())
def test_every_one_says_in_a_line_what_it_does_and_then_what_it_takes(name: str) -> None:
    summary = ready.summary(name)
    assert summary.startswith("Hold ")
    assert summary.endswith(".")
    docstring = ast.get_docstring(ast.parse(ready.source(name))) or ""
    assert "rguments" in docstring


def test_the_ready_made_ones_are_these() -> None:
    assert ready.names() == (
        "beside-mine", "cheapest", "earliest", "latest", "spread", "tidy", "time-of-day",
        "working-hours",
    )  # fmt: skip


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(NotFound, match="earliest, latest"):
        ready.source("../earliest")


@pytest.mark.parametrize("name", ready.names())
async def test_every_one_chooses_nothing_where_nothing_is_free(name: str) -> None:
    full = calendar(SCOPE, [Taken(MONDAY - HOUR_S, MONDAY + 9 * DAY_S)])
    assert await chosen(ready.source(name), visit([full], [ONE_HOUR])) == []


@pytest.mark.parametrize("name", ready.names())
async def test_every_one_ranks_each_slot_of_the_largest_visit_to_a_busy_calendar(name: str) -> None:
    busy = [
        Taken(start, start + 600, holder="ada")
        for start in range(MONDAY, MONDAY + 7 * DAY_S, 7_200)
    ]
    seen = visit([calendar(SCOPE, busy)], [ONE_HOUR], step_s=300)
    assert len(seen.offers) > 900
    assert len(await chosen(ready.source(name), seen)) == len(seen.offers)


@pytest.mark.parametrize("name", ready.names())
async def test_every_one_holds_all_terms_of_a_common_start_together(name: str) -> None:
    scope = calendar(SCOPE, [Taken(MONDAY, MONDAY + 5 * HOUR_S)])
    printer = calendar("here/printer", [Taken(MONDAY + 8 * HOUR_S, MONDAY + 10 * HOUR_S)])
    asks = [ONE_HOUR, Ask(term=1, resource="here/printer", length_s=HOUR_S, offset_s=2 * HOUR_S)]
    seen = visit([scope, printer], asks, last=MONDAY + 30 * HOUR_S)
    found = await chosen(ready.source(name), seen)
    assert found
    assert len(found) < len(seen.offers)
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert {first.term, second.term} == {0, 1}
        assert first.common == second.common


async def test_earliest_and_latest_are_each_others_reverse() -> None:
    seen = visit([calendar(SCOPE, [Taken(MONDAY, MONDAY + HOUR_S)])], [ONE_HOUR])
    first = commons(await chosen(ready.source("earliest"), seen))
    last = commons(await chosen(ready.source("latest"), seen))
    assert first[0] == MONDAY + HOUR_S
    assert first == sorted(first) == last[::-1]


async def test_time_of_day_comes_nearest_on_the_clocks_of_the_resource() -> None:
    seen = visit([calendar(SCOPE, zone="America/Los_Angeles")], [ONE_HOUR])
    found = await chosen(ready.source("time-of-day"), seen, {"at": "09:30"})
    assert commons(found)[0] == at("2027-01-11 17:30")
    assert commons(found)[7] in (at("2027-01-11 17:00"), at("2027-01-11 18:00"))


async def test_time_of_day_takes_the_zone_that_the_user_names() -> None:
    seen = visit([calendar(SCOPE, zone="America/Los_Angeles")], [ONE_HOUR])
    arguments = {"at": "09:30", "zone": "Europe/Zurich"}
    found = await chosen(ready.source("time-of-day"), seen, arguments)
    assert commons(found)[0] == at("2027-01-11 08:30")


async def test_time_of_day_is_near_across_midnight() -> None:
    seen = visit([calendar(SCOPE)], [ONE_HOUR], first=MONDAY + HOUR_S)
    found = commons(await chosen(ready.source("time-of-day"), seen, {"at": "00:00"}))
    assert found[:7] == [MONDAY + day * DAY_S for day in range(1, 8)]
    assert found[7:9] == [MONDAY + DAY_S - 1_800, MONDAY + DAY_S + 1_800]


async def test_time_of_day_follows_the_clocks_over_their_change_in_spring() -> None:
    first = at("2027-03-27 00:00")
    seen = visit([calendar(SCOPE, zone="Europe/Zurich")], [ONE_HOUR], first, first + 3 * DAY_S)
    found = await chosen(ready.source("time-of-day"), seen, {"at": "10:00"})
    assert commons(found)[:3] == [
        at("2027-03-27 09:00"), at("2027-03-28 08:00"), at("2027-03-29 08:00"),
    ]  # fmt: skip


async def test_a_zone_that_there_is_not_is_an_error_of_whoever_named_it() -> None:
    seen = visit([calendar(SCOPE)], [ONE_HOUR])
    outcome = await run(seen.job(ready.source("time-of-day"), {"zone": "Europe/Atlantis"}))
    assert outcome.code == "agent-error"
    assert "Europe/Atlantis" in outcome.detail


async def test_working_hours_come_before_lunch_nights_and_weekends() -> None:
    seen = visit(
        [calendar(SCOPE, zone="Europe/Zurich")], [ONE_HOUR], last=MONDAY + 7 * DAY_S - HOUR_S
    )
    found = commons(await chosen(ready.source("working-hours"), seen))
    # Each of five days has five starts on the half hour from 9 to 12, and seven from 13 to 17.
    working, rest = found[: 5 * 12], found[5 * 12 :]
    hours = {in_zurich(start) for start in working}
    assert hours == {
        "09:00", "09:30", "10:00", "10:30", "11:00", "13:00", "13:30", "14:00", "14:30", "15:00",
        "15:30", "16:00",
    }  # fmt: skip
    assert max(working) < at("2027-01-16 00:00")
    assert working == sorted(working)
    assert in_zurich(rest[0]) in ("08:30", "11:30", "12:30", "16:30")


async def test_working_hours_can_be_without_lunch_and_at_other_times() -> None:
    seen = visit([calendar(SCOPE)], [ONE_HOUR])
    arguments = {"from": "20:00", "to": "23:00", "lunch": ""}
    found = commons(await chosen(ready.source("working-hours"), seen, arguments))
    assert [(start - MONDAY) % DAY_S // 1_800 for start in found[:5]] == [40, 41, 42, 43, 44]


async def test_working_hours_are_those_of_local_clocks_on_both_sides_of_a_change() -> None:
    first = at("2027-03-26 00:00")
    seen = visit([calendar(SCOPE, zone="Europe/Zurich")], [ONE_HOUR], first, first + 4 * DAY_S)
    found = commons(await chosen(ready.source("working-hours"), seen, {"to": "10:00"}))
    assert found[:2] == [at("2027-03-26 08:00"), at("2027-03-29 07:00")]


async def test_working_hours_of_a_slot_of_days_are_counted_over_a_change_of_clocks() -> None:
    first = at("2027-03-27 12:00")
    two_days = Ask(term=0, resource=SCOPE, length_s=44 * HOUR_S)
    scope = calendar(SCOPE, zone="Europe/Zurich")
    seen = visit([scope], [two_days], first, first + 12 * HOUR_S, HOUR_S)
    found = commons(await chosen(ready.source("working-hours"), seen, {"lunch": ""}))
    # The slot that starts at 12:00 ends on Monday at 10:00 local time, after one hour of work; each
    # later one has an hour more, up to the eight of a day.
    assert found[:6] == [first + hour * HOUR_S for hour in range(7, 13)]
    assert found[6:] == [first + hour * HOUR_S for hour in range(6, -1, -1)]


async def test_cheapest_adds_up_price_units_and_length_and_takes_the_earliest_of_the_cheapest() -> (
    None
):
    dear = calendar("here/dear", attributes={"price": 3.0})
    cheap = calendar("here/cheap", [Taken(MONDAY, MONDAY + 2 * HOUR_S)], attributes={"price": 1.5})
    unknown = calendar("here/unknown")
    asks = [
        Ask(term=0, resource=each.info.name, length_s=HOUR_S) for each in (dear, cheap, unknown)
    ]
    found = await chosen(ready.source("cheapest"), visit([dear, cheap, unknown], asks))
    assert [(offer.resource, offer.common) for offer in found[:3]] == [
        ("here/cheap", MONDAY + 2 * HOUR_S),
        ("here/dear", MONDAY + 2 * HOUR_S),
        ("here/unknown", MONDAY + 2 * HOUR_S),
    ]
    assert min(offer.common for offer in found) == MONDAY
    assert found[-2].common == found[-1].common == MONDAY + 3 * 1_800


async def test_cheapest_says_that_an_attribute_is_no_number() -> None:
    job = visit([calendar(SCOPE, attributes={"kind": "sgi"})], [ONE_HOUR]).job(
        ready.source("cheapest"), {"attribute": "kind"}
    )
    outcome = await LanguageOnly().run(job)
    assert (outcome.code, "'sgi'" in outcome.detail) == ("agent-error", True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"from": "22:00", "to": "04:00"}, "earlier in the day"),
        ({"from": "09:00", "to": "09:00"}, "earlier in the day"),
        ({"lunch": 12}, "09:30"),
        ({"lunch": "12:00"}, "09:30"),
    ],
)
async def test_working_hours_say_what_is_wrong_with_their_arguments(
    arguments: dict[str, Any], said: str
) -> None:
    job = visit([calendar(SCOPE)], [ONE_HOUR]).job(ready.source("working-hours"), arguments)
    outcome = await LanguageOnly().run(job)
    assert (outcome.code, said in outcome.detail) == ("agent-error", True), outcome


async def test_cheapest_takes_the_attribute_that_is_named() -> None:
    one = calendar("here/one", attributes={"watts": 10, "price": 1})
    two = calendar("here/two", attributes={"watts": 5, "price": 2})
    asks = [Ask(term=0, resource=each.info.name, length_s=HOUR_S) for each in (one, two)]
    found = await chosen(ready.source("cheapest"), visit([one, two], asks), {"attribute": "watts"})
    assert found[0].resource == "here/two"


async def test_beside_mine_touches_my_own_slots_first_and_then_moves_away_from_them() -> None:
    mine = Taken(MONDAY + 10 * HOUR_S, MONDAY + 12 * HOUR_S, holder="ada")
    seen = visit([calendar(SCOPE, [mine, Taken(MONDAY, MONDAY + 2 * HOUR_S)])], [ONE_HOUR])
    found = commons(await chosen(ready.source("beside-mine"), seen))
    assert found[:4] == [
        mine.start - HOUR_S, mine.end, mine.start - HOUR_S - 1_800, mine.end + 1_800,
    ]  # fmt: skip


async def test_beside_mine_finds_places_that_are_not_on_the_grid_of_the_visit() -> None:
    mine = Taken(MONDAY + 10 * HOUR_S + 300, MONDAY + 12 * HOUR_S + 600, holder="ada")
    seen = visit([calendar(SCOPE, [mine])], [ONE_HOUR])
    found = commons(await chosen(ready.source("beside-mine"), seen))
    assert found[:2] == [mine.start - HOUR_S, mine.end]


async def test_beside_mine_looks_at_other_resources_only_when_told_to() -> None:
    mine = Taken(MONDAY + 10 * HOUR_S, MONDAY + 12 * HOUR_S, holder="ada")
    calendars = [calendar(SCOPE), calendar("here/printer", [mine])]
    asks = [ONE_HOUR, Ask(term=1, resource="here/printer", length_s=HOUR_S, offset_s=-HOUR_S)]
    seen = visit(calendars[:1] + calendars[1:], asks[:1] + asks[1:], first=MONDAY + 2 * HOUR_S)
    alone = commons(await chosen(ready.source("beside-mine"), seen))
    assert alone[0] == mine.start
    anywhere = commons(await chosen(ready.source("beside-mine"), seen, {"anywhere": True}))
    assert anywhere[:2] == [mine.start - HOUR_S, mine.start]


async def test_tidy_fills_a_hole_exactly_before_it_breaks_into_a_long_gap() -> None:
    taken = [
        Taken(MONDAY, MONDAY + 4 * HOUR_S),
        Taken(MONDAY + 5 * HOUR_S, MONDAY + 6 * HOUR_S),
        Taken(MONDAY + 7 * HOUR_S + 1_800, MONDAY + 8 * HOUR_S),
    ]
    seen = visit([calendar(SCOPE, taken)], [ONE_HOUR])
    found = commons(await chosen(ready.source("tidy"), seen))
    assert found[:2] == [MONDAY + 4 * HOUR_S, MONDAY + 8 * HOUR_S]
    assert set(found[-3:]) == {
        MONDAY + 6 * HOUR_S, MONDAY + 6 * HOUR_S + 1_800, MONDAY + 8 * HOUR_S + 1_800,
    }  # fmt: skip


async def test_tidy_packs_units_where_the_fewest_are_left_idle() -> None:
    taken = [Taken(MONDAY + 6 * HOUR_S, MONDAY + 8 * HOUR_S, 6)]
    machine = calendar("here/machine", taken, capacity=8)
    seen = visit([machine], [Ask(term=0, resource="here/machine", length_s=HOUR_S, units=2)])
    found = await chosen(ready.source("tidy"), seen)
    free = [offer.free for offer in found]
    assert free == sorted(free)
    assert free[0] == 2


async def test_spread_takes_the_least_used_resources_of_the_earliest_time() -> None:
    later = MONDAY + 2 * DAY_S
    used = calendar("here/a", [Taken(later, later + 5 * HOUR_S)])
    mine = calendar("here/b", [Taken(later, later + 3 * HOUR_S, holder="ada")])
    idle = calendar("here/c")
    asks = [Ask(term=0, resource=f"here/{name}", length_s=HOUR_S) for name in "abc"]
    seen = visit([used, mine, idle], asks)
    everyone = await chosen(ready.source("spread"), seen)
    assert [offer.resource for offer in everyone[:3]] == ["here/c", "here/b", "here/a"]
    assert {offer.common for offer in everyone[:3]} == {MONDAY}
    only_mine = await chosen(ready.source("spread"), seen, {"of": "mine"})
    assert [offer.resource for offer in only_mine[:3]] == ["here/a", "here/c", "here/b"]


async def test_spread_counts_use_by_what_a_resource_has() -> None:
    later = MONDAY + 2 * DAY_S
    large = calendar("here/large", [Taken(later, later + HOUR_S, 4)], capacity=16)
    small = calendar("here/small", [Taken(later, later + HOUR_S, 2)], capacity=4)
    asks = [Ask(term=0, resource=f"here/{name}", length_s=HOUR_S) for name in ("large", "small")]
    found = await chosen(ready.source("spread"), visit([large, small], asks))
    assert found[0].resource == "here/large"


async def recalled(name: str, held: list[int], asked: int) -> bool:
    seen = visit([calendar(SCOPE)], [ONE_HOUR])
    choices = [
        HeldChoice(number, 0, SCOPE, start, start + HOUR_S, 1, start)
        for number, start in enumerate(held, start=1)
    ]
    asker = Asker(start=held[asked], end=held[asked] + HOUR_S, units=1)
    call = recall_arguments("here", seen.shown, choices, asked + 1, asker, 16, MONDAY)
    outcome = await run(ScriptRun("ada", ready.source(name), "recall", call))
    assert outcome.code == "ok"
    assert type(outcome.answer) is bool
    return outcome.answer


@pytest.mark.parametrize("name", ready.names())
async def test_the_last_slot_is_never_given_back(name: str) -> None:
    assert not await recalled(name, [MONDAY], 0)


@pytest.mark.parametrize("name", sorted({*ready.names()} - {"earliest", "latest"}))
async def test_a_slot_is_given_back_where_another_one_remains(name: str) -> None:
    assert await recalled(name, [MONDAY, MONDAY + HOUR_S], 0)
    assert await recalled(name, [MONDAY, MONDAY + HOUR_S], 1)


async def test_the_earliest_keeps_its_earliest_and_the_latest_its_latest() -> None:
    both = [MONDAY, MONDAY + HOUR_S]
    assert [await recalled("earliest", both, number) for number in (0, 1)] == [False, True]
    assert [await recalled("latest", both, number) for number in (0, 1)] == [True, False]


async def test_cheapest_needs_no_attribute_where_owners_have_prices() -> None:
    night = Recurrence("FREQ=DAILY", "20:00", 12 * HOUR_S, "UTC")
    scope = calendar(SCOPE, attributes={"price": 1.0})
    scope.rules = OwnerRules(
        prices=Prices(
            [PriceRule("night", "everyone", 2_500, (night,)), PriceRule("all", "everyone", 10_000)]
        )
    )
    noon = MONDAY + 12 * HOUR_S
    seen = visit([scope], [ONE_HOUR], first=noon, last=noon + 12 * HOUR_S)
    found = await chosen(ready.source("cheapest"), seen)
    assert found[0].start == MONDAY + 20 * HOUR_S
