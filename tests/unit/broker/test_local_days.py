"""The grain counts from the owner's midnight, and a day of it is the owner's day, over clock changes too."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

import kalends
from kalends.cli import cli
from kalends.core.errors import InvalidInput, NoCommonTime
from kalends.testing import LocalFacility

BERLIN = "Europe/Berlin"
LORD_HOWE = "Australia/Lord_Howe"
NOON = [{"rrule": "FREQ=DAILY", "start": "09:00", "duration": "8h"}]
HOUR_S = 3_600


def at(text: str, zone: str = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns", BERLIN])
def test_hours_begin_with_the_opening_hours_whatever_the_clock_is_off_utc(zone: str) -> None:
    scope = {"zone": zone, "grain": "1h", "hours": NOON}
    with (
        LocalFacility({"lab": {"scope": scope}}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=zone) as ann,
    ):
        for length_h in (1, 8):
            found = ann.find(
                "lab/scope", duration=f"{length_h}h", window=("2027-03-03", "2027-03-09")
            )
            assert found.candidates[0].start == at("2027-03-03T09:00", zone)
        with pytest.raises(InvalidInput) as refused:
            ann.book("lab/scope", duration="1h", at="2027-03-03 09:30", patience="none")
        assert f"from midnight ({zone})" in refused.value.refusals[0].detail


def test_the_hours_of_a_clock_that_changes_by_half_an_hour_are_full_on_every_day() -> None:
    scope = {"zone": LORD_HOWE, "grain": "1h", "hours": NOON}
    days = ("2027-04-03", "2027-04-04", "2027-04-05", "2027-10-02", "2027-10-03", "2027-10-04")
    with (
        LocalFacility({"lab": {"scope": scope}}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=LORD_HOWE) as ann,
    ):
        for day in days:
            booked = ann.book("lab/scope", duration="8h", at=f"{day} 09:00", patience="none")
            assert (booked.start, booked.end) == (
                at(f"{day}T09:00", LORD_HOWE), at(f"{day}T17:00", LORD_HOWE),
            )  # fmt: skip


DAYS = {"room": {"zone": BERLIN, "grain": "15m"}, "day": {"zone": BERLIN, "grain": "1d"}}


@pytest.mark.parametrize(
    ("day", "next_day", "hours"),
    [
        ("2027-03-28", "2027-03-29", 23),
        ("2027-10-31", "2027-11-01", 25),
        ("2027-05-05", "2027-05-06", 24),
    ],
)
@pytest.mark.parametrize("wanted", ["lab/day", "lab/day + lab/room", "lab/room + {colour=red}"])
def test_a_whole_day_lasts_from_midnight_to_midnight(
    day: str, next_day: str, hours: int, wanted: str
) -> None:
    colours = {"day": {**DAYS["day"], "attributes": {"colour": "red"}}, "room": DAYS["room"]}
    with (
        LocalFacility({"lab": colours}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
    ):
        found = ann.find(wanted, duration="1d", window=(day, "2027-11-05"))
        assert found.candidates[0].start == at(f"{day}T00:00")
        asked = {"at": day} if "{" not in wanted else {"window": (day, next_day)}
        booked = ann.book(wanted, duration="1d", patience="none", **asked)
        assert {(each.start, each.end) for each in booked.claims} == {
            (at(f"{day}T00:00"), at(f"{next_day}T00:00"))
        }
        assert booked.end - booked.start == hours * HOUR_S
        with pytest.raises(NoCommonTime):
            ann.book("lab/day", duration="1d", at=day, patience="none")


def test_windows_hold_for_whole_days_over_clock_changes_too() -> None:
    with (
        LocalFacility({"lab": DAYS}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
    ):
        weekend = "between 2027-03-27T00:00 2027-03-29T00:00"
        twice = [ann.book(f"lab/day {weekend}", duration="1d").start for _ in range(2)]
        assert sorted(twice) == [at("2027-03-27T00:00"), at("2027-03-28T00:00")]
        with pytest.raises(NoCommonTime) as refused:
            ann.book(f"lab/day {weekend}", duration="1d", patience="none")
        assert "lies in your" in str(refused.value)
        with pytest.raises(InvalidInput, match="longest window is only"):
            ann.book("lab/day between 08:00 20:00", duration="1d")
        paired = "lab/day + lab/room @10h for 2h between 10:00 12:00"
        found = ann.find(paired, duration="1d", window=("2027-10-31", "2027-11-02"), count=2)
        days = [at("2027-10-31T00:00"), at("2027-11-01T00:00")]
        assert [each.start for each in found.candidates] == days


def test_days_are_changed_as_days_and_stages_keep_their_days_apart() -> None:
    with (
        LocalFacility({"lab": DAYS}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
    ):
        booked = ann.book("lab/day", duration="1d", at="2027-03-27", patience="none")
        longer = ann.extend(booked.id, by="1d")
        assert (longer.start, longer.end) == (at("2027-03-27T00:00"), at("2027-03-29T00:00"))
        moved = ann.move(booked.id, "2027-10-30 00:00")
        assert (moved.start, moved.end) == (at("2027-10-30T00:00"), at("2027-11-01T00:00"))
        again = ann.move(booked.id, "2027-10-29")
        assert (again.start, again.end) == (at("2027-10-29T00:00"), at("2027-10-31T00:00"))
        shorter = ann.shrink(booked.id, by="1d")
        assert (shorter.start, shorter.end) == (at("2027-10-29T00:00"), at("2027-10-30T00:00"))
        stages = ann.book("lab/day + lab/day @+7d", duration="1d", at="2027-03-22", patience="none")
        assert [each.start for each in stages.claims] == [
            at("2027-03-22T00:00"),
            at("2027-03-29T00:00"),
        ]


def test_a_day_alone_is_where_whole_days_move_and_nothing_else() -> None:
    with LocalFacility({"lab": DAYS}, now="2027-03-01T18:00Z") as servers:
        url = servers.url("broker")
        with servers.sync_client("ann", zone=BERLIN) as ann:
            days = ann.book("lab/day", duration="1d", at="2027-03-28", patience="none")
            hour = ann.book("lab/room", duration="1d", at="2027-03-27 12:00", patience="none")
            with pytest.raises(InvalidInput, match="a day without a time of day"):
                ann.move(hour.id, "2027-04-01")
        words = ["move", days.id, "--to", "2027-10-31", "--broker", url, "--user", "ann"]
        moved = CliRunner().invoke(cli, [*words, "--zone", BERLIN])
        assert moved.exit_code == 0, moved.output
        assert "Sun 2027-10-31 00:00:00 CEST" in moved.output
        assert "Mon 2027-11-01 00:00:00 CET" in moved.output
        words[1] = hour.id
        refused = CliRunner().invoke(cli, [*words, "--zone", BERLIN])
        assert "--to: Sun 2027-10-31 is a day without a time of day" in refused.output


@pytest.mark.parametrize(
    ("zone", "grain", "day"),
    [(BERLIN, 24, "2027-03-27"), (BERLIN, 6, "2027-10-31"), (LORD_HOWE, 24, "2027-04-03")],
)
def test_a_length_over_a_clock_change_is_changed_again_and_again(
    zone: str, grain: int, day: str
) -> None:
    scope = {"zone": zone, "grain": f"{grain}h"}
    with (
        LocalFacility({"lab": {"scope": scope}}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=zone) as ann,
    ):
        booked = ann.book("lab/scope", duration=f"{grain}h", at=f"{day} 00:00", patience="none")
        step = f"{grain}h"
        ends = {1: booked.end}
        for grains in (2, 3):
            ends[grains] = ann.extend(booked.id, by=step).end
        midnight = datetime.fromisoformat(day)
        assert ends == {
            grains: at((midnight + timedelta(hours=grain * grains)).isoformat(), zone)
            for grains in (1, 2, 3)
        }
        assert ann.shrink(booked.id, by=step).end == ends[2]
        assert ann.shrink(booked.id, by=step).end == ends[1]


def test_what_is_off_the_grain_is_told_the_days_next_to_it() -> None:
    with (
        LocalFacility({"lab": DAYS}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
        pytest.raises(InvalidInput) as refused,
    ):
        ann.book("lab/day", duration="1d", at="2027-03-28 04:00", patience="none")
    assert "start at Sun 2027-03-28 00:00:00" in refused.value.refusals[0].detail
    assert "or Mon 2027-03-29 00:00:00" in refused.value.refusals[0].detail


def test_days_in_one_zone_and_hours_in_another_meet_at_midnight_of_the_first() -> None:
    scopes = {"day": DAYS["day"], "far": {"zone": "Asia/Kolkata", "grain": "30m"}}
    with (
        LocalFacility({"lab": scopes}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
    ):
        found = ann.find("lab/day + lab/far", duration="1d", window=("2027-03-28", "2027-04-05"))
        assert found.candidates[0].start == at("2027-03-28T00:00")
        booked = ann.book("lab/day + lab/far", duration="1d", at="2027-03-28", patience="none")
        assert booked.end == at("2027-03-29T00:00")


def test_an_owner_takes_a_day_back_and_the_reservation_has_another_day() -> None:
    with (
        LocalFacility({"lab": DAYS}, now="2027-03-01T18:00Z") as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
        servers.sync_client("owner", at="lab", zone=BERLIN) as owner,
    ):
        booked = ann.book("lab/day", duration="1d", at="2027-03-29", patience="none")
        owner.reclaim("lab/day", at="2027-03-29", duration="1d", reason="a new pump", notice="1h")
        assert any(event.kind == "changed" for event in ann.watch(booked.id, after=0))
        moved = ann.show(booked.id)
        assert (moved.start, moved.end) == (at("2027-03-28T00:00"), at("2027-03-29T00:00"))


def hours(start: str, duration: str) -> list[dict[str, str]]:
    return [{"rrule": "FREQ=DAILY", "start": start, "duration": duration}]


ALL = {"name": "all", "who": "everyone"}


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"grain": "7h"}, "grain"),
        ({"grain": "1h", "hours": hours("09:30", "1h")}, "hours"),
        ({"grain": "1d", "hours": hours("09:00", "8h")}, "hours"),
        (
            {
                "grain": "1h",
                "access": [{"who": "everyone", "may": "lock", "hours": hours("09:30", "1h")}],
            },
            "access[0].hours",
        ),
        ({"grain": "1h", "limits": [{**ALL, "longest": "30m"}]}, "grain"),
        ({"grain": "1d", "limits": [{**ALL, "week_hours": 20}]}, "grain"),
        ({"grain": "1d", "limits": [{**ALL, "week_share": 0.1}]}, "grain"),
        ({"grain": "1h", "limits": [{**ALL, "locked_hours": 0.5}]}, "grain"),
        ({"grain": "1h", "limits": [{**ALL, "lead": "2d"}], "horizon": "1d"}, "grain"),
        ({"grain": "1h", "limits": [{**ALL, "lead": "5d", "ahead": "120h59m"}]}, "grain"),
        ({"grain": "1h", "limits": [{**ALL, "ahead": "30m"}]}, "grain"),
        ({"grain": "1h", "limits": [{**ALL, "lead": "23h30m"}], "horizon": "1d"}, "grain"),
        ({"zone": "PST"}, "zone"),
        ({"zone": "GMT+2"}, "zone"),
    ],
)
def test_what_could_never_be_booked_is_refused_at_the_start(
    settings: dict[str, object], where: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        LocalFacility({"lab": {"scope": {"zone": BERLIN, **settings}}}).__enter__()
    assert refused.value.where == f"site.resources[0].{where}"
    assert refused.value.remedy


@pytest.mark.parametrize(
    "settings",
    [
        {"grain": "1h", "hours": [*hours("09:30", "1h"), *hours("10:30", "30m")]},
        {"grain": "1d", "hours": hours("00:00", "24h")},
        {
            "grain": "1h",
            "limits": [
                {"name": "staff", "who": "group:staff", "longest": "2h"},
                {**ALL, "longest": "30m"},
            ],
        },
        {"grain": "1h", "limits": [{**ALL, "lead": "5d", "ahead": "121h"}]},
        {"grain": "1h", "limits": [{**ALL, "ahead": "1h"}]},
    ],
)
def test_what_somebody_could_book_is_served(settings: dict[str, object]) -> None:
    with LocalFacility({"lab": {"scope": {"zone": BERLIN, **settings}}}):
        pass


EVERY_OTHER = {"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", "start": "09:00", "duration": "4h"}
FIVE = {"rrule": "FREQ=DAILY;COUNT=5", "start": "09:00", "duration": "4h"}
TUESDAY, NEXT_TUESDAY = "2027-03-02 09:00", "2027-03-09 09:00"


@pytest.mark.parametrize("rule", [EVERY_OTHER, FIVE])
@pytest.mark.parametrize("first", ["2027-03-02", datetime(2027, 3, 2).date()])
@pytest.mark.parametrize("place", ["hours", "access", "blackouts"])
def test_recurring_times_count_from_a_first_day_wherever_owners_write_them(
    rule: dict[str, str], first: object, place: str
) -> None:
    times = [{**rule, "first": first}]
    settings = {
        "hours": {"hours": times},
        "access": {"access": [{"who": "everyone", "may": "lock", "hours": times}]},
        "blackouts": {"blackouts": [{"name": "service", "hours": times}]},
    }[place]
    closed = place == "blackouts"
    with (
        LocalFacility(
            {"lab": {"scope": {"zone": BERLIN, **settings}}}, now="2027-02-20T08:00Z"
        ) as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
    ):
        for day, named in ((TUESDAY, True), (NEXT_TUESDAY, False)):
            if named == closed:
                with pytest.raises(kalends.KalendsError):
                    ann.book("lab/scope", duration="1h", at=day, patience="none")
            else:
                assert (
                    ann.book("lab/scope", duration="1h", at=day, patience="none").state
                    == "reserved"
                )


@pytest.mark.parametrize("place", ["hours", "blackouts"])
def test_a_rule_without_the_first_day_that_it_needs_is_refused_with_what_works(place: str) -> None:
    times = [EVERY_OTHER]
    settings = (
        {"hours": times} if place == "hours" else {"blackouts": [{"name": "x", "hours": times}]}
    )
    with pytest.raises(InvalidInput) as refused:
        LocalFacility({"lab": {"scope": settings}}).__enter__()
    assert refused.value.where.endswith("hours[0].first")
    assert 'first = "' in refused.value.remedy
    with pytest.raises(InvalidInput, match="is not a day"):
        LocalFacility({"lab": {"scope": {"hours": [{**EVERY_OTHER, "first": "soon"}]}}}).__enter__()


def test_one_budget_for_the_only_owner_counts_the_hour_that_a_day_is_longer() -> None:
    day = {**DAYS["day"], "prices": [{"name": "all", "credits": 1}]}
    with (
        LocalFacility({"lab": {"day": day}}, now="2027-10-01T09:00Z") as servers,
        servers.sync_client("ann", zone=BERLIN) as ann,
    ):
        window = ("2027-10-31", "2027-11-03")
        found = ann.find("lab/day", duration="1d", window=window, at_most=24.5)
        assert [each.start for each in found.candidates] == [
            at("2027-11-01T00:00"), at("2027-11-02T00:00"),
        ]  # fmt: skip
        found = ann.find("lab/day", duration="1d", window=window, at_most=25)
        assert found.candidates[0].start == at("2027-10-31T00:00")
