"""Waiting at the terminal: progress, leaving and coming back, waiting lists, recalls, preferences, copies."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from client_broker import BUSY, NOW_S, Broker
from command_line import Run, data
from rich.console import Console
from tests.support.patience import PATIENCE_S

from kalends.cli.console.settings import Settings
from kalends.cli.requests.request_options import Progress, Waits, settled
from kalends.contract import calls
from kalends.core.errors import LostRace, NoCommonTime, Unavailable

WHEN = ["--for", "2h", "--at", "2027-01-15 09:00"]


def in_line(ahead: int, *awaited: str, **more: Any) -> dict[str, Any]:
    # NOW_S is Fri 2027-01-15 09:00 in Berlin.
    waiting = calls.Waiting(since=NOW_S, until=NOW_S + 60, ahead=ahead, awaited=awaited, **more)
    return {"waiting": waiting}


def listed() -> dict[str, Any]:
    return in_line(1, "caltech/onyx", listed=True)


RESERVED = {"state": "reserved"}
STEPS = [in_line(2, "caltech/onyx", earliest=NOW_S), in_line(0, "caltech/onyx"), RESERVED]


def failed(detail: str = "no room") -> dict[str, Any]:
    problem = NoCommonTime(detail, refusals=(BUSY,)).to_problem()
    return {"state": "failed", "problem": problem, "claims": ()}


def sent(broker: Broker) -> list[calls.Book]:
    return [body for _, body in broker.seen if isinstance(body, calls.Book)]


def test_book_waits_until_it_is_settled_and_tells_each_step_in_a_line(
    run: Run, broker: Broker
) -> None:
    broker.courses.append(list(STEPS))
    result = run("book", "caltech/onyx", *WHEN, "--key", "my-key-1")
    assert result.exit_code == 0
    assert result.stdout.startswith("reserved ")
    assert result.stderr.splitlines()[-2:] == [
        "waiting for caltech/onyx, 2 ahead; trying Fri 2027-01-15 09:00; "
        "gives up Fri 2027-01-15 09:01 (Europe/Berlin)",
        "waiting for caltech/onyx, next in line; gives up Fri 2027-01-15 09:01 (Europe/Berlin)",
    ]


def test_a_site_that_does_not_answer_is_waited_for_in_other_words(run: Run, broker: Broker) -> None:
    broker.courses.append([in_line(0, "ncsa"), in_line(0, "far-away", "ncsa"), STEPS[-1]])
    result = run("book", "ncsa/cave", *WHEN)
    assert "waiting for site ncsa to answer; gives up" in result.stderr
    assert "waiting for sites far-away and ncsa to answer; gives up" in result.stderr


def test_with_json_nothing_is_told_but_what_was_understood_and_the_answer(
    run: Run, broker: Broker
) -> None:
    broker.courses.append(list(STEPS))
    result = run("book", "caltech/onyx", *WHEN, "--json")
    assert data(result)["state"] == "reserved"
    assert "waiting" not in result.stderr


def test_on_a_terminal_progress_is_one_line_that_changes_and_goes(broker: Broker) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, legacy_windows=False)
    view = calls.RequestView(
        id="0" * 36, state="open", user="ada", text="a/x", created_at=NOW_S,
        **in_line(1, "evil\x1b[2J"),
    )  # fmt: skip
    with Progress(Settings(zone="UTC"), console) as progress:
        progress(view)
    drawn = screen.getvalue()
    assert "waiting for evil [2J, 1 ahead" in drawn
    assert "\x1b[2J" not in drawn
    assert drawn.count("\n") <= 1


def test_a_refusal_after_waiting_ends_with_its_exit_code(run: Run, broker: Broker) -> None:
    broker.courses.append([STEPS[0], failed()])
    result = run("book", "caltech/onyx", *WHEN)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "kalends: no room" in result.stderr


def test_a_refusal_of_what_is_taken_names_the_waiting_list_and_one_by_a_rule_does_not(
    run: Run, broker: Broker
) -> None:
    hint = "add --when-free to wait until the request can be booked"
    broker.faults.append(NoCommonTime("taken", refusals=(BUSY,)))
    result = run("book", "caltech/onyx", *WHEN)
    assert result.exit_code == 5
    assert result.stderr.splitlines()[-1] == hint
    rule = msgspec.structs.replace(BUSY, code="blackout")
    broker.faults.append(NoCommonTime("closed", refusals=(BUSY, rule)))
    assert hint not in run("book", "caltech/onyx", *WHEN).stderr
    broker.faults.append(NoCommonTime("taken", refusals=(BUSY,)))
    assert hint not in run("book", "caltech/onyx", *WHEN, "--when-free").stderr
    broker.faults.append(NoCommonTime("taken", refusals=(BUSY,)))
    assert hint not in run("book", "caltech/onyx", "--for", "2h").stderr


def test_a_wait_that_is_over_says_how_to_wait_on_and_how_to_give_up(
    run: Run, broker: Broker
) -> None:
    broker.courses.append(list(STEPS))
    result = run("book", "caltech/onyx", *WHEN, "--wait", "1s")
    assert result.exit_code == 0
    assert result.stdout.startswith("open 00000001")
    assert "still waiting: kalends show 00000001 --follow" in result.stderr
    assert "waiting  waiting for caltech/onyx, 2 ahead" in run("show", "0001").stdout
    followed = run("show", "0001", "--follow")
    assert followed.stdout.startswith("reserved ")
    assert "next in line" in followed.stderr


def test_a_broker_that_stays_away_is_an_error_that_says_how_to_wait_on() -> None:
    class Away:
        def wait(self, id: str, **options: Any) -> calls.RequestView:
            raise Unavailable("nothing listens there", remedy="check the address")

    view = calls.RequestView(
        id="0" * 28 + "010887aa", state="open", user="ada", text="a/x", created_at=NOW_S
    )
    with pytest.raises(Unavailable, match=r"request continues.*kalends show 010887aa --follow"):
        settled(Settings(zone="UTC"), Away(), Waits(), "key", lambda wait_s: view)


def test_what_waits_can_be_cancelled_or_released_by_its_id(run: Run, broker: Broker) -> None:
    for command in ("cancel", "release"):
        broker.courses.append(list(STEPS))
        asked = data(run("book", "caltech/onyx", *WHEN, "--wait", "1s", "--json"))
        assert run(command, asked["id"]).stdout.startswith("cancelled ")


def test_no_wait_asks_for_no_patience_and_shows_other_starts_when_refused(
    run: Run, broker: Broker
) -> None:
    broker.faults.append(NoCommonTime("taken", refusals=(BUSY,)))
    result = run("book", "caltech/onyx", *WHEN, "--no-wait", "--prefer", "mornings")
    assert (result.exit_code, result.stdout) == (5, "")
    assert sent(broker)[-1].patience == "none"
    told = result.stderr.splitlines()
    assert "waits    not at all" in told
    assert told[-1] == "add --when-free to wait until the request can be booked"
    assert told.index("kalends: taken") < told.index("free now, at or after that start:")
    [looked] = [body for _, body in broker.seen if isinstance(body, calls.Find)]
    assert (looked.request.not_before, looked.request.not_after) == (NOW_S, 0)
    assert looked.request.preferences == sent(broker)[-1].request.preferences


def test_no_wait_keeps_the_exit_code_and_the_refusal_when_nothing_can_be_shown(
    run: Run, broker: Broker
) -> None:
    broker.faults.extend([LostRace("lost"), NoCommonTime("the broker does not know either")])
    result = run("hold", "caltech/onyx", *WHEN, "--no-wait")
    assert result.exit_code == 6
    assert "kalends: lost" in result.stderr
    assert "free now" not in result.stderr


def test_no_wait_with_json_prints_the_problem_and_looks_no_further(
    run: Run, broker: Broker
) -> None:
    broker.faults.append(NoCommonTime("taken", refusals=(BUSY,)))
    result = run("book", "caltech/onyx", *WHEN, "--no-wait", "--json")
    assert (result.exit_code, data(result)["code"]) == (5, "no-common-time")
    assert [name for name, _ in broker.seen] == ["book"]


def test_when_free_returns_once_it_is_listed_and_says_how_to_follow(
    run: Run, broker: Broker
) -> None:
    broker.courses.append([in_line(0), listed(), RESERVED])
    result = run("hold", "caltech/onyx", *WHEN, "--when-free", "--until", "2027-01-15 12:00")
    assert result.exit_code == 0
    assert result.stdout.startswith("open ")
    [body] = sent(broker)
    assert (body.patience, body.hold, body.give_up_at) == ("taken", True, NOW_S + 3 * 3_600)
    assert "also on waiting lists; at most until Fri 2027-01-15 12:00:00" in (result.stderr)
    assert "on waiting lists: kalends show 00000001 --follow" in result.stderr
    assert "on the waiting list of caltech/onyx, 1 ahead" in result.stdout


def test_when_free_with_wait_waits_as_long_as_it_says(run: Run, broker: Broker) -> None:
    broker.courses.append([in_line(0), listed(), RESERVED])
    result = run("book", "caltech/onyx", *WHEN, "--when-free", "--wait", "1h")
    assert result.stdout.startswith("reserved ")


@pytest.mark.parametrize(
    "more", [["--when-free"], ["--until", "tomorrow"], ["--wait", "1m"]], ids=str
)
def test_no_wait_leaves_nothing_to_say_about_waiting(
    run: Run, broker: Broker, more: list[str]
) -> None:
    assert run("book", "caltech/onyx", *WHEN, "--no-wait", *more).exit_code == 2
    assert broker.seen == []


def test_priority_and_preferences_are_sent_and_told_in_full(run: Run, broker: Broker) -> None:
    result = run(
        "book", "caltech/onyx", "--for", "2h", "--after", "2027-01-15", "--before", "2027-01-18",
        "--priority", "3", "--prefer", "mon-thu 09:00-12:00", "--prefer", "sat -2.5",
    )  # fmt: skip
    assert result.exit_code == 0
    wanted = sent(broker)[-1].request
    assert wanted.priority == 3
    assert [preference.weight for preference in wanted.preferences] == [-2.5]
    assert "prefer   +1 for a start Mon-Thu 09:00-12:00 (Europe/Berlin): never in this window" in (
        result.stderr
    )
    assert (
        "prefer   -2.5 for a start Sat (Europe/Berlin): once, from Sat 2027-01-16 00:00:00 CET "
        "(UTC+01:00) to Sun 2027-01-17 00:00:00 CET (UTC+01:00)" in result.stderr
    )
    assert "priority +3" in result.stderr


def test_find_prefers_as_book_does(run: Run, broker: Broker) -> None:
    week = ["--for", "2h", "--after", "2027-01-15", "--before", "2027-01-18", "--prefer", "sat +2"]
    assert "prefer   +2 for a start Sat" in run("find", "caltech/onyx", *week).stderr
    run("book", "caltech/onyx", *week)
    [looked] = [body for _, body in broker.seen if isinstance(body, calls.Find)]
    assert looked.request.preferences == sent(broker)[-1].request.preferences
    assert [preference.weight for preference in looked.request.preferences] == [2.0]


def test_a_preference_that_is_not_understood_is_never_sent(run: Run, broker: Broker) -> None:
    result = run("book", "caltech/onyx", *WHEN, "--prefer", "mornigns")
    assert result.exit_code == 2
    assert "--prefer: 'mornigns' is not a time to prefer" in result.stderr
    assert "did you mean mornings?" in result.stderr
    assert broker.seen == []


def test_copies_are_printed_one_by_one_and_end_with_the_first_refusal(
    run: Run, broker: Broker
) -> None:
    broker.courses.extend([list(STEPS), [in_line(1, "caltech/onyx"), failed()]])
    result = run("book", "caltech/onyx", *WHEN, "--copies", "3", "--key", "my-copies")
    assert result.exit_code == 5
    assert sorted(broker.by_key) == ["my-copies-1", "my-copies-2", "my-copies-3"]
    heads = [line.split()[0] for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert sorted(heads) == ["failed", "kalends:", "reserved", "reserved"]
    assert "copies   3, each by itself" in result.stderr


def test_copies_as_json_are_one_document(run: Run) -> None:
    result = run("book", "caltech/onyx", *WHEN, "--copies", "2", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kind"] == "requests"
    assert [view["state"] for view in data(result)] == ["reserved", "reserved"]


def test_list_waiting_has_a_row_for_each_that_waits_and_for_what(run: Run, broker: Broker) -> None:
    run("book", "sdsc/sp2", *WHEN)
    broker.courses.append([in_line(0), listed(), RESERVED])
    run("book", "caltech/onyx", *WHEN, "--when-free")
    lines = run("list", "--waiting").stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("ID        AHEAD  WAITS FOR")
    assert lines[1].split()[:4] == ["00000002", "1", "caltech/onyx", "(listed)"]
    assert [view["id"][-1] for view in data(run("list", "--waiting", "--json"))] == ["2"]
    assert run("list", "--waiting", "--state", "open").exit_code == 2


def recalled(run: Run, broker: Broker) -> None:
    run("hold", "caltech/onyx", *WHEN)
    [view] = broker.requests.values()
    broker.keep(msgspec.structs.replace(view, recalled_until=NOW_S + 190), "recalled")


RECALL = "an older request wants it: lock by 09:03:10 or lose it: kalends lock 00000001"


def test_watch_tells_a_recall_with_what_to_do_by_when(run: Run, broker: Broker) -> None:
    recalled(run, broker)
    result = run("watch", "--after", "0", "--count", "1")
    assert result.stdout.splitlines()[-1] == f"  ! {RECALL}"
    as_json = run("watch", "--after", "0", "--count", "1", "--json")
    assert data(as_json)["kind"] == "recalled"
    assert len(as_json.stdout.splitlines()) == 1


def test_a_recall_that_is_over_when_watch_looks_asks_for_nothing(run: Run, broker: Broker) -> None:
    recalled(run, broker)
    [view] = broker.requests.values()
    broker.requests[view.id] = msgspec.structs.replace(view, state="cancelled", recalled_until=0)
    assert "!" not in run("watch", "--after", "0", "--count", "1").stdout


def test_a_recall_whose_deadline_is_not_written_yet_is_told_all_the_same(
    run: Run, broker: Broker
) -> None:
    recalled(run, broker)
    [view] = broker.requests.values()
    broker.requests[view.id] = msgspec.structs.replace(view, recalled_until=0)
    told = run("watch", "--after", "0", "--count", "1").stdout
    assert "an older request wants it: lock it now or lose it: kalends lock 00000001" in told


def test_a_recalled_hold_says_so_wherever_it_is_shown(run: Run, broker: Broker) -> None:
    recalled(run, broker)
    result = run("show", "0001")
    assert "recalled until Fri 2027-01-15 09:03:10 CET (UTC+01:00)" in result.stdout
    assert RECALL in result.stderr


def test_ctrl_c_leaves_it_waiting_and_says_how_to_go_on(broker: Broker) -> None:
    broker.courses.append([in_line(3, "caltech/onyx"), *STEPS])
    held_back = broker.go_on
    broker.go_on = lambda id: None  # type: ignore[method-assign]  # nothing changes
    # Tests in the background of a shell ignore Ctrl-C, and so would what they start.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "kalends", "book", "caltech/onyx", *WHEN],
        env={**os.environ, "KALENDS_BROKER": broker.url, "KALENDS_USER": "ada"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, inherited)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "3 ahead" in line:
            process.send_signal(signal.SIGINT)
            break
    out, rest = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert out == ""
    assert [line.split()[0] for line in rest.splitlines()] == ["kalends:", "look:", "wait", "give"]
    assert "kalends show 00000001 --follow" in rest
    [view] = broker.requests.values()
    assert view.state == "open"
    broker.go_on = held_back  # type: ignore[method-assign]  # as it was
