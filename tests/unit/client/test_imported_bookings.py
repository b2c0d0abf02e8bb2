"""Bookings of another system: each becomes a reservation once, or is refused with its place and reason."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.client.client import Client
from kalends.client.imports.booking_rows import BadRow, Names, read_bookings, read_names
from kalends.client.imports.tables import read_table
from kalends.core.errors import InvalidInput, KalendsError, TooLarge
from kalends.testing import LocalFacility

BERLIN = "Europe/Berlin"
NOW = "2027-03-01T09:00Z"
HEADER = "resource,user,start,end,note,groups,id"


@pytest.fixture
def lab() -> Iterator[LocalFacility]:
    staff = {"name": "staff", "who": "group:staff", "may": "lock"}
    resources = {
        "room": 1, "scope": 2, "laser": {"access": [staff]},
        "guarded": {"limits": [{"name": "all", "who": "everyone", "approval": True}]},
    }  # fmt: skip
    with LocalFacility({"lab": resources, "media": {"camera": 1}}, now=NOW) as servers:
        yield servers


def imported(
    lab: LocalFacility, path: Path, *, names: Path | None = None, resource: str = "",
    dry_run: bool = False, stop: bool = False,
) -> list[kalends.ImportedRow]:  # fmt: skip
    def as_user(user: str, groups: tuple[str, ...]) -> Client:
        return lab.client(user, groups=groups)

    return asyncio.run(
        kalends.import_bookings(
            path, as_user, zone=BERLIN, names=names, resource=resource, dry_run=dry_run, stop=stop
        )
    )


def table(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "old.csv"
    path.write_text("\n".join((header, *lines, "")), "utf-8")
    return path


def states(rows: list[kalends.ImportedRow]) -> list[str]:
    return [row.state for row in rows]


ROWS = (
    "lab/room,ann,2027-03-08 10:00,2027-03-08 12:00,first",
    "lab/room + media/camera,bob,2027-03-09 10:00,12:00,both",
    "lab/laser,ann,2027-03-09 10:00,12:00,,staff",
)


def test_rows_become_reservations_of_their_users_and_again_nothing(
    lab: LocalFacility, tmp_path: Path
) -> None:
    path = table(tmp_path, *ROWS)
    dry = imported(lab, path, dry_run=True)
    assert (states(dry), [row.id for row in dry]) == (["free"] * 3, [""] * 3)
    made = imported(lab, path)
    again = imported(lab, path)
    assert (states(made), states(again)) == (["made"] * 3, ["there"] * 3)
    assert [row.id for row in made] == [row.id for row in again]
    assert states(imported(lab, path, dry_run=True)) == ["there"] * 3
    with lab.sync_client("bob") as bob:
        (view,) = bob.list()
    assert (view.id, view.note, len(view.claims)) == (made[1].id, "both", 2)
    local = kalends.as_datetime(view.start, BERLIN)
    assert f"{local:%F %H:%M}" == "2027-03-09 10:00"


def test_a_bad_row_names_its_line_and_column_and_stops_no_other(
    lab: LocalFacility, tmp_path: Path
) -> None:
    path = table(
        tmp_path,
        "lab/room,ann,2027-03-08 10:00,noonish",
        "",
        '"lab/room",ann,,2027-03-08 12:00,"a note',
        'of two lines"',
        "the room,ann,2027-03-08 10:00,2027-03-08 12:00",
        "lab/laser,eve,2027-03-08 10:00,2027-03-08 12:00",
        "lab/room,eve,2026-03-08 10:00,2026-03-08 12:00",
        "lab/room,eve,2027-03-08 10:00,2027-03-08 12:00",
    )
    found = imported(lab, path)
    assert states(found) == ["bad", "bad", "bad", "refused", "over", "made"]
    problems = [(row.where, row.problem.where) for row in found if row.problem is not None]
    assert problems == [
        ("line 2", "end"), ("line 4", "start"), ("line 6", "resource"), ("line 7", ""),
    ]  # fmt: skip
    refused = found[3].problem
    assert refused is not None
    assert [each.where for each in refused.refusals] == ["lab/laser"]
    assert states(imported(lab, path, stop=True)) == ["bad"]


def test_a_dry_run_knows_what_rows_before_take(lab: LocalFacility, tmp_path: Path) -> None:
    with lab.sync_client("eve") as eve:
        eve.book("lab/scope", at="2027-03-08T12:00Z", duration="1h")
    path = table(
        tmp_path,
        "lab/scope,ann,2027-03-08T10:00Z,2027-03-08T12:00Z",
        "lab/scope,bob,2027-03-08T11:00Z,2027-03-08T12:00Z",
        "lab/scope,bob,2027-03-08T11:30Z,2027-03-08T13:00Z",
        "lab/scope,ann,2027-03-08T12:00Z,2027-03-08T13:00Z",
        "lab/scope,bob,2027-03-08T12:30Z,2027-03-08T13:30Z",
        "lab/room,ann,2027-03-08T12:00Z,2027-03-08T13:00Z",
    )
    expected = ["free", "free", "refused", "free", "refused", "free"]
    assert states(imported(lab, path, dry_run=True)) == expected
    done = imported(lab, path)
    assert states(done) == [state.replace("free", "made") for state in expected]


def test_a_refused_row_is_tried_again_by_a_later_import(lab: LocalFacility, tmp_path: Path) -> None:
    path = table(tmp_path, ROWS[0])
    with lab.sync_client("eve") as eve:
        taken = eve.book("lab/room", at="2027-03-08T09:00Z", duration="1h")
        assert states(imported(lab, path)) == ["refused"]
        eve.cancel(taken.id)
    assert states(imported(lab, path)) == ["made"]


def test_what_users_and_owners_did_since_stays(lab: LocalFacility, tmp_path: Path) -> None:
    path = table(tmp_path, *ROWS, "lab/guarded,eve,2027-03-08 10:00,2027-03-08 12:00")
    made = imported(lab, path)
    assert states(made) == ["made", "made", "made", "waits"]
    with lab.sync_client("ann") as ann, lab.sync_client("bob") as bob:
        ann.move(made[0].id, to="2027-03-10T10:00Z")
        bob.cancel(made[1].id)
    again = imported(lab, path)
    assert states(again) == ["there", "there", "there", "waits"]
    assert [row.detail for row in again[:2]] == ["it stands at another time", "it is cancelled"]


def test_rows_with_an_id_are_known_by_it_and_others_by_what_they_say(
    lab: LocalFacility, tmp_path: Path
) -> None:
    old = "lab/room,ann,2027-03-08 10:00,2027-03-08 12:00,,,"
    assert states(imported(lab, table(tmp_path, old, old))) == ["made", "there"]
    named = "lab/room,ann,2027-03-11 10:00,2027-03-11 12:00,,,17"
    assert states(imported(lab, table(tmp_path, old, named))) == ["there", "made"]
    moved = named.replace("-11", "-12")
    (row,) = imported(lab, table(tmp_path, moved))
    assert (row.state, row.detail) == ("there", "it stands at another time")
    (row,) = imported(lab, table(tmp_path, named.replace("room", "scope")))
    assert (row.state, row.detail) == ("there", "it is of lab/room")


def calendar(folder: Path, *events: str) -> Path:
    path = folder / "room.ics"
    text = "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *events, "END:VCALENDAR", ""])
    path.write_text(text, newline="")
    return path


def event(uid: str, start: str, *lines: str, by: str = "ann@lab.example") -> str:
    head = ["BEGIN:VEVENT", f"UID:{uid}", f"ORGANIZER:mailto:{by}", f"SUMMARY:run {uid}"]
    times = [f"DTSTART;TZID={BERLIN}:{start}", "DURATION:PT1H"]
    return "\r\n".join([*head, *times, *lines, "END:VEVENT"])


def test_events_of_a_calendar_are_known_by_their_uid(lab: LocalFacility, tmp_path: Path) -> None:
    names = tmp_path / "names.csv"
    names.write_text("there,here\n@lab.example,\nEVE@other.example,eve\nRoom 1,lab/room\n")
    weekly = ("RRULE:FREQ=WEEKLY;COUNT=3", "LOCATION:Room 1")
    # The second occurrence is an hour later; the clocks change before the third.
    moved = event("w", "20270325T110000", f"RECURRENCE-ID;TZID={BERLIN}:20270325T100000")
    events = (
        event("w", "20270318T100000", *weekly), moved,
        event("once", "20270320T100000", by="eve@other.example"),
        event("gone", "20270320T100000", "STATUS:CANCELLED"),
        event("who", "20270321T100000", by="mallory@elsewhere.example"),
        event("hourly", "20270321T100000", "RRULE:FREQ=HOURLY"),
    )  # fmt: skip
    path = calendar(tmp_path, *events)
    found = imported(lab, path, names=names, resource="lab/room")
    assert states(found) == ["made", "made", "made", "made", "bad", "bad"]
    hours = [f"{kalends.as_datetime(row.start, BERLIN):%d %H}" for row in found[:4]]
    assert hours == ["18 10", "01 10", "25 11", "20 10"]
    assert [row.user for row in found[:4]] == ["ann", "ann", "ann", "eve"]
    assert [row.problem.where for row in found[4:] if row.problem] == ["ORGANIZER", "VEVENT"]
    again = imported(lab, path, names=names, resource="lab/room")
    assert states(again) == ["there"] * 4 + ["bad"] * 2
    nowhere = imported(lab, calendar(tmp_path, moved), names=names)
    assert [row.problem.where for row in nowhere if row.problem] == ["LOCATION"]


def test_an_occurrence_that_is_moved_later_stays_one_reservation(
    lab: LocalFacility, tmp_path: Path
) -> None:
    names = tmp_path / "names.csv"
    names.write_text("there,here\n@lab.example,\n")
    weekly = event("w", "20270318T100000", "RRULE:FREQ=WEEKLY;COUNT=2")
    moved = event("w", "20270325T140000", "RECURRENCE-ID:20270325T090000Z")
    first = imported(lab, calendar(tmp_path, weekly), names=names, resource="lab/room")
    again = imported(lab, calendar(tmp_path, weekly, moved), names=names, resource="lab/room")
    assert (states(first), states(again)) == (["made"] * 2, ["there"] * 2)
    assert [row.id for row in first] == [row.id for row in again]


def test_an_event_twice_in_a_file_is_known_in_a_dry_run_too(
    lab: LocalFacility, tmp_path: Path
) -> None:
    names = tmp_path / "names.csv"
    names.write_text("there,here\n@lab.example,\n")
    path = calendar(tmp_path, *[event("once", "20270320T100000")] * 2)
    for dry_run, expected in ((True, "free"), (False, "made")):
        found = imported(lab, path, names=names, resource="lab/room", dry_run=dry_run)
        assert states(found) == [expected, "there"]


@pytest.mark.parametrize("user", ["\u00e4nne", "an ne", '"an\nne"'])
def test_a_user_who_cannot_call_stops_no_other_row(
    user: str, lab: LocalFacility, tmp_path: Path
) -> None:
    path = table(tmp_path, ROWS[0].replace("ann", user), ROWS[1])
    found = imported(lab, path)
    assert states(found) == ["bad", "made"]
    assert [row.problem.where for row in found if row.problem] == ["user"]


@pytest.mark.parametrize(
    ("start", "end"), [("10:00", "11:00"), ("fri 10:00", "11:00"), ("8 mar 10:00", "11:00")]
)
def test_a_time_that_means_another_day_in_a_later_import_is_not_understood(
    start: str, end: str, tmp_path: Path
) -> None:
    path = table(tmp_path, f"lab/room,ann,{start},{end}")
    ((row,), _) = read_bookings(path, zone=ZoneInfo(BERLIN), now_s=0)
    assert isinstance(row, BadRow)
    assert (row.error.where, "no date" in row.error.detail) == ("start", True)


def test_a_quote_that_does_not_end_swallows_no_rows(tmp_path: Path) -> None:
    path = table(tmp_path, ROWS[0].replace("first", '"first'), *ROWS[1:])
    with pytest.raises(InvalidInput, match="line 2"):
        read_bookings(path, zone=ZoneInfo(BERLIN), now_s=0)


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0c"])
def test_only_line_ends_end_a_row(sign: str, tmp_path: Path) -> None:
    path = table(tmp_path, ROWS[0].replace("first", f"first{sign}run"))
    ((row,), _) = read_bookings(path, zone=ZoneInfo(BERLIN), now_s=0)
    assert not isinstance(row, BadRow)
    assert row.note == f"first{sign}run"


def test_a_calendar_with_too_much_in_it_is_refused_with_a_remedy_of_imports(
    tmp_path: Path,
) -> None:
    path = calendar(tmp_path, event("d", "11700101T100000", "RRULE:FREQ=DAILY"))
    names = Names({"@lab.example": ""})
    with pytest.raises(TooLarge) as refused:
        read_bookings(path, zone=ZoneInfo(BERLIN), now_s=2**31, names=names, resource="room")
    assert (refused.value.where, refused.value.remedy[:6]) == (str(path), "export")


def test_names_of_a_domain_may_keep_or_change_their_end() -> None:
    names = Names({"@a.example": "", "@b.example": "@b", "cara@a.example": "chris"})
    addresses = ("ann@a.example", "bob@B.example", "Cara@a.example", "dan@c.example", "dan")
    assert [names.of(each) for each in addresses] == ["ann", "bob@b", "chris", "", ""]


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("resource,user,start", "no column end"),
        ("resource,user,start,end,user", "two columns user"),
    ],
)
def test_a_table_without_its_columns_is_refused_whole(
    header: str, fault: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=fault):
        read_bookings(table(tmp_path, *ROWS, header=header), zone=ZoneInfo(BERLIN), now_s=0)


def test_a_spreadsheet_s_table_is_read_in_any_order_and_case(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text(
        "\ufeffUser;End;RESOURCE;Start;Colour\nann;12:00;lab/room;2027-03-08 10:00;red\n"
    )
    ((row,), ignored) = read_bookings(path, zone=ZoneInfo("UTC"), now_s=0)
    assert not isinstance(row, BadRow)
    assert (row.user, row.request, row.end - row.start, ignored) == (
        "ann", "lab/room", 7_200, ("colour",),
    )  # fmt: skip


CELLS = st.text(alphabet='ab/+1:, ";\n\r\t2027-03-08@\x00\u00e9', max_size=24)


@given(content=st.binary(max_size=200) | st.lists(CELLS).map(lambda each: ",".join(each).encode()))
def test_no_file_crashes_the_reading(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".csv", ".ics"):
            path = Path(folder) / f"old{ending}"
            path.write_bytes((HEADER.encode() + b"\n" if ending == ".csv" else b"") + content)
            for read in (bookings_in, read_names, rows_in):
                with contextlib.suppress(KalendsError):
                    read(path)


def bookings_in(path: Path) -> object:
    return read_bookings(path, zone=ZoneInfo(BERLIN), now_s=0)


def rows_in(path: Path) -> None:
    assert all(row.line >= 2 for row in read_table(path, ("resource",)).rows)
