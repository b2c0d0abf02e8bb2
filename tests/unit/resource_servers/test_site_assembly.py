"""A site's configuration becomes the calendars its owner meant; views are cut to what a frame carries."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kalends.calendars import ResourceCalendar
from kalends.cli.servers.server import main
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.principals import Principal
from kalends.resource_servers.neighbours.links import shortened
from kalends.resource_servers.setup.assembly import auditor, calendars_of, limits_of
from kalends.resource_servers.setup.bookable import is_bookable
from kalends.serving.configuration import SiteConfiguration, load_configuration
from kalends.serving.example_configuration import example

DAY_S = 86_400
MONDAY = 1_700_438_400
"""2023-11-20 00:00 UTC."""

ANNA = Principal("anna")
STAFF = Principal("bert", ("staff",))


def site(text: str) -> SiteConfiguration:
    whole = f'[site]\nname = "sdsc"\nstore = "s"\n[[site.resources]]\nname = "sp2"\n{text}'
    found = load_configuration(whole, Path()).site
    assert found is not None
    return found


def refusal(text: str, who: Principal, start: int, units: int = 1) -> str:
    calendar = calendars_of(site(text))["sdsc/sp2"]
    found = calendar.refusal(who, ("hold", "lock"), start, start + 3_600, units, MONDAY - DAY_S)
    return f"{found.code} {found.rule}".strip() if found else ""


def test_the_example_that_is_printed_can_be_served() -> None:
    configuration = load_configuration(example(), Path()).site
    assert configuration is not None
    calendars = calendars_of(configuration)
    assert list(calendars) == [
        f"sdsc/{each}"
        for each in ("sp2", "microscope", "box", "cluster", "cores", "matlab", "room")
    ]
    assert calendars["sdsc/sp2"].info.grain_s == 900
    assert "08:00-18:00" in calendars["sdsc/sp2"].info.hours
    assert limits_of(configuration).hold_ms_max == 3_600_000


def test_without_access_rules_everyone_may_book_and_nobody_sees_holders() -> None:
    calendar = calendars_of(site(""))["sdsc/sp2"]
    assert refusal("", ANNA, MONDAY) == ""
    assert not calendar.access.sees_detail(ANNA)
    assert calendar.access.sees_detail(auditor(ANNA))


def test_each_step_of_may_includes_those_before() -> None:
    for may, actions in (
        ("see", {"see"}), ("hold", {"see", "hold"}), ("lock", {"see", "hold", "lock"}),
    ):  # fmt: skip
        access = calendars_of(site(f'access = [{{ who = "everyone", may = "{may}" }}]'))
        allowed = {
            each
            for each in ("see", "hold", "lock", "detail")
            if access["sdsc/sp2"].access.may_ever(ANNA, each)
        }
        assert allowed == actions


def test_nothing_refuses_whatever_other_rules_allow() -> None:
    text = """access = [
        { who = "everyone", may = "lock" }, { who = "group:staff", may = "nothing" },
    ]"""
    assert refusal(text, ANNA, MONDAY) == ""
    assert refusal(text, STAFF, MONDAY) == "unknown-resource"


def test_rules_keep_their_names_hours_and_amounts() -> None:
    text = """capacity = 10
    zone = "Europe/Berlin"
    access = [
        { who = "everyone", may = "see" },
        { name = "Guests at night", who = "everyone", may = "lock", units_max = 2, hours = NIGHT },
    ]""".replace("NIGHT", '[{ rrule = "FREQ=DAILY", start = "20:00", duration = "4h" }]')
    assert refusal(text, ANNA, MONDAY + 19 * 3_600) == ""
    assert refusal(text, ANNA, MONDAY + 18 * 3_600) == "not-allowed guests-at-night"
    assert refusal(text, ANNA, MONDAY + 19 * 3_600, 3) == "not-allowed guests-at-night"


def test_a_training_holds_to_the_end_of_its_last_day_where_the_resource_is() -> None:
    text = """zone = "Europe/Berlin"
    access = [
        { who = "everyone", may = "see" },
        { name = "laser", who = "everyone", may = "lock", members = MEMBERS },
    ]""".replace("MEMBERS", '{ anna = 2023-11-20, "eve@x" = "2024-01-01" }')
    # The day ends at 23:00 UTC: a booking must end by then.
    assert refusal(text, ANNA, MONDAY + 22 * 3_600) == ""
    assert refusal(text, ANNA, MONDAY + 22 * 3_600 + 60) == "not-allowed laser"
    assert refusal(text, ANNA, MONDAY + 23 * 3_600) == "not-allowed laser"
    assert refusal(text, STAFF, MONDAY) == "not-allowed access-list"
    assert refusal(text, Principal("eve@x"), MONDAY + 30 * 3_600) == ""
    access = calendars_of(site(text))["sdsc/sp2"].access
    told = "laser (everyone): you may hold and lock, only until the end of 2023-11-20"
    assert access.describe_for(ANNA) == [told]
    late = access.refusal(ANNA, "lock", "sdsc/sp2", MONDAY + DAY_S, MONDAY + DAY_S + 60, 1)
    assert late is not None
    assert late.detail == "rule laser lets you lock only until the end of 2023-11-20"


def test_a_training_counts_within_the_hours_of_its_rule_and_its_group() -> None:
    text = """access = [
        { name = "laser", who = "group:staff", may = "lock", members = { bert = 2023-11-20 }, hours = NOON },
    ]""".replace("NOON", '[{ rrule = "FREQ=DAILY", start = "12:00", duration = "2h" }]')
    assert refusal(text, STAFF, MONDAY + 12 * 3_600) == ""
    assert refusal(text, STAFF, MONDAY + 14 * 3_600) == "not-allowed laser"
    assert refusal(text, STAFF, MONDAY + 36 * 3_600) == "not-allowed laser"
    assert refusal(text, Principal("bert"), MONDAY + 12 * 3_600) == "unknown-resource"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('access = [{ who = "everyone", may = "nothing", units_max = 1 }]', "access[0]"),
        (
            'access = [{ who = "user:a", may = "nothing", members = { a = 2027-01-01 } }]',
            "access[0]",
        ),
        ('access = [{ who = "user:a", may = "see", members = { a = 9999-12-31 } }]', "members"),
        ('access = [{ who = "user:a", may = "see", members = { a = "soon" } }]', "members"),
        ('access = [{ who = "user:a", may = "see", members = { "" = 2027-01-01 } }]', "members"),
        ('access = [{ who = "everyone", may = "lock", members = {} }]', "members"),
        ('access = [{ name = "ä", who = "everyone", may = "see" }]', "access"),
        ('hours = [{ rrule = "FREQ=OFTEN", start = "08:00", duration = "1h" }]', "rrule"),
    ],
)
def test_what_cannot_be_is_refused_with_its_resource(text: str, where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        calendars_of(site(text))
    assert caught.value.where.startswith("site.resources[0].")
    assert where in caught.value.where


def hours(rrule: str, start: str, duration: str, zone: str = "Europe/Berlin") -> str:
    days = f'rrule = "{rrule}", start = "{start}", duration = "{duration}", zone = "{zone}"'
    return f"hours = [{{ {days} }}]"


OFFICE = hours("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "08:00", "10h")


def rule_at(times: str) -> str:
    return f'access = [{{ who = "everyone", may = "see" }}, {{ who = "everyone", may = "lock", {times} }}]'


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (hours("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "08:00", "1h"), "hours",
         ["BYMONTHDAY=30", "08:00-09:00 Europe/Berlin", "never open"]),
        (rule_at(hours("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "08:00", "1h")), "access[1].hours",
         ["08:00-09:00 Europe/Berlin", "never open"]),
        (f"{OFFICE}\n{rule_at(hours('FREQ=DAILY', '18:00', '14h'))}", "access[1].hours",
         ["rule 2", "daily 18:00-08:00 (next day)", "Mon-Fri 08:00-18:00 Europe/Berlin"]),
        (f"{OFFICE}\n{rule_at(hours('FREQ=WEEKLY;BYDAY=SA,SU', '00:00', '1d'))}",
         "access[1].hours", ["Sat-Sun all day", "Mon-Fri 08:00-18:00 Europe/Berlin"]),
    ],
)  # fmt: skip
def test_hours_that_are_never_open_or_never_meet_are_refused_in_words(
    text: str, where: str, words: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        calendars_of(site(text))
    assert caught.value.where == f"site.resources[0].{where}"
    assert caught.value.remedy
    for each in words:
        assert each in caught.value.detail


def test_a_server_does_not_start_with_a_rule_that_never_applies(tmp_path: Path) -> None:
    weekend = hours("FREQ=WEEKLY;BYDAY=SA,SU", "08:00", "10h")
    file = tmp_path / "site.toml"
    file.write_text(
        '[site]\nname = "sdsc"\nstore = "s.db"\nlisten = "127.0.0.1:0"\n'
        f'[[site.resources]]\nname = "sp2"\n{OFFICE}\n{rule_at(weekend)}\n'
    )
    errors = io.StringIO()
    assert main(file, err=errors) == 2
    place = f"{file}: site.resources[0].access[1].hours"
    assert f"{place}: rule 2 applies only Sat-Sun" in errors.getvalue()


def test_hours_that_meet_for_a_few_weeks_between_two_clock_changes_are_taken() -> None:
    los_angeles = hours("FREQ=DAILY", "09:00", "1h", "America/Los_Angeles")
    assert calendars_of(site(f"{OFFICE}\n{rule_at(los_angeles)}"))


def test_a_view_too_large_for_a_frame_is_cut_and_says_up_to_where_it_is_complete() -> None:
    steps = tuple((start, start + 1, 1) for start in range(100_000, 120_000, 2))
    part = m.FreeSteps(resource="sdsc/sp2", until=120_000, steps=steps)
    view = m.View(query_id=1, epoch=1, views=(part,) * 50)
    assert len(codec.encode_msgpack(view)) > limits.FRAME_BYTES_MAX
    short = shortened(view)
    assert len(codec.encode_msgpack(short)) <= limits.FRAME_BYTES_MAX
    assert len(short.views) == 50
    for each in short.views:
        assert 0 < each.until < part.until
        assert list(each.steps) == [step for step in steps if step[0] < each.until]


@pytest.mark.parametrize("who", ["everyone", "group:staff"])
def test_the_check_knows_that_users_with_a_training_can_book(who: str) -> None:
    def laser(bert: str) -> ResourceCalendar:
        access = (
            f'[{{ who = "{who}", may = "lock", members = {{ anna = 2000-01-01, bert = {bert} }} }}]'
        )
        return calendars_of(site(f"access = {access}"))["sdsc/sp2"]

    assert is_bookable(laser("2023-11-20"), MONDAY)
    assert not is_bookable(laser("2023-11-19"), MONDAY)
