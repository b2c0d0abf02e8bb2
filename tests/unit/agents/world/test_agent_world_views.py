"""What a script is called with, and what of its answer passes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent_worlds import ADA, DAY_S, MONDAY, Taken, calendar, visit

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.world.answers import BadResult, chosen, judged, picked, recalled
from kalends.agents.world.offers import Offer, default_choice, offers
from kalends.agents.world.views import TAKEN_SHOWN_MAX, Asker, choose_arguments, recall_arguments
from kalends.agents.world.visible_calendar import STEPS_EACH_MIN, STEPS_MAX, Shown, look, steps_each
from kalends.agents.world.zones import zones_of
from kalends.calendars import AccessList, AccessRule, ResourceCalendar
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo, Slot
from kalends.core.scripts import Ask, HeldChoice, Starts

HOUR_S = 3_600
SP2 = "here/sp2"


def sp2(*taken: Taken) -> ResourceCalendar:
    return calendar(
        SP2,
        taken,
        capacity=128,
        zone="America/Los_Angeles",
        attributes={"memory": 64, "kind": "sp2"},
    )


ASK = Ask(term=0, resource=SP2, length_s=HOUR_S, units=64)


def test_a_view_holds_exactly_what_the_documents_say() -> None:
    mine = Taken(MONDAY, MONDAY + HOUR_S, 28, "ada")
    other = Taken(MONDAY + HOUR_S, MONDAY + 2 * HOUR_S, 8)
    seen = visit([sp2(mine, other)], [ASK], last=MONDAY + HOUR_S, step_s=HOUR_S)
    view, request = seen.job("", {"z": 1, "at": "09:30"}).arguments
    assert view == {
        "site": "here",
        "now": MONDAY,
        "held_max": 16,
        "resources": {
            SP2: {
                "capacity": 128,
                "grain": 300,
                "zone": "America/Los_Angeles",
                "attributes": {"kind": "sp2", "memory": 64},
                "description": "",
                "through": [],
            }
        },
        "slots": [
            {
                "id": 0, "term": 0, "resource": SP2, "start": MONDAY, "end": MONDAY + HOUR_S,
                "units": 64, "free": 100, "common": MONDAY, "price": 0.0,
            },
            {
                "id": 1, "term": 0, "resource": SP2, "start": MONDAY + HOUR_S,
                "end": MONDAY + 2 * HOUR_S, "units": 64, "free": 120, "common": MONDAY + HOUR_S, "price": 0.0,
            },
        ],
        "taken": [
            {
                "resource": SP2, "start": MONDAY, "end": MONDAY + HOUR_S, "units": 28,
                "state": "locked", "mine": True,
            },
            {
                "resource": SP2, "start": MONDAY + HOUR_S, "end": MONDAY + 2 * HOUR_S, "units": 8,
                "state": "locked", "mine": False,
            },
        ],
    }  # fmt: skip
    assert request == {
        "user": "ada",
        "text": "text",
        "round": 1,
        "arguments": {"at": "09:30", "z": 1},
        "first": MONDAY,
        "last": MONDAY + HOUR_S,
        "step": HOUR_S,
        "terms": [{"term": 0, "resource": SP2, "units": 64, "length": HOUR_S, "offset": 0}],
    }


def test_keys_and_lists_have_one_order_whatever_order_they_came_in() -> None:
    info = ResourceInfo(name=SP2, attributes={"b": 1, "a": 2})
    slots = (Slot(5, 6, 1, "held"), Slot(1, 2, 1, "locked"))
    asks = [Ask(term=1, resource=SP2, length_s=5), Ask(term=0, resource="here/a", length_s=5)]
    shown = {SP2: Shown(info, (), slots), "here/a": Shown(ResourceInfo(name="here/a"), ())}
    starts = Starts(first=0, last=9, step_s=1)
    views = {
        msgspec.msgpack.encode(
            choose_arguments(
                "here", "ada", dict(order(shown.items())), [], order(asks), starts, "",
                dict(order({"y": 1, "x": 2}.items())), 1, 16, 7,
            )
        )
        for order in (list, lambda items: list(items)[::-1])
    }  # fmt: skip
    assert len(views) == 1
    view, _ = msgspec.msgpack.decode(views.pop())
    assert list(view["resources"]) == ["here/a", SP2]
    assert list(view["resources"][SP2]["attributes"]) == ["a", "b"]
    assert [slot["start"] for slot in view["taken"]] == [1, 5]


def test_a_view_never_says_who_holds_a_slot_even_to_those_who_may_know() -> None:
    nosy = ResourceCalendar(
        ResourceInfo(name=SP2, capacity=4),
        AccessList([AccessRule("all", "everyone", ("see", "detail", "hold", "lock"))]),
    )
    taken = [Taken(MONDAY, MONDAY + 60, 1, holder) for holder in ("bob", "ada")]
    for booking in calendar(SP2, taken, capacity=4).calendar.listing(MONDAY, MONDAY + 60, 9):
        nosy.book(booking)
    here = look(nosy, ADA, MONDAY, MONDAY + DAY_S, MONDAY)
    assert here is not None
    assert sorted((slot.holder, slot.reservation) for slot in here.taken) == [("", ""), ("ada", "")]
    assert [here.is_mine(slot) for slot in here.taken].count(True) == 1


def test_a_slot_without_a_holder_is_nobodys_also_where_no_user_is_known() -> None:
    here = Shown(ResourceInfo(name=SP2), (), (Slot(1, 2, 1, "held"),))
    assert not here.is_mine(here.taken[0])


def test_who_may_not_see_a_resource_is_shown_nothing() -> None:
    hidden = ResourceCalendar(
        ResourceInfo(name=SP2), AccessList([AccessRule("bob", "user:bob", ("see", "hold", "lock"))])
    )
    assert look(hidden, ADA, MONDAY, MONDAY + DAY_S, MONDAY) is None
    assert look(hidden, Principal(user="bob"), MONDAY, MONDAY + DAY_S, MONDAY) is not None


def test_an_empty_window_shows_the_resource_and_nothing_free() -> None:
    here = look(sp2(), ADA, MONDAY, MONDAY, MONDAY)
    assert here is not None
    assert (here.free, here.taken) == ((), ())


def test_own_slots_that_only_touch_the_window_are_shown() -> None:
    touching = Taken(MONDAY - HOUR_S, MONDAY, 1, "ada")
    here = look(sp2(touching), ADA, MONDAY, MONDAY + HOUR_S, MONDAY - DAY_S)
    assert here is not None
    assert [slot.end for slot in here.taken] == [MONDAY]


def test_a_view_has_at_most_so_many_taken_slots_the_earliest() -> None:
    slots = tuple(Slot(start, start + 1, 1, "held") for start in range(900))
    shown = {f"here/{name}": Shown(ResourceInfo(name=f"here/{name}"), (), slots) for name in "abc"}
    view, _ = choose_arguments(
        "here", "ada", shown, [], [], Starts(first=0, last=1, step_s=1), "", {}, 1, 16, 0
    )
    assert len(view["taken"]) == TAKEN_SHOWN_MAX
    assert max(slot["start"] for slot in view["taken"]) == TAKEN_SHOWN_MAX // 3


def test_recall_is_shown_the_slot_all_that_is_held_and_never_who_asks() -> None:
    seen = visit([sp2(Taken(MONDAY, MONDAY + HOUR_S, 64, "ada"))], [ASK], last=MONDAY + DAY_S)
    held = [
        HeldChoice(7, 0, SP2, MONDAY + DAY_S, MONDAY + DAY_S + HOUR_S, 64, MONDAY + DAY_S),
        HeldChoice(9, 0, SP2, MONDAY, MONDAY + HOUR_S, 64, MONDAY),
    ]
    asker = Asker(MONDAY, MONDAY + 60, 100)
    slot, asking, view = recall_arguments("here", seen.shown, held, 9, asker, 8, MONDAY)
    assert slot == {
        "id": 0, "term": 0, "resource": SP2, "start": MONDAY, "end": MONDAY + HOUR_S, "units": 64,
        "free": 64, "common": MONDAY, "price": 0.0,
    }  # fmt: skip
    assert asking == {
        "start": MONDAY, "end": MONDAY + 60, "units": 100,
    }  # fmt: skip
    assert [each["id"] for each in view["slots"]] == [0, 1]
    assert view["slots"][0] == slot
    assert view["held_max"] == 8
    with pytest.raises(KeyError):
        recall_arguments("here", seen.shown, held, 8, asker, 8, MONDAY)


# Answers


def offers_with(count: int) -> list[Offer]:
    return [Offer(number, 0, SP2, number, number + 5, 1, 1, number) for number in range(count)]


def test_a_right_answer_is_its_slots_in_its_order() -> None:
    found = offers_with(4)
    assert chosen([2, 0], found) == [found[2], found[0]]
    assert chosen([], found) == []


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (None, "a list of slot ids, not None"),
        ((0, 1), "a list of slot ids, not a tuple"),
        ({"0": 1}, "a list of slot ids, not a dict"),
        ("01", "a list of slot ids, not a text"),
        (0, "a list of slot ids, not a whole number"),
        ([True], "a whole number, not a truth value"),
        ([0.0], "a whole number, not a float"),
        (["0"], "a whole number, not a text"),
        ([[0]], "a whole number, not a list"),
        ([None], "a whole number, not None"),
        ([4], "no slot with the id 4"),
        ([-1], "no slot with the id -1"),
        ([1 << 70], "no slot with the id 1180591620717411303424"),
        ([10**300], "no slot with the id"),
        ([1, 2, 1], "slot 1 is chosen twice (place 2)"),
        ([0, 1, 2, 3, 0], "5 slots are chosen, but only 4 were shown"),
    ],
)
def test_an_answer_that_is_not_exactly_right_is_refused_with_the_reason(
    answer: Any, detail: str
) -> None:
    with pytest.raises(BadResult) as caught:
        chosen(answer, offers_with(4))
    assert detail in caught.value.detail
    assert len(caught.value.detail) <= 300


@pytest.mark.parametrize("answer", [None, 0, 1, "True", [True], 1.0])
def test_recall_answers_true_or_false_and_nothing_like_it(answer: Any) -> None:
    with pytest.raises(BadResult, match="a list of names, not a list with a dict"):
        picked([{"machine": "a/b"}], ["a/b"])
    with pytest.raises(BadResult, match="True or False"):
        recalled(answer)
    assert recalled(True)
    assert not recalled(False)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(anything | st.lists(st.integers(-1, 5), max_size=6))
@settings(max_examples=300)
def test_whatever_a_script_says_is_its_slots_or_a_bad_result(answer: Any) -> None:
    found = offers_with(5)
    right = (
        type(answer) is list
        and all(type(number) is int and 0 <= number < 5 for number in answer)
        and len(set(answer)) == len(answer)
    )
    job = ScriptRun("ada", "", "choose", ({"slots": [{"id": number} for number in range(5)]}, {}))
    ended = judged(job, RunOutcome("ok", answer, ("sent",)))
    if right:
        assert [offer.id for offer in chosen(answer, found)] == answer
        assert ended == RunOutcome("ok", answer, ("sent",))
    else:
        with pytest.raises(BadResult):
            chosen(answer, found)
        assert (ended.code, ended.answer, ended.sent) == ("bad-result", None, ())
        assert ended.detail


def test_a_failed_run_stays_as_it_failed() -> None:
    failed = RunOutcome("limit-steps", detail="too many")
    assert judged(ScriptRun("ada", "", "choose", ({"slots": []}, {})), failed) is failed


# The default


def test_by_default_the_earliest_comes_first_all_its_slots_together() -> None:
    asks = [
        Ask(term=0, resource=SP2, length_s=HOUR_S),
        Ask(term=1, resource="here/b", length_s=HOUR_S),
    ]
    seen = visit(
        [sp2(), calendar("here/b", [Taken(MONDAY, MONDAY + HOUR_S)])],
        asks,
        last=MONDAY + 2 * HOUR_S,
    )
    found = default_choice(seen.offers)
    assert sorted(found) == sorted(seen.offers)
    assert [(offer.common, offer.term) for offer in found[:2]] == [
        (MONDAY + HOUR_S, 0), (MONDAY + HOUR_S, 1),
    ]  # fmt: skip
    assert found[-1].common == MONDAY + HOUR_S // 2
    assert default_choice([]) == []


# Offers of real calendars


def test_thinned_offers_of_one_long_stretch_are_evenly_spaced() -> None:
    seen = visit([sp2()], [ASK], step_s=300, count_max=100)
    commons = [offer.common for offer in seen.offers]
    assert len(commons) == 100
    assert (commons[0], commons[-1]) == (MONDAY, MONDAY + 7 * DAY_S)
    gaps = [later - earlier for earlier, later in pairwise(commons)]
    assert max(gaps) <= 2 * min(gaps)


def test_when_offers_are_thinned_common_starts_of_all_terms_stay() -> None:
    other = calendar(
        "here/other",
        [Taken(MONDAY, MONDAY + 5 * DAY_S), Taken(MONDAY + 5 * DAY_S + 7_200, MONDAY + 8 * DAY_S)],
        grain_s=3_600,
    )
    asks = [ASK, Ask(term=1, resource="here/other", length_s=HOUR_S)]
    seen = visit([sp2(), other], asks, step_s=60, count_max=50)
    served: dict[int, set[int]] = {}
    for offer in seen.offers:
        served.setdefault(offer.common, set()).add(offer.term)
    both = [common for common, terms in served.items() if terms == {0, 1}]
    assert both == [MONDAY + 5 * DAY_S, MONDAY + 5 * DAY_S + HOUR_S]


def test_a_short_time_at_which_all_terms_are_served_is_not_lost_among_many_others() -> None:
    machines = [calendar(f"here/{letter}", grain_s=60) for letter in "abcdefghij"]
    begin = MONDAY + 3 * DAY_S
    taken = [Taken(MONDAY, begin), Taken(begin + 2 * HOUR_S, MONDAY + 9 * DAY_S)]
    asks = [Ask(term=0, resource=each.info.name, length_s=HOUR_S) for each in machines]
    asks.append(Ask(term=1, resource="here/onyx", length_s=HOUR_S))
    asks.append(Ask(term=2, resource="here/full", length_s=HOUR_S))
    full = calendar("here/full", [Taken(MONDAY, MONDAY + 9 * DAY_S)], grain_s=3_600)
    onyx = calendar("here/onyx", taken, grain_s=60)
    seen = visit([*machines, onyx, full], asks, step_s=600, count_max=200)
    whole = {offer.common for offer in seen.offers if offer.term == 1}
    assert whole == set(range(begin, begin + HOUR_S + 1, 600))
    assert len(seen.offers) > 180


def test_places_beside_own_slots_are_rounded_away_from_them_to_the_grain() -> None:
    mine = Taken(MONDAY + 10 * HOUR_S + 300, MONDAY + 12 * HOUR_S + 600, holder="ada")
    scope = calendar("here/scope", grain_s=HOUR_S)
    asks = [
        Ask(term=0, resource="here/scope", length_s=HOUR_S),
        Ask(term=1, resource="here/printer", length_s=HOUR_S),
    ]
    seen = visit([scope, calendar("here/printer", [mine])], asks, step_s=30 * DAY_S)
    found = {offer.common for offer in seen.offers if offer.resource == "here/scope"}
    assert found == {MONDAY, MONDAY + 9 * HOUR_S, MONDAY + 13 * HOUR_S}


def test_one_common_start_alone_is_cut_where_it_has_too_many_slots() -> None:
    machines = [calendar(f"here/{letter}") for letter in "abcde"]
    asks = [Ask(term=0, resource=each.info.name, length_s=HOUR_S) for each in machines]
    seen = visit(machines, asks, last=MONDAY, count_max=3)
    assert [offer.resource for offer in seen.offers] == ["here/a", "here/b", "here/c"]


def test_years_of_seconds_are_counted_and_not_walked_through() -> None:
    free = ((0, 10**10, 5),)
    shown = {
        name: Shown(ResourceInfo(name=name, capacity=5, grain_s=1), free) for name in ("a/b", "a/c")
    }
    asks = [Ask(term=0, resource=name, length_s=60) for name in shown]
    found = offers(shown, asks, Starts(first=0, last=10**9, step_s=1), 1_000)
    assert 900 <= len(found) <= 1_000
    assert {offer.common for offer in found} >= {0, 10**9}


# Zones


@pytest.mark.parametrize(
    "zone",
    [
        "UTC", "Europe/Zurich", "America/Los_Angeles", "Asia/Kathmandu", "Australia/Lord_Howe",
        "Africa/Casablanca", "America/Nuuk", "Pacific/Chatham", "Asia/Tehran",
    ],
)  # fmt: skip
def test_a_table_tells_the_offset_of_every_hour_as_zoneinfo_does(zone: str) -> None:
    shown = {SP2: Shown(ResourceInfo(name=SP2, zone=zone), ())}
    first, last = MONDAY, MONDAY + 30 * DAY_S
    tables = zones_of(shown, first, last)
    assert set(tables) == {"UTC", zone}
    table = tables[zone]
    assert [from_s for from_s, _ in table] == sorted({from_s for from_s, _ in table})
    times = [
        *range(first - DAY_S, last + 366 * DAY_S, 3_600),
        *(from_s + near for from_s, _ in table[1:] for near in (-1, 0)),
    ]
    for time_s in times:
        told = [offset_s for from_s, offset_s in table if from_s <= time_s][-1]
        offset = datetime.fromtimestamp(time_s, ZoneInfo(zone)).utcoffset()
        assert offset == timedelta(seconds=told), datetime.fromtimestamp(time_s, UTC)


def test_two_changes_in_one_day_and_a_skipped_day_are_both_told() -> None:
    shown = {SP2: Shown(ResourceInfo(name=SP2, zone="Pacific/Apia"), ())}
    begin = int(datetime(2011, 12, 20, tzinfo=UTC).timestamp())
    table = zones_of(shown, begin, begin + 20 * DAY_S)["Pacific/Apia"]
    assert [offset_s // HOUR_S for _, offset_s in table[:2]] == [-10, 14]


def test_the_zone_that_a_user_names_is_brought_along_if_there_is_one() -> None:
    shown = {SP2: Shown(ResourceInfo(name=SP2), ())}
    assert set(zones_of(shown, 0, 9, {"zone": "Europe/Zurich"})) == {"UTC", "Europe/Zurich"}
    for zone in ("Europe/Atlantis", "../etc/passwd", 7, ""):
        assert set(zones_of(shown, 0, 9, {"zone": zone})) == {"UTC"}


def test_a_resource_in_a_zone_that_there_is_not_is_refused() -> None:
    shown = {SP2: Shown(ResourceInfo(name=SP2, zone="Europe/Atlantis"), ())}
    with pytest.raises(InvalidInput, match="Atlantis"):
        zones_of(shown, 0, 9)


def test_much_that_is_asked_for_shares_the_steps_that_are_looked_at() -> None:
    assert steps_each(1) == limits.VIEW_STEPS_MAX
    assert 512 * steps_each(512) < 2 * STEPS_MAX
    assert steps_each(limits.CLAIMS_MAX) >= STEPS_EACH_MIN


def test_of_a_calendar_in_many_pieces_only_the_first_ones_are_shown() -> None:
    every_hour = [Taken(MONDAY + n * 3_600, MONDAY + n * 3_600 + 1_800) for n in range(24)]
    pieces = calendar("here/one", every_hour)
    whole = look(pieces, ADA, MONDAY, MONDAY + DAY_S, MONDAY)
    here = look(pieces, ADA, MONDAY, MONDAY + DAY_S, MONDAY, steps_max=3)
    assert whole is not None
    assert here is not None
    assert here.free == whole.free[:3]
    assert here.taken == whole.taken[:3]
