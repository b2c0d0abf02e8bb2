"""The same world without a site: printed calendars make the jobs that a site would make."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.agent_worlds import ADA, DAY_S, MONDAY, Taken, calendar, run, visit

from kalends.agents import local, ready
from kalends.agents.world.offers import offers
from kalends.agents.world.views import Asker
from kalends.calendars import ResourceCalendar
from kalends.cli.console import output
from kalends.contract.calls import CalendarView
from kalends.core.errors import InvalidInput
from kalends.core.language import parse_alternatives
from kalends.core.limits import LISTING_MAX, OFFERS_MAX, VIEW_STEPS_MAX
from kalends.core.requests import Request
from kalends.core.scripts import Ask

HOUR_S = 3_600
ONYX = [Taken(MONDAY + 9 * HOUR_S, MONDAY + 12 * HOUR_S, holder="ada")]


def printed(made: ResourceCalendar, capsys: pytest.CaptureFixture[str], days: int = 7) -> str:
    """What the command line prints of `made`, from Monday on."""
    end = MONDAY + days * DAY_S
    steps, until = made.free_steps(ADA, MONDAY, end, MONDAY, VIEW_STEPS_MAX)
    slots = made.slots(ADA, MONDAY, end, LISTING_MAX)
    output.print_json(
        "calendar",
        CalendarView(
            resource=made.info, start=MONDAY, end=end, until=until, free=tuple(steps),
            slots=tuple(slots),
        ),
    )  # fmt: skip
    return capsys.readouterr().out


def request(text: str, **more: Any) -> Request:
    fields = {"duration_s": HOUR_S, "not_before": MONDAY, "not_after": MONDAY + 7 * DAY_S, **more}
    return Request(alternatives=parse_alternatives(text), **fields)


def test_printed_calendars_come_back_one_several_or_in_a_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = printed(calendar("here/onyx", ONYX, attributes={"kind": "sgi"}), capsys)
    two = printed(calendar("here/sp2", capacity=128), capsys)
    for text in (one + two, f"[{one},{two}]", f"\n {one}\n\n[{two}] "):
        shown = local.load_calendars(text)
        assert list(shown) == ["here/onyx", "here/sp2"]
        assert shown["here/onyx"].info.attributes == {"kind": "sgi"}
        assert shown["here/sp2"].free == ((MONDAY, MONDAY + 7 * DAY_S, 128),)
        assert [slot.holder for slot in shown["here/onyx"].taken] == ["ada"]
    assert list(local.load_calendars(one)) == ["here/onyx"]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "calendar is missing"),
        ("[]", "calendar is missing"),
        ("{", "not JSON"),
        ("[] x", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("1" * 5_000, "not JSON"),
        ("7", "not output of `kalends calendar --json`"),
        ('{"kind": "resources", "version": 1}', "not output of `kalends calendar --json`"),
        ('{"kind": "calendar", "version": 2}', "version 1"),
        ('{"kind": "calendar", "version": 1}', "must be a map"),
        ('{"kind": "calendar", "version": 1, "data": {"resource": 7}}', "must be a map"),
    ],
)
def test_what_is_no_printed_calendar_is_refused(text: str, detail: str) -> None:
    with pytest.raises(InvalidInput, match=detail) as caught:
        local.load_calendars(text)
    assert caught.value.where


@pytest.mark.parametrize(
    "free",
    [[[5, 1, 3]], [[100, 200, 4], [0, 50, 4]], [[0, 1 << 62, 4]], [[-5, 5, 4]]],
    ids=["backwards", "out of order", "after the year 3000", "before 1970"],
)
def test_a_calendar_whose_free_steps_are_none_is_refused(free: list[list[int]]) -> None:
    data = {
        "resource": {"name": "here/onyx"}, "start": 0, "end": 9, "until": 9, "free": free,
        "slots": [],
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="free steps") as caught:
        local.load_calendars(json.dumps({"kind": "calendar", "version": 1, "data": data}))
    assert caught.value.where == "calendars[0]"


def test_a_calendar_that_is_there_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(calendar("here/onyx"), capsys)
    with pytest.raises(InvalidInput, match="twice") as caught:
        local.load_calendars(text + text)
    assert caught.value.where == "calendars[1]"


async def test_a_local_job_is_the_job_that_a_site_makes(capsys: pytest.CaptureFixture[str]) -> None:
    onyx, sp2 = calendar("here/onyx", ONYX), calendar("here/sp2", capacity=128)
    shown = local.load_calendars(printed(onyx, capsys) + printed(sp2, capsys))
    wanted = request("here/sp2:64 + here/onyx @+2h for 30m", agent="ready:latest", arguments={})
    job, found = local.job_of("source", shown, wanted, "ada", 1, (), MONDAY)
    asks = [
        Ask(term=0, resource="here/sp2", length_s=HOUR_S, units=64),
        Ask(term=1, resource="here/onyx", length_s=1_800, offset_s=2 * HOUR_S),
    ]
    starts = local.starts_of(wanted, shown, asks, MONDAY)
    there = visit([onyx, sp2], asks, starts.first, starts.last, starts.step_s)
    assert list(found) == there.offers
    view, told = job.arguments
    assert view == there.job("source").arguments[0]
    assert told["terms"] == there.job("source").arguments[1]["terms"]
    assert told["text"] == "here/sp2:64 + here/onyx @+2h for 30m"
    assert any(slot["mine"] for slot in view["taken"])
    outcome = await run(job._replace(source=ready.source("beside-mine")))
    assert outcome.code == "ok"
    assert outcome.answer


def test_attribute_terms_ask_of_every_shown_resource_that_has_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = local.load_calendars(
        "".join(
            printed(calendar(f"here/{name}", attributes={"kind": kind}, capacity=capacity), capsys)
            for name, kind, capacity in (("a", "sgi", 1), ("b", "sgi", 4), ("c", "x", 4))
        )
    )
    asks = local.asks_of(request("2 of {kind=sgi} + {site=here}:4"), shown)
    assert [(ask.term, ask.resource, ask.units) for ask in asks] == [
        (0, "here/a", 1), (0, "here/b", 1), (1, "here/b", 4), (1, "here/c", 4),
    ]  # fmt: skip


def test_a_request_for_something_else_is_refused_and_so_are_calendars_of_two_sites(
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = printed(calendar("here/onyx"), capsys)
    there = printed(calendar("there/onyx"), capsys)
    with pytest.raises(InvalidInput, match="nothing of here/onyx"):
        local.job_of("", local.load_calendars(here), request("here/b"), "ada", 1, (), MONDAY)
    both = local.load_calendars(there + here)
    with pytest.raises(InvalidInput, match="2 sites: here, there"):
        local.job_of("", both, request("here/onyx"), "ada", 1, (), MONDAY)
    assert [list(of_site) for of_site in local.by_site(both).values()] == [
        ["here/onyx"], ["there/onyx"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("grains", "window_s"), [((300, 300), 7), ((60, 420), 30), ((3_600, 7), 7)]
)
def test_the_grid_is_on_every_grain_and_makes_no_more_than_a_visit_may_offer(
    grains: tuple[int, int], window_s: int, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [calendar(f"here/{number}", grain_s=grain) for number, grain in enumerate(grains)]
    shown = local.load_calendars("".join(printed(each, capsys, 30) for each in made))
    wanted = request("here/0 + here/1", duration_s=25_200, not_after=MONDAY + window_s * DAY_S)
    starts = local.starts_of(wanted, shown, local.asks_of(wanted, shown), MONDAY + 1)
    assert starts.first > MONDAY
    assert all(starts.first % grain == starts.step_s % grain == 0 for grain in grains)
    assert 2 * ((starts.last - starts.first) // starts.step_s + 1) <= OFFERS_MAX


@pytest.mark.parametrize(("window_s", "step_s"), [(2 * DAY_S, 300), (7 * DAY_S, 900)])
def test_starts_fall_on_round_times_as_a_broker_would_ask_for_them(
    window_s: int, step_s: int, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = local.load_calendars(printed(calendar("here/sp2", grain_s=60), capsys))
    wanted = request("here/sp2", not_before=MONDAY + 61, not_after=MONDAY + window_s)
    starts = local.starts_of(wanted, shown, local.asks_of(wanted, shown), MONDAY + 61)
    assert (starts.first, starts.step_s) == (MONDAY + step_s, step_s)


def test_a_request_without_an_end_is_looked_at_as_far_as_its_calendars_reach(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = local.load_calendars(printed(calendar("here/onyx"), capsys, days=3))
    wanted = request("here/onyx", not_after=0)
    starts = local.starts_of(wanted, shown, local.asks_of(wanted, shown), MONDAY)
    assert (starts.first, starts.last) == (MONDAY, MONDAY + 3 * DAY_S - HOUR_S)
    assert (
        offers(shown, local.asks_of(wanted, shown), starts, OFFERS_MAX)[-1].end
        == MONDAY + 3 * DAY_S
    )


async def test_recall_is_tried_with_what_choose_would_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = local.load_calendars(printed(calendar("here/onyx"), capsys))
    wanted = request("here/onyx")
    source = ready.source("earliest")
    _, found = local.job_of(source, shown, wanted, "ada", 1, (), MONDAY)
    asker = Asker(MONDAY, MONDAY + HOUR_S, 1)
    answers = []
    for number in (0, 1):
        job = local.recall_job_of(
            source, shown, wanted, "ada", found[:2], number, asker, (), MONDAY
        )
        outcome = await run(job)
        assert outcome.code == "ok"
        answers.append(outcome.answer)
    assert answers == [False, True]
    with pytest.raises(InvalidInput, match="slot 5 is not held by the script"):
        local.recall_job_of(source, shown, wanted, "ada", found[:2], 5, asker, (), MONDAY)


def test_a_job_is_plain_data(capsys: pytest.CaptureFixture[str]) -> None:
    shown = local.load_calendars(printed(calendar("here/onyx", ONYX), capsys))
    job, _ = local.job_of("", shown, request("here/onyx"), "ada", 1, (), MONDAY)
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(job.arguments))
    assert plain == list(job.arguments)
