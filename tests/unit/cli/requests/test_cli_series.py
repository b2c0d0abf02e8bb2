"""Series on the command line: booked, listed, shown, tried again, cancelled; their exit codes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from tests.support.command_line import data

from kalends.cli import cli
from kalends.cli.requests.series import folded
from kalends.contract.request_views import RequestView
from kalends.testing import LocalFacility

BOOK = ("book", "east/room", "--for", "1h", "--at", "2027-03-02 14:00")


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalFacility]:
    near = {"capacity": 1, "horizon": "14d"}
    with LocalFacility({"east": {"room": 1, "near": near}}, now="2027-03-01T09:00Z") as facility:
        yield facility


def run(servers: LocalFacility, *arguments: str, user: str = "ann") -> Result:
    variables = {
        "KALENDS_BROKER": servers.url("broker"),
        "KALENDS_USER": user,
        "KALENDS_ZONE": "Europe/Berlin",
    }
    return CliRunner().invoke(cli, arguments, env={**variables, "COLUMNS": "120"})


def test_a_series_is_booked_listed_in_one_row_shown_and_cancelled(servers: LocalFacility) -> None:
    booked = run(servers, *BOOK, "--every", "week on tue,thu", "--times", "9")
    assert booked.exit_code == 0, booked.output
    assert "first Tue 2027-03-02 14:00, last Tue 2027-03-30 14:00" in booked.stderr
    assert "clocks change" in booked.stderr
    id = booked.stdout.split()[1].rstrip(":")
    assert booked.stdout.startswith(f"series {id}: 9 reserved\n")

    listed = run(servers, "list").stdout.splitlines()
    assert len(listed) == 2
    assert listed[1].startswith(id)
    assert "Tue 2027-03-02 14:00" in listed[1]
    assert "series: 9 reserved" in listed[1]
    assert len(run(servers, "list", "--unfold").stdout.splitlines()) == 10
    assert len(data(run(servers, "list", "--json"), "requests")) == 9

    one = run(servers, "show", f"{id}@2027-03-04")
    assert one.stdout.startswith("reserved ")
    assert run(servers, "cancel", id).exit_code == 2
    assert run(servers, "cancel", f"{id}@2027-03-05").exit_code == 2
    assert run(servers, "cancel", f"{id}@2027-03-04").stdout.startswith(
        f"series {id}: 8 reserved, 1 cancelled\n"
    )
    later = run(servers, "cancel", f"{id}@2027-03-11", "--following")
    assert "2 reserved, 7 cancelled" in later.stdout
    assert "9 cancelled" in run(servers, "cancel", id, "--all").stdout
    assert [
        each["state"] for each in data(run(servers, "show", id, "--json"), "series")["occurrences"]
    ]


def test_a_list_shows_the_next_occurrence_of_a_series_and_not_one_that_is_over() -> None:
    rows = [
        RequestView(
            id=f"5d0c000{day}", state="reserved", user="ann", text="room", created_at=1,
            start=day * 100, end=day * 100 + 50, series="5d0c0000",
        )
        for day in (3, 1, 2)
    ]  # fmt: skip
    assert [folded(rows, now_s)[0].start for now_s in (99, 149, 150, 260)] == [100, 100, 200, 300]


def test_a_series_is_moved_extended_and_shrunk_as_a_whole_or_from_an_occurrence_on(
    servers: LocalFacility,
) -> None:
    booked = run(servers, *BOOK[:-1], "2027-03-23 16:00", "--every", "week", "--times", "3")
    id = booked.stdout.split()[1].rstrip(":")
    moved = run(servers, "move", id, "--all", "--by", "1h", "--key", "move-by-1h")
    assert moved.exit_code == 0, moved.output
    assert f"{id} by 1h: all" in moved.stderr
    assert moved.stdout.count(" 17:00 ") == 3
    again = run(servers, "move", id, "--all", "--by", "1h", "--key", "move-by-1h")
    assert again.stdout == moved.stdout
    later = ("--following", "--to", "2027-03-31 09:00")
    moved = run(servers, "move", f"{id}@2027-03-30", *later, "--key", "following")
    assert "2027-03-30T16:00 and the following" in moved.stderr
    assert "Wed 2027-03-31 09:00" in moved.stdout
    assert "Wed 2027-04-07 09:00" in moved.stdout
    assert run(servers, "move", f"{id}@2027-03-30", *later, "--key", "following").exit_code == 0
    longer = run(servers, "extend", f"{id}@2027-04-06", "--for", "2h")
    assert longer.exit_code == 0, longer.output
    shown = data(run(servers, "show", id, "--json"), "series")["occurrences"]
    assert [each["end"] - each["start"] for each in shown] == [3_600, 3_600, 7_200]
    assert run(servers, "shrink", id, "--all", "--for", "30m").exit_code == 0
    run(servers, "book", "east/room", "--for", "1h", "--at", "2027-04-07 10:00", user="bob")
    refused = run(servers, "move", id, "--all", "--by", "1h")
    assert refused.exit_code == 5, refused.output
    assert "not changed: east/room: taken" in refused.stdout
    assert "nothing was changed" in refused.stderr
    assert run(servers, "cancel", id, "--all").exit_code == 0


def test_what_could_not_be_changed_of_as_many_as_possible_has_the_exit_code_of_a_part(
    servers: LocalFacility,
) -> None:
    booked = run(
        servers, *BOOK[:-1], "2027-04-20 12:00", "--every", "week", "--times", "3", "--as-many"
    )
    id = booked.stdout.split()[1].rstrip(":")
    run(servers, "book", "east/room", "--for", "1h", "--at", "2027-04-27 13:00", user="bob")
    part = run(servers, "move", id, "--all", "--by", "1h")
    assert part.exit_code == 3, part.output
    assert "1 could not be changed" in part.stderr
    assert part.stdout.count(" 13:00 ") == 2
    assert run(servers, "cancel", id, "--all").exit_code == 0


def test_what_was_missed_has_an_exit_code_of_its_own_and_is_tried_again(
    servers: LocalFacility,
) -> None:
    taken = run(servers, "book", "east/room", "--for", "1h", "--at", "2027-04-08 14:00", user="bob")
    at = ("book", "east/room", "--for", "1h", "--at", "2027-04-01 14:00", "--every", "week")
    refused = run(servers, *at, "--times", "3")
    assert refused.exit_code == 5, refused.output
    assert "3 failed" in refused.stdout
    assert "east/room" in refused.stdout
    part = run(servers, *at, "--until", "2027-04-15", "--as-many")
    assert part.exit_code == 3, part.output
    assert "2 reserved, 1 failed" in part.stdout
    assert "east/room: taken for some time between" in part.stdout
    assert "nearest free start: Thu 2027-04-08 15:00" in part.stdout
    missed = data(run(servers, "show", part.stdout.split()[1].rstrip(":"), "--json"), "series")
    assert [bool(each["nearest"]) for each in missed["occurrences"]] == [False, True, False]
    id = part.stdout.split()[1].rstrip(":")
    assert f"kalends series retry {id}" in part.stderr
    assert run(servers, "series", "retry", id).exit_code == 3
    number = taken.stdout.split()[1]
    assert run(servers, "cancel", number, user="bob").exit_code == 0
    assert run(servers, "series", "retry", id).exit_code == 0
    assert run(servers, "cancel", id, "--all").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (*BOOK, "--times", "3"),
        (*BOOK, "--every", "week"),
        (*BOOK, "--every", "week", "--times", "3", "--until", "2027-04-01"),
        (*BOOK, "--every", "week", "--until", "next week"),
        (*BOOK, "--every", "fortnight", "--times", "3"),
        (*BOOK, "--every", "week", "--rrule", "FREQ=DAILY;COUNT=2"),
        (*BOOK, "--rrule", "FREQ=DAILY"),
        (*BOOK, "--every", "week", "--times", "3", "--when-free"),
        (*BOOK, "--give", "30m"),
        (*BOOK, "--keep-going"),
        (*BOOK, "--every", "week", "--times", "3", "--give", "4d"),
        (*BOOK, "--every", "week", "--times", "3", "--give", "soon"),
        ("book", "east/room", "--for", "1h", "--every", "week", "--times", "3"),
        ("find", "east/room", "--for", "1h", "--times", "3"),
        ("find", "east/room", "--for", "1h", "--between", "09:00-18:00"),
        ("find", "east/room", "--for", "1h", "--every", "week", "--times", "3", "--explain"),
        ("find", "east/room", "--for", "1h", "--every", "week", "--times", "3", "--between", "9"),
        ("cancel", "5d0c0000", "--following"),
        ("cancel", "5d0c0000@2027-03-09", "--all"),
        ("move", "5d0c0000", "--to", "tomorrow 14:00"),
        ("move", "5d0c0000", "--all", "--to", "tomorrow 14:00"),
        ("move", "5d0c0000", "--following", "--by", "1h"),
        ("move", "5d0c0000", "--all", "--elsewhere"),
        ("move", "5d0c1f2e", "--by", "1h"),
        ("move", "5d0c0000@2027-03-09", "--all", "--by", "soon"),
        ("move", "5d0c0000", "--all", "--by", "soon"),
        ("extend", "5d0c0000", "--all"),
        ("shrink", "5d0c0000@2027-03-09", "--all", "--by", "1h"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    servers: LocalFacility, arguments: tuple[str, ...]
) -> None:
    refused = run(servers, *arguments)
    assert refused.exit_code == 2, refused.output
    assert refused.stdout == ""


def test_the_best_hours_are_shown_with_the_command_that_books_them(servers: LocalFacility) -> None:
    run(servers, "book", "east/room", "--for", "1h", "--at", "2027-05-11 09:00", user="bob")
    find = ("find", "east/room", "--for", "1h", "--after", "2027-05-03 00:00", "--every", "week")
    found = run(servers, *find, "--times", "3", "--between", "09:00-10:00", "--count", "7")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert "3 of 3  Mon 2027-05-03 09:00" in lines[1]
    assert lines[-1].split() == ["2", "of", "3", "Tue", "2027-05-04", "09:00", "2027-05-11"]
    command = found.stderr.splitlines()[-1].removeprefix("to book the first: kalends ")
    booked = run(servers, *shlex.split(command))
    assert booked.exit_code == 0, booked.output
    assert "3 reserved" in booked.stdout
    assert run(servers, "cancel", booked.stdout.split()[1].rstrip(":"), "--all").exit_code == 0


def test_hours_at_which_nothing_fits_end_as_a_booking_would(servers: LocalFacility) -> None:
    run(servers, "book", "east/room", "--for", "24h", "--at", "2027-06-02 00:00", user="bob")
    found = run(
        servers, "find", "east/room", "--for", "1h", "--after", "2027-06-02 00:00",
        "--every", "week on wed", "--times", "1",
    )  # fmt: skip
    assert found.exit_code == 5, found.output
    assert "no occurrence fits" in found.stderr


def test_each_may_give_way_and_the_rest_is_booked_as_the_horizon_moves(
    servers: LocalFacility,
) -> None:
    book = ("book", "east/near", "--for", "1h", "--at", "2027-03-02 14:00", "--every", "week")
    refused = run(servers, *book, "--times", "4")
    assert refused.exit_code == 5, refused.output
    assert "2 of 4 occurrences lie within its horizon, which ends" in refused.stderr
    assert "--keep-going" in refused.stderr
    find = ("find", "east/near", "--for", "1h", "--every", "week on tue", "--times", "4")
    found = run(servers, *find)
    assert "the horizon of east/near ends" in found.stderr
    assert found.stderr.rstrip().endswith("--as-many --keep-going")
    run(servers, "book", "east/near", "--for", "1h", "--at", "2027-03-02 13:30", user="bob")
    booked = run(servers, *book, "--times", "4", "--give", "30m", "--keep-going")
    assert booked.exit_code == 0, booked.output
    assert "each up to 30m earlier or later" in booked.stderr
    assert "2 reserved, 2 open" in booked.stdout
    assert "Tue 2027-03-02 14:30" in booked.stdout
    assert "beyond the horizon; is asked for Tue 2027-03-02 15:35" in booked.stdout
    id = booked.stdout.split()[1].rstrip(":")
    assert "beyond the horizon of east/near" in run(servers, "show", f"{id}@2027-03-16").stdout
    (row,) = (each for each in run(servers, "list").stdout.splitlines() if id in each)
    assert "series: 2 open, 2 reserved" in row
    assert "Tue 2027-03-02 14:30" in row
    assert "4 cancelled" in run(servers, "cancel", id, "--all").stdout


def test_a_series_that_was_extended_shows_how_long_each_occurrence_is_now(
    servers: LocalFacility,
) -> None:
    booked = run(servers, *BOOK[:-1], "2027-08-03 10:00", "--every", "week", "--times", "2")
    id = booked.stdout.split()[1].rstrip(":")
    assert "LENGTH" not in booked.stdout
    run(servers, "extend", f"{id}@2027-08-10", "--by", "30m")
    shown = run(servers, "show", id).stdout
    assert "for      1h, as booked\n" in shown
    assert "Tue 2027-08-03 10:00   1h " in shown
    assert "Tue 2027-08-10 10:00   1h30m " in shown
    fewer = run(servers, "shrink", id, "--all", "--units", "east/room=1")
    assert "to 1 of east/room: all" in fewer.stderr
    assert "kalends: nothing would change" in fewer.stderr
    still = run(servers, "move", id, "--all", "--by", "0m")
    assert "kalends: --by: 0 s is not a duration" in still.stderr
    assert run(servers, "cancel", id, "--all").exit_code == 0
