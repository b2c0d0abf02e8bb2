"""What an owner writes about limits, blackouts and priority is what refusals say."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kalends.broker.desk.priorities import PriorityGrants
from kalends.calendars import Limit, UsageShare
from kalends.core.errors import InvalidInput, Refusal, RefusalCode
from kalends.core.principals import Principal
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.serving.configuration import GrantConfiguration, load_configuration

HOUR = 3_600
DAY = 24 * HOUR
MONDAY = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
ANNA = Principal("anna")
STAFF = Principal("bert", ("staff",))

SITE = '[site]\nname = "sdsc"\nstore = "s"\n'
MICROSCOPE = '[[site.resources]]\nname = "microscope"\n'


def refused(
    text: str, start: int, end: int, who: Principal = ANNA, now: int = MONDAY
) -> Refusal | None:
    site = load_configuration(SITE + text, Path()).site
    assert site is not None
    calendar = calendars_of(site)["sdsc/microscope"]
    return calendar.refusal(who, ("hold", "lock"), start, end, 1, now)


def limit(text: str) -> str:
    return f"{MICROSCOPE}[[site.resources.limits]]\n{text}\n"


def test_a_booking_that_is_too_long_names_the_limit() -> None:
    text = limit('name = "short"\nwho = "everyone"\nlongest = "2h"')
    assert refused(text, MONDAY, MONDAY + 2 * HOUR) is None
    found = refused(text, MONDAY, MONDAY + 3 * HOUR)
    assert found is not None
    assert (found.code, found.rule) == (RefusalCode.TOO_LONG, "short")
    assert "at most 2h" in found.detail


def test_lead_time_and_how_far_ahead_are_measured_from_now() -> None:
    text = limit('who = "everyone"\nlead = "1d"\nahead = "3d"')
    early = refused(text, MONDAY + DAY - 60, MONDAY + DAY + HOUR)
    assert early is not None
    assert (early.code, early.rule) == (RefusalCode.LEAD_TIME, "limit-1")
    assert refused(text, MONDAY + DAY, MONDAY + 3 * DAY) is None
    late = refused(text, MONDAY + DAY, MONDAY + 3 * DAY + 60)
    assert late is not None
    assert late.code == RefusalCode.BEYOND_HORIZON
    assert late.rule == "limit-1"


def test_of_limits_that_match_the_first_holds_and_the_sites_come_last() -> None:
    text = (
        '[[site.defaults.limits]]\nname = "default"\nwho = "everyone"\nlongest = "1h"\nlead = "2h"\n'
        + limit('name = "staff"\nwho = "group:staff"\nlongest = "8h"')
    )
    assert refused(text, MONDAY + 2 * HOUR, MONDAY + 9 * HOUR, STAFF) is None
    anna = refused(text, MONDAY + 2 * HOUR, MONDAY + 9 * HOUR)
    assert anna is not None
    assert anna.rule == "default"
    early = refused(text, MONDAY + HOUR, MONDAY + 2 * HOUR, STAFF)
    assert early is not None
    assert (early.code, early.rule) == (RefusalCode.LEAD_TIME, "default")


def test_a_resources_own_rule_takes_the_place_of_the_default_of_the_same_name() -> None:
    default = (
        '[[site.defaults.limits]]\nname = "x"\nwho = "everyone"\nlongest = "1h"\nlead = "2h"\n'
    )
    own = limit('name = "x"\nwho = "everyone"\nlongest = "2h"')
    assert refused(default + own, MONDAY, MONDAY + 2 * HOUR) is None


def test_a_blackout_refuses_whatever_overlaps_it_and_gives_its_reason() -> None:
    text = (
        f'{MICROSCOPE}zone = "Europe/Berlin"\n[[site.resources.blackouts]]\nname = "Helium day"\n'
        'reason = "helium is refilled"\n'
        'hours = [{ rrule = "FREQ=WEEKLY;BYDAY=MO", start = "09:00", duration = "2h" }]\n'
    )
    assert refused(text, MONDAY + 7 * HOUR, MONDAY + 8 * HOUR) is None
    assert refused(text, MONDAY + 10 * HOUR, MONDAY + 11 * HOUR) is None
    found = refused(text, MONDAY + 7 * HOUR, MONDAY + 8 * HOUR + 60)
    assert found is not None
    assert (found.code, found.rule) == (RefusalCode.BLACKOUT, "helium-day")
    assert "helium is refilled" in found.detail


def test_a_blackout_is_told_as_its_owner_has_made_it_however_little_of_it_a_booking_meets() -> None:
    text = (
        f'{MICROSCOPE}zone = "UTC"\n[[site.resources.blackouts]]\nname = "new year"\n'
        'begins = "2026-03-03"\nends = "2026-08-06 12:00"\n'
    )
    for at in (MONDAY + 2 * DAY, MONDAY + 100 * DAY):
        found = refused(text, at, at + HOUR)
        assert found is not None
        assert "between Tue 2026-03-03 00:00:00" in found.detail
        assert "and Thu 2026-08-06 12:00:00" in found.detail


def test_a_single_blackout_lasts_as_the_local_clock_says_over_a_clock_change() -> None:
    """Clocks in Berlin are set forward on 29 March 2026: that day is 23 hours long."""
    text = (
        f'{MICROSCOPE}zone = "Europe/Berlin"\n[[site.resources.blackouts]]\n'
        'begins = "2026-03-29"\nends = "2026-03-30"\n'
    )
    begins = int(datetime(2026, 3, 28, 23, tzinfo=UTC).timestamp())
    ends = begins + 23 * HOUR
    assert refused(text, begins - HOUR, begins) is None
    assert refused(text, ends, ends + HOUR) is None
    for at in (begins, ends - 60):
        found = refused(text, at, at + 60)
        assert found is not None
        assert found.rule == "blackout-1"


def test_a_blackout_of_the_site_closes_every_resource() -> None:
    text = (
        '[[site.defaults.blackouts]]\nname = "move"\nbegins = "2026-03-03"\nends = "2026-03-04"\n'
        + MICROSCOPE
    )
    found = refused(text, MONDAY + DAY, MONDAY + DAY + HOUR)
    assert found is not None
    assert found.rule == "move"


def test_the_first_head_start_that_matches_holds() -> None:
    text = (
        '[[site.defaults.priority]]\nwho = "everyone"\nhead_start = "1m"\n'
        f'{MICROSCOPE}[[site.resources.priority]]\nwho = "group:staff"\nhead_start = "10m"\n'
    )
    site = load_configuration(SITE + text, Path()).site
    assert site is not None
    calendar = calendars_of(site)["sdsc/microscope"]
    assert calendar.head_start_ms(STAFF) == 600_000
    assert calendar.head_start_ms(ANNA) == 60_000


def test_rules_are_told_in_words_to_whoever_sees_the_resource() -> None:
    text = (
        limit('name = "guests"\nwho = "group:guests"\ntogether = true\nweek_share = 0.25')
        + '[[site.resources.blackouts]]\nname = "clean"\nreason = "cleaning"\n'
        'hours = [{ rrule = "FREQ=WEEKLY;BYDAY=SA", start = "08:00", duration = "4h" }]\n'
        '[[site.resources.priority]]\nwho = "group:staff"\nhead_start = "10m"\n'
    )
    site = load_configuration(SITE + text, Path()).site
    assert site is not None
    assert calendars_of(site)["sdsc/microscope"].info.rules == (
        "guests (group:guests): together at most 25 % of a week",
        "clean: closed Sat 08:00-12:00 UTC (cleaning)",
        "group:staff waits as if it had asked 10m earlier",
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (limit('who = "everyone"'), "site.resources[0].limits[0].name"),
        (limit('who = "anna"\nlongest = "1h"'), "site.resources[0].limits[0].who"),
        (limit('who = "everyone"\nlead = "3d"\nahead = "2d"'), "site.resources[0].limits[0].lead"),
        (
            limit('who = "everyone"\nweek_share = 0.5\nweek_hours = 3'),
            "site.resources[0].limits[0].week_share",
        ),
        (
            limit('who = "everyone"\nlongest = "1h"\ntogether = true'),
            "site.resources[0].limits[0].together",
        ),
        (
            limit('name = "a"\nwho = "everyone"\nlongest = "1h"')
            + '[[site.resources.limits]]\nname = "A"\nwho = "everyone"\nlead = "1h"\n',
            "site.resources[0].limits",
        ),
        (
            f'{MICROSCOPE}[[site.resources.blackouts]]\nreason = "x"\n',
            "site.resources[0].blackouts[0]",
        ),
        (
            f'{MICROSCOPE}[[site.resources.blackouts]]\nbegins = "2026-03-04"\nends = "2026-03-03"\n',
            "site.resources[0].blackouts[0].ends",
        ),
        (
            f'{MICROSCOPE}[[site.resources.blackouts]]\nbegins = "tomorrow"\nends = "2026-03-03"\n',
            "site.resources[0].blackouts[0].begins",
        ),
        (
            f'{MICROSCOPE}[[site.resources.blackouts]]\n'
            'hours = [{ rrule = "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", start = "00:00",'
            ' duration = "1h" }]\n',
            "site.resources[0].blackouts[0]",
        ),
        (
            f'{MICROSCOPE}[[site.resources.priority]]\nwho = "everyone"\nhead_start = "8d"\n',
            "site.resources[0].priority[0].head_start",
        ),
        (
            '[[site.defaults.priority]]\nwho = "everyone"\nhead_start = "8d"\n' + MICROSCOPE,
            "site.defaults.priority[0].head_start",
        ),
        (
            f'{MICROSCOPE}[[site.resources.limits]]\nwho = "everyone"\napprovers = 2\n',
            "site.resources[0].limits[0].approvers",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused_with_its_path(text: str, where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        refused(text, MONDAY, MONDAY + HOUR)
    assert caught.value.where == where
    assert caught.value.remedy or "write" in caught.value.detail


@pytest.mark.parametrize("section", ["", "access[0].", "blackouts[0]."])
def test_hours_that_are_too_long_are_refused_in_words_with_their_path(section: str) -> None:
    hours = 'hours = [{ rrule = "FREQ=DAILY", start = "08:00", duration = "400d" }]\n'
    named = section.partition("[")[0]
    who = 'who = "everyone"\nmay = "lock"\n' if named == "access" else ""
    header = f"[[site.resources.{named}]]\n" if named else ""
    with pytest.raises(InvalidInput) as caught:
        refused(MICROSCOPE + header + who + hours, MONDAY, MONDAY + HOUR)
    assert caught.value.where == f"site.resources[0].{section}hours[0].duration"
    assert (caught.value.detail, caught.value.remedy) == (
        "a window of 400d",
        "give whole seconds from 1s to 366d",
    )


def test_a_share_is_of_the_week_as_long_as_it_is() -> None:
    assert UsageShare(fraction=0.5).of(4, 167 * HOUR) == 2 * 167 * HOUR
    assert UsageShare(unit_s=40 * HOUR).of(4, 167 * HOUR) == 40 * HOUR
    assert (
        Limit("a", "everyone", share=UsageShare(unit_s=5 * HOUR)).describe_share() == "5 unit-hours"
    )


def test_priority_is_granted_up_to_the_first_rule_that_matches_and_down_to_everyone() -> None:
    grants = PriorityGrants(
        (
            GrantConfiguration(who="user:anna", max=5),
            GrantConfiguration(who="group:staff", max=20),
            GrantConfiguration(who="everyone", max=1),
        )
    )
    assert grants.granted(ANNA, 50) == 5
    assert grants.granted(STAFF, 50) == 20
    assert grants.granted(STAFF, 3) == 3
    assert grants.granted(Principal("cy"), 3) == 1
    assert PriorityGrants().granted(ANNA, 3) == 0
    assert PriorityGrants().granted(ANNA, -7) == -7
