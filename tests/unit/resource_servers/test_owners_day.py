"""An owner's day: who comes, what waits, what has changed, what was used, in the zone of the site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

import kalends
from kalends.cli import cli
from kalends.client.sync import SyncClient
from kalends.contract.day_calls import DayView
from kalends.core.times import parse_time
from kalends.testing import LocalFacility

NOW = "2027-03-03T07:00Z"
"""A Wednesday; eight o'clock in Berlin."""

BERLIN = "Europe/Berlin"
GUARDED = {"zone": BERLIN, "limits": [{"name": "others", "who": "everyone", "approval": True}]}


@pytest.fixture
def lab() -> Iterator[LocalFacility]:
    resources: dict[str, Any] = {
        "scope": {"zone": BERLIN, "capacity": 2},
        "room": {"zone": BERLIN},
        "laser": GUARDED,
    }
    resources["watched"] = {"zone": BERLIN, "no_show": "15m"}
    sites: Mapping[str, Mapping[str, Any]] = {"lab": resources, "other": {"cave": 1}}
    with LocalFacility(sites, now=NOW) as servers:
        yield servers


def client(lab: LocalFacility, user: str, at: str = "") -> SyncClient:
    return lab.sync_client(user, at=at, zone=BERLIN)


def today(lab: LocalFacility, **asked: str) -> DayView:
    with client(lab, "operator", "lab") as owner:
        return owner.today(**asked)


def at(text: str) -> int:
    return parse_time(text, 0, ZoneInfo(BERLIN))


def test_who_comes_is_listed_by_start_in_the_day_of_the_site(lab: LocalFacility) -> None:
    with client(lab, "ann") as ann, client(lab, "bob") as bob:
        late = bob.book("lab/room", duration="1h", at="2027-03-03 23:00")
        early = ann.book("lab/scope:2 + other/cave", duration="2h", at="2027-03-03 10:00")
        ann.book("lab/room", duration="1h", at="2027-03-04 00:00")
        held = ann.hold("lab/room", duration="1h", at="2027-03-03 12:00")
    view = today(lab)
    assert (view.site, view.zone, view.day) == ("lab", BERLIN, "2027-03-03")
    assert (view.start, view.end) == (at("2027-03-03"), at("2027-03-04"))
    assert [(e.id, e.user, e.resource, e.units, e.state) for e in view.comes] == [
        (early.id, "ann", "lab/scope", 2, "locked"),
        (held.id, "ann", "lab/room", 1, "held"),
        (late.id, "bob", "lab/room", 1, "locked"),
    ]
    assert [each.user for each in today(lab, day="tomorrow").comes] == ["ann"]
    assert [each.user for each in today(lab, day="2027-03-04", zone="UTC").comes] == []


def test_what_was_moved_or_cancelled_is_told_once_with_its_new_place(lab: LocalFacility) -> None:
    with client(lab, "ann") as ann:
        moved = ann.book("lab/room", duration="1h", at="2027-03-03 10:00")
        ann.move(moved.id, to="2027-03-03 12:00")
        twice = ann.move(ann.list()[0].id, to="2027-03-05 12:00")
        gone = ann.book("lab/scope", duration="1h", at="2027-03-03 15:00")
        ann.cancel(gone.id)
    seen = [
        (e.id, e.resource, e.start, e.made, e.to_resource, e.to_start) for e in today(lab).changed
    ]
    place = ("moved", "lab/room", at("2027-03-05 12:00"))
    assert twice.state == "reserved"
    assert seen == [
        (moved.id, "lab/room", at("2027-03-03 12:00"), *place),
        (gone.id, "lab/scope", at("2027-03-03 15:00"), "cancelled", "", 0),
    ]


def test_what_waits_for_approval_comes_with_its_note(lab: LocalFacility) -> None:
    with client(lab, "ann") as ann:
        ann.book("lab/laser", duration="1h", at="2027-03-03 10:00", note="living cells")
    view = today(lab)
    assert [(each.user, each.note) for each in view.waiting] == [("ann", "living cells")]
    assert [(each.state, each.note) for each in view.comes] == [("held", "living cells")]


def test_use_of_the_week_is_that_which_has_passed(lab: LocalFacility) -> None:
    with client(lab, "ann") as ann:
        ann.book("lab/scope:2", duration="2h", at="2027-03-03 08:30")
        left = ann.book("lab/room", duration="3h", at="2027-03-03 09:00")
        lab.clock.advance(hours=2)
        ann.cancel(left.id)
    used = {each.resource: (each.unit_s, each.reservations) for each in today(lab).used}
    scope_s, room_s = used["lab/scope"][0], used["lab/room"][0]
    assert 2 * 5_400 <= scope_s < 2 * 5_460
    assert 3_600 <= room_s < 3_720, "what had passed of a cancelled one was used"
    assert used["lab/scope"][1] == used["lab/room"][1] == 1


def test_the_view_outlives_a_restart_of_the_site(lab: LocalFacility) -> None:
    with client(lab, "ann") as ann:
        kept = ann.book("lab/room", duration="1h", at="2027-03-03 10:00")
        gone = ann.book("lab/scope", duration="1h", at="2027-03-03 11:00")
        ann.cancel(gone.id)
    before = today(lab)
    lab.stop("lab")
    lab.start("lab")
    after = today(lab)
    assert (after.comes, after.changed) == (before.comes, before.changed)
    assert [each.id for each in after.comes] == [kept.id]


def test_a_day_that_is_none_is_refused_at_its_place(lab: LocalFacility) -> None:
    for asked, where in (({"day": "someday"}, "day"), ({"zone": "Mars"}, "zone")):
        with pytest.raises(kalends.InvalidInput) as raised:
            today(lab, **asked)
        assert raised.value.where == where


def test_the_command_prints_the_day_in_paragraphs(lab: LocalFacility) -> None:
    with client(lab, "ann") as ann:
        ann.book("lab/laser", duration="1h", at="2027-03-03 10:00", note="living cells")
        gone = ann.book("lab/room", duration="1h", at="2027-03-03 11:00")
        ann.cancel(gone.id)
    words = ("today", "--broker", lab.url("lab"), "--user", "operator")
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0] == f"lab, Wed 2027-03-03 ({BERLIN})"
    assert "1 reservation" in lines
    assert "waits for your approval" in lines
    assert "moved or cancelled" in lines
    by_name = CliRunner().invoke(
        cli,
        ("today", "--site", "lab", "--broker", lab.url("broker"), "--user", "operator", "--json"),
    )
    assert '"kind": "day"' in by_name.stdout, by_name.output


def test_a_check_in_by_the_command_reaches_all_sites_and_is_shown_to_their_owners(
    lab: LocalFacility,
) -> None:
    with client(lab, "ann") as ann:
        booked = ann.book("lab/room + other/cave", duration="1h", at="2027-03-03 08:15")
    words = ("--broker", lab.url("broker"), "--user", "ann", "--zone", "UTC")
    shown = CliRunner().invoke(cli, ("checkin", booked.id[-8:], *words))
    assert shown.exit_code == 0, shown.output
    assert sorted(line.split(" to ")[1].split()[0] for line in shown.stdout.splitlines()) == [
        "lab/room", "other/cave",
    ]  # fmt: skip
    (slot,) = today(lab).comes
    assert slot.came_at >= at("2027-03-03 08:00")
    lab.stop("lab")
    lab.start("lab")
    assert today(lab).comes == (slot,)
    early = CliRunner().invoke(cli, ("checkin", "00000000", "--site", "lab", *words))
    assert "no slot of this reservation runs here" in early.stderr


def test_a_slot_without_a_check_in_is_given_back_and_counted(lab: LocalFacility) -> None:
    with client(lab, "ann") as ann:
        booked = ann.book("lab/watched", duration="2h", at="2027-03-03 08:45")
        for _ in range(65):
            lab.clock.advance(minutes=1)
            if ann.show(booked.id).state == "cancelled":
                break
        view = ann.show(booked.id)
    assert view.state == "cancelled"
    assert view.changed is not None
    assert view.changed.reason == "no check-in within 15m"
    day = today(lab)
    assert day.no_shows == {"ann": 1}
    assert [part.resource for part in day.absent] == ["lab/watched"]
    assert not day.reclaims
