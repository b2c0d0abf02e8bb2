"""The commands against a real server on loopback: what they print, where, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from client_broker import Broker
from command_line import Run, data
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.cli import cli
from kalends.cli.console.output import json_text
from kalends.core.errors import (
    Expired,
    KalendsError,
    LimitExceeded,
    LostRace,
    NotAllowed,
    NotFound,
)

WHEN = ["--for", "2h", "--at", "2027-01-15 09:00"]


def booked(run: Run, *more: str) -> str:
    return str(data(run("book", "sdsc/sp2:64 + caltech/onyx", *WHEN, "--json", *more))["id"])


def test_book_echoes_what_it_understood_and_prints_the_reservation(run: Run) -> None:
    result = run("book", " sdsc/sp2:64+caltech/onyx", *WHEN, "--note", "run 7", "--key", "my-key-1")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "request  sdsc/sp2:64 + caltech/onyx",
        "for      2h",
        "at       Fri 2027-01-15 09:00:00 CET (UTC+01:00)",
        "note     run 7",
        "key      my-key-1",
    ]
    lines = result.stdout.splitlines()
    assert lines[0].startswith("reserved ")
    assert (
        "sdsc/sp2         64  Fri 2027-01-15 09:00   Fri 2027-01-15 11:00  confirmed"
        in result.stdout
    )


def test_a_window_is_echoed_with_both_ends(run: Run) -> None:
    result = run(
        "find", "sdsc/sp2", "--for", "90m", "--after", "2027-01-15", "--before", "2027-01-16"
    )
    assert "after    Fri 2027-01-15 00:00:00 CET (UTC+01:00)" in result.stderr
    assert "before   Sat 2027-01-16 00:00:00 CET (UTC+01:00)" in result.stderr
    assert len(result.stdout.splitlines()) == 3


def test_find_shows_weights_and_prices_only_where_they_say_something(run: Run) -> None:
    when = ("--for", "2h", "--after", "2027-01-15 09:00")
    plain = run("find", "sdsc/sp2:64", *when).stdout.splitlines()
    assert plain[0].split() == ["START", "(Europe/Berlin)", "END", "ON"]
    explained = run("find", "sdsc/sp2:64", *when, "--explain").stdout.splitlines()
    assert explained == [
        "START (Europe/Berlin)  END                   WEIGHT  IDLE  ON",
        "Fri 2027-01-15 09:00   Fri 2027-01-15 11:00     1.5   30m  sdsc/sp2:64",
        "Fri 2027-01-15 09:00   Fri 2027-01-15 11:00       0     -  sdsc/sp2:64",
        "for a better start at Fri 2027-01-15 07:00 1 booking would have to move (fewer might do):",
        "RESOURCE  UNITS  START (Europe/Berlin)  END                   STATE   HOLDER",
        "sdsc/sp2     64  Fri 2027-01-15 07:00   Fri 2027-01-15 09:00  locked  ada",
    ]


def test_the_echo_comes_even_when_the_server_refuses(run: Run, broker: Broker) -> None:
    broker.faults.append(NotAllowed("not for you", where="sdsc/sp2"))
    result = run("book", "sdsc/sp2", *WHEN)
    assert result.stderr.index("request  sdsc/sp2") < result.stderr.index(
        "kalends: sdsc/sp2: not for you"
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("gone"), 1), (NotAllowed("no"), 4), (LostRace("lost"), 6), (Expired("late"), 7),
        (LimitExceeded("full"), 75),
    ],
)  # fmt: skip
def test_the_exit_code_is_that_of_the_error(
    run: Run, broker: Broker, error: KalendsError, code: int
) -> None:
    broker.faults.append(error)
    assert run("resources").exit_code == code
    broker.faults.append(error)
    result = run("resources", "--json")
    assert (result.exit_code, data(result)["code"]) == (code, error.code)


def test_no_common_time_lists_each_refusal_and_ends_with_five(run: Run) -> None:
    for name in ("book", "find"):
        result = run(name, "caltech/onyx", "--for", "2d")
        assert result.exit_code == 5
        assert result.stdout == ""
        assert "caltech/onyx  busy  taken from 08:00 [2J to 10:00 (rule day-shift)" in result.stderr


def test_what_others_wrote_cannot_steer_the_terminal(run: Run) -> None:
    run("book", "caltech/onyx", "--for", "2d", "--note", "a\x1b]0;title\x07b")
    listed = run("list").stdout + run("why", "0001").stdout + run("show", "0001").stdout
    assert "\x1b" not in listed
    assert "\x07" not in listed


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_is_printable_and_means_what_it_meant(text: str) -> None:
    meant = {"text": text, text: "\x9b31m \u202egnp.exe \U000e0041"}
    told = json_text("note", meant)
    assert all(sign.isprintable() or sign == "\n" for sign in told)
    assert json.loads(told)["data"] == meant


def test_a_missing_broker_says_so_and_what_to_check() -> None:
    result = CliRunner().invoke(cli, ["--broker", "http://127.0.0.1:9", "list"])
    assert result.exit_code == 75
    assert result.stderr.splitlines() == [
        "kalends: http://127.0.0.1:9: no answer: nothing listens there (connection refused)",
        "  try: check the address, and that the server is running there",
    ]


def test_a_lost_answer_tells_how_to_ask_and_show_by_key_settles_it(
    run: Run, broker: Broker
) -> None:
    broker.faults.extend(["drop-after", *[LimitExceeded("full")] * 5])
    result = run("book", "sdsc/sp2", *WHEN, "--key", "lost-key-1")
    assert result.exit_code == 75
    assert "try: kalends show --key lost-key-1" in result.stderr
    broker.faults.clear()
    assert run("show", "--key", "lost-key-1").stdout.startswith("reserved ")
    assert run("show", "--key", "other-key").exit_code == 1


def test_ids_are_found_by_any_unique_ending_of_four_characters(run: Run) -> None:
    first, second = booked(run), booked(run)
    assert first[:-4] == second[:-4]
    for text in (first, first.upper(), first[-4:], first[-9:]):
        assert data(run("show", text, "--json"))["id"] == first
    short = run("show", first[-3:])
    assert (short.exit_code, "is not an id" in short.stderr) == (2, True)
    none = run("show", "ffff")
    assert (none.exit_code, "none of your requests has the id ffff" in none.stderr) == (1, True)


def test_an_ending_of_several_requests_names_them(run: Run, broker: Broker) -> None:
    first = booked(run)
    twin = f"{first[:12]}1{first[13:]}"
    broker.requests[twin] = msgspec.structs.replace(broker.requests[first], id=twin)
    result = run("cancel", first[-8:])
    assert result.exit_code == 2
    assert first in result.stderr
    assert twin in result.stderr
    assert broker.requests[first].state == "reserved"


def test_hold_lock_release_cancel_follow_a_request_through_its_life(run: Run) -> None:
    held = run("hold", "caltech/onyx", *WHEN, "--keep", "5m")
    assert "expires " in held.stdout
    assert "kalends lock 00000001" in held.stderr
    assert run("lock", "0001").stdout.startswith("reserved ")
    assert run("release", "0001").exit_code == 1
    assert run("cancel", "0001").stdout.startswith("cancelled ")
    assert run("cancel", "0001").stdout.startswith("cancelled ")


def test_move_extend_and_shrink_say_what_they_ask_and_print_what_is(run: Run) -> None:
    booked(run)
    moved = run("move", "0001", "--to", "2027-02-01 10:00")
    assert "to start at Mon 2027-02-01 10:00:00 CET (UTC+01:00)" in moved.stderr
    assert "start    Mon 2027-02-01 10:00:00 CET" in moved.stdout
    assert (
        run("move", "0001").exit_code
        == run("move", "0001", "--to", "now", "--elsewhere").exit_code
        == 2
    )
    assert "3h later" in run("extend", "0001", "--by", "1h").stdout
    assert "4h later" in run("extend", "0001", "--for", "4h").stdout
    smaller = run("shrink", "0001", "--by", "1h", "--units", "sdsc/sp2=8", "--json")
    assert [claim["units"] for claim in data(smaller)["claims"]] == [8, 1]
    assert run("shrink", "0001", "--units", "sdsc/sp2").exit_code == 2
    assert run("extend", "0001").exit_code == 2
    refused = run("extend", "0001", "--for", "2d")
    assert (refused.exit_code, "REFUSED BY" in refused.stderr) == (5, True)


def test_list_prints_aligned_rows_and_filters(run: Run) -> None:
    booked(run)
    run("hold", "caltech/onyx", *WHEN)
    lines = run("list").stdout.splitlines()
    assert lines[0].split() == [
        "ID",
        "STATE",
        "START",
        "(Europe/Berlin)",
        "LENGTH",
        "USER",
        "REQUEST",
    ]
    assert [line.split()[1] for line in lines[1:]] == ["held", "reserved"]
    assert len({line.index("2h") for line in lines[1:]}) == 1
    assert len(data(run("list", "--state", "held", "--json"))) == 1
    assert data(run("list", "--before", "0001", "--json")) == []


def test_list_leaves_out_tries_that_failed_shows_notes_and_says_that_there_are_more(
    run: Run, broker: Broker
) -> None:
    first, second, third = (booked(run, "--note", f"run {number}") for number in range(3))
    failed = msgspec.structs.replace(broker.requests[second], state="failed")
    broker.requests[second] = failed
    page = run("list", "--count", "1")
    assert [line.split()[0] for line in page.stdout.splitlines()] == ["ID", third[-8:]]
    assert page.stdout.splitlines()[0].endswith("NOTE")
    assert page.stdout.splitlines()[1].endswith("run 2")
    assert f"there are more: kalends list --before {third[-8:]}" in page.stderr
    rest = run("list", "--before", third[-8:])
    assert [line.split()[0] for line in rest.stdout.splitlines()] == ["ID", first[-8:]]
    assert rest.stderr == ""
    assert len(data(run("list", "--all", "--json"))) == 3
    assert [each["id"] for each in data(run("list", "--state", "failed", "--json"))] == [second]


def test_shrink_refuses_to_grow(run: Run) -> None:
    id = booked(run)
    refused = run("shrink", id, "--units", "caltech/onyx=2")
    assert refused.exit_code == 2
    assert (
        "--units: the reservation has 1 units of caltech/onyx and cannot be shrunk to 2"
        in refused.stderr
    )
    assert run("shrink", id, "--for", "4h").exit_code == 2


def test_what_sites_say_of_claims_fits_the_state_of_the_request(run: Run, broker: Broker) -> None:
    id = booked(run)
    view = broker.requests[id]
    fresh = [msgspec.structs.replace(each, confirmed=False) for each in view.claims]
    broker.requests[id] = msgspec.structs.replace(view, claims=tuple(fresh))
    assert "promised" in run("show", id).stdout
    cancelled = run("cancel", id).stdout
    assert "confirmed" not in cancelled
    assert "freed" in cancelled


def test_json_has_every_field_whatever_its_value(run: Run) -> None:
    request = data(run("show", booked(run), "--json"))
    assert (request["problem"], request["note"], request["attempts"]) == (None, "", 1)


def test_resources_lists_them_and_names_sites_that_are_down(run: Run) -> None:
    result = run("resources")
    assert result.exit_code == 0
    assert "caltech/onyx      1     1m  always  kind=onyx memory=4" in result.stdout
    assert "site ncsa does not answer" in result.stderr


def test_calendar_draws_and_lists_slots_within_eighty_columns(run: Run) -> None:
    result = run("calendar", "sdsc/sp2", "--from", "2027-01-15", "--for", "1d", NO_COLOR="1")
    assert result.exit_code == 0
    drawing, _, slots = result.stdout.partition("\n\nSTART")
    assert max(map(len, drawing.splitlines())) <= 80
    assert "64 " + "_" * 27 + "·" * 9 + "█" * 3 + "-" * 33 in drawing
    assert "█ locked" in drawing
    assert "closed, or not open to you" in drawing
    assert "available" in slots
    assert "locked     ada" in slots
    assert "\x1b" not in result.stdout


def test_calendar_refuses_windows_that_make_no_sense(run: Run) -> None:
    assert run("calendar", "a/b", "--for", "1d", "--to", "now+2d").exit_code == 2
    assert run("calendar", "a/b", "--from", "now", "--to", "now").exit_code == 2
    assert run("calendar", "a/none").exit_code == 1


def test_why_tells_the_story_with_refusals(run: Run) -> None:
    run("book", "caltech/onyx", "--for", "2d")
    result = run("why", "0001")
    assert result.exit_code == 0
    assert "booked  caltech/onyx" in result.stdout
    assert "rule day-shift" in result.stdout


def test_watch_streams_events_and_stops_after_a_count(run: Run) -> None:
    booked(run)
    run("cancel", "0001")
    lines = run("watch", "--after", "0", "--count", "1", "--json").stdout.splitlines()
    assert [json.loads(line)["data"]["kind"] for line in lines] == ["cancelled"]


def test_watch_on_a_terminal_says_that_it_waits(broker: Broker) -> None:
    screen, terminal = os.openpty()
    words = [sys.executable, "-m", "kalends", "watch", "--broker", broker.url, "--user", "ada"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=terminal) as watching:
        assert os.read(screen, 100).decode().strip() == "watching; Ctrl-C stops"
        watching.terminate()
    os.close(screen)
    os.close(terminal)


def test_watch_from_now_on_sees_what_happens_next(run: Run, broker: Broker) -> None:
    id = booked(run)

    def cancel_once_watched() -> None:
        broker.watched.wait()
        with kalends.connect_sync(broker.url, user="ada") as client:
            client.cancel(id)

    other = threading.Thread(target=cancel_once_watched)
    other.start()
    result = run("watch", "0001", "--count", "1")
    other.join()
    assert re.match(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  00000001  cancelled", result.stdout)


def test_a_request_that_cannot_be_read_is_shown_with_the_place_marked(
    run: Run, broker: Broker
) -> None:
    result = run("book", "3 of {kind=sgi", "--for", "2h")
    assert result.exit_code == 2
    text = result.stderr.splitlines()
    assert text[1].strip() == "3 of {kind=sgi"
    assert text[2].index("^") == text[1].index("3") + len("3 of {kind=sgi")
    assert broker.seen == []


@pytest.mark.parametrize(
    "words",
    [
        ["book", "a/b"],
        ["book", "a/b", "--for", "2"],
        ["book", "a/b", "--for", "2h", "--at", "now", "--after", "now"],
        ["book", "a/b", "--for", "2h", "--wait", "10"],
        ["book", "a/b", "--for", "2h", "--key", "x"],
        ["show"],
        ["show", "0001", "--key", "some-key"],
        ["shrink", "0001"],
        ["nonsense"],
        ["list", "--state", "nonsense"],
        ["--zone", "Mars/Olympus", "list"],
        ["--broker", "nonsense", "list"],
        ["--token-file", "/nonsense", "list"],
        ["serve", "/nonsense.toml"],
    ],
)
def test_usage_errors_end_with_two_in_words_and_as_json(
    run: Run, broker: Broker, words: list[str]
) -> None:
    plain, as_json = run(*words), run(*words, "--json")
    assert (plain.exit_code, as_json.exit_code) == (2, 2)
    assert plain.stderr
    assert "Traceback" not in plain.output
    assert json.loads(as_json.stdout)["kind"] == "problem"
    assert broker.seen == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["boook"], "Did you mean book?"), (["list", "--stat"], "--state"),
        (["admin", "tokn"], "token"), (["xyzzy"], "See kalends -h."),
    ],
)  # fmt: skip
def test_near_misses_are_suggested(run: Run, words: list[str], hint: str) -> None:
    assert hint in run(*words).stderr


def test_global_options_stand_before_or_after_and_win_over_the_environment(
    run: Run, broker: Broker, tmp_path: Path
) -> None:
    run("--user", "eve", "list")
    run("list", "--user", "bob")
    run("--user", "eve", "list", "--user", "bob")
    run("list")
    assert broker.users == ["eve", "bob", "bob", "ada"]
    broker.token = "secret"
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o600)
    assert run("list").exit_code == 4
    assert run("list", "--token-file", str(tmp_path / "token")).exit_code == 0
    assert run("list", KALENDS_TOKEN="secret").exit_code == 0
    assert run("--token", "wrong", "list", KALENDS_TOKEN="secret").exit_code == 4


def test_a_token_is_never_printed(run: Run, broker: Broker) -> None:
    broker.token = "secret"
    assert "wrong-token" not in run("list", "--token", "wrong-token").output
    assert "wrong\ttoken" not in run("list", "--token", "wrong\ttoken").output


def test_an_open_booking_says_how_to_follow_it(run: Run, broker: Broker) -> None:
    id = booked(run)
    broker.requests[id] = msgspec.structs.replace(broker.requests[id], state="open")
    assert "kalends watch 00000001" in run("show", id).stderr
