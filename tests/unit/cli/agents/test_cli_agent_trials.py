"""Scripts on one's own computer: checked, run on printed calendars, replayed; in the real sandbox."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from client_broker import NOW_S, Broker, serving_broker
from command_line import data
from tests.process_tree import descendants

from kalends.agents import ready, records
from kalends.agents.sandbox import Sandbox, SandboxUnavailable
from kalends.agents.sandbox.language_only import LanguageOnly
from kalends.broker.jobs.parts.user_pick import pick_run
from kalends.cli import cli
from kalends.cli.console import output
from kalends.client.trials.script_check import SLOTS, sample_job
from kalends.contract import calls
from kalends.core.jobs import JobRequest
from kalends.core.resources import ResourceInfo, Slot
from kalends.extras import install_command
from kalends.federation.offered_places import OfferedPlace

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
LATEST = """
def choose(view, request):
    send({"asked": request["arguments"].get("at"), "told": receive()})
    return [slot["id"] for slot in reversed(view["slots"])]


def recall(slot, asker, view):
    return slot["start"] % 7200 == 0
"""
BROKEN = "import os\n\ndef choose(view, request):\n    return view.slots\n"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, env={"KALENDS_ZONE": "UTC", "KALENDS_USER": "ada"})


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def written(source: str) -> str:
        path = tmp_path / "mine.agent.py"
        path.write_text(source)
        return str(path)

    return written


def printed_calendar(
    path: Path, name: str, free: tuple[tuple[int, int, int], ...], *taken: Slot
) -> str:
    """What ``kalends calendar NAME --json`` prints."""
    view = calls.CalendarView(
        resource=ResourceInfo(name=name, capacity=64, grain_s=HOUR_S),
        start=NOW_S, end=NOW_S + DAY_S, until=NOW_S + DAY_S, free=free, slots=taken,
    )  # fmt: skip
    envelope = {"version": 1, "kind": "calendar", "data": output.plain(view)}
    path.write_bytes(msgspec.json.encode(envelope))
    return str(path)


@pytest.fixture
def sp2(tmp_path: Path) -> str:
    """64 units are free from 08:00 on for five hours, eight in the two hours after."""
    middle = NOW_S + 5 * HOUR_S
    return printed_calendar(
        tmp_path / "sp2.json",
        "sdsc/sp2",
        ((NOW_S, middle, 64), (middle, middle + 2 * HOUR_S, 8)),
        Slot(middle, middle + 2 * HOUR_S, 56, "locked", "ada"),
    )


@pytest.fixture
def onyx(tmp_path: Path) -> str:
    return printed_calendar(
        tmp_path / "onyx.json", "caltech/onyx", ((NOW_S, NOW_S + 3 * HOUR_S, 1),)
    )


WHEN = ["--for", "2h", "--now", "2027-01-15 08:00"]


def test_check_names_every_broken_rule_with_its_place_and_a_caret(
    script: Callable[[str], str],
) -> None:
    file = script(BROKEN)
    result = run("agent", "check", file)
    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{file}:1:1: no-import: ")
    assert lines[1:3] == ["    import os", "    ^"]
    assert lines[3].startswith(f"{file}:4:12: no-attribute: ")
    assert lines[4:6] == ["        return view.slots", "               ^"]
    assert lines[6:] == ["2 rules broken"]
    found = data(run("agent", "check", file, "--json"), "checked")
    assert [(v["line"], v["column"], v["rule"]) for v in found["violations"]] == [
        (1, 1, "no-import"), (4, 12, "no-attribute"),
    ]  # fmt: skip
    assert found["samples"] == []


@pytest.mark.parametrize("source", ["", "x = ", "def choose(:\n", "\x00", "\ufeff)", "\t\n  x\n y"])
def test_check_refuses_what_is_no_script_in_words(
    script: Callable[[str], str], source: str
) -> None:
    result = run("agent", "check", script(source))
    assert result.exit_code == 2
    assert result.stdout.endswith("broken\n")


def test_check_tells_what_a_script_defines_and_costs_on_samples(
    script: Callable[[str], str],
) -> None:
    file = script(LATEST)
    checked = data(run("agent", "check", file, "--json"), "checked")
    assert checked["functions"] == ["choose", "recall"]
    rows = [(s["function"], s["slots"], s["code"], s["chosen"]) for s in checked["samples"]]
    assert rows == [
        ("choose", 100, "ok", 100),
        ("choose", 1000, "ok", 1000),
        ("recall", 16, "ok", 0),
    ]
    few, many, _ = (sample["steps"] for sample in checked["samples"])
    assert 0 < few < many
    printed = run("agent", "check", file)
    assert printed.exit_code == 0
    assert printed.stdout.splitlines()[0] == f"{file} follows the rules"
    assert f"  size     {len(LATEST)} bytes" in printed.stdout
    assert "  runs in  the sandbox" in printed.stdout


def test_check_ends_with_one_when_the_samples_fail_and_arguments_may_mend_that(
    script: Callable[[str], str],
) -> None:
    file = script('def choose(view, request):\n    return [request["arguments"]["first"]]\n')
    failed = run("agent", "check", file)
    assert failed.exit_code == 1
    assert "agent-error" in failed.stdout
    assert "line 2: KeyError" in failed.stdout
    assert run("agent", "check", file, "--argument", "first=3").exit_code == 0


def test_an_answer_that_is_none_fails_on_the_samples(script: Callable[[str], str]) -> None:
    failed = run("agent", "check", script("def choose(view, request):\n    return [10000]\n"))
    assert failed.exit_code == 1
    assert "bad-result" in failed.stdout


def test_every_sample_has_as_many_slots_as_it_says() -> None:
    for slots in SLOTS:
        job = sample_job("", "choose", slots, {})
        assert len(job.arguments[0]["slots"]) == slots
    slot, asker, view = sample_job("", "recall", 100, {}).arguments
    assert slot in view["slots"]
    assert set(asker) == {"start", "end", "units"}


@pytest.mark.parametrize(
    ("answer", "code", "chosen"),
    [
        ("bids[-1]['machine']", 0, 1),
        ("[bid['machine'] for bid in reversed(bids)]", 0, 3),
        ("'nobody/box'", 1, 0),
        ("[bids[0]['machine'], bids[0]['machine']]", 1, 0),
        ("[]", 1, 0),
        ("[1]", 1, 0),
        ("0", 1, 0),
    ],
)
def test_a_script_that_orders_bids_is_tried_on_bids(
    answer: str, code: int, chosen: int, script: Callable[[str], str]
) -> None:
    checked = run("agent", "check", script(f"def pick(bids):\n    return {answer}\n"), "--json")
    assert checked.exit_code == code, checked.output
    (sample,) = data(checked, "checked")["samples"]
    assert (sample["function"], sample["slots"], sample["chosen"]) == ("pick", 3, chosen)
    assert sample["code"] == ("bad-result" if code else "ok")


def test_the_bids_of_the_sample_tell_what_a_broker_tells() -> None:
    place = OfferedPlace("a", "a/m", 2, 9, 9, 9, 600.0, firm=True)
    told = pick_run(
        "you", "", [place], {"a/m": JobRequest(machine="", limit_s=600)}, lambda site: ()
    )
    ((bid, *_),) = sample_job("", "pick", 100, {}).arguments
    assert bid.keys() == told.arguments[0][0].keys()


@pytest.mark.parametrize("name", ready.names())
def test_every_ready_made_agent_passes_its_own_check(name: str, tmp_path: Path) -> None:
    file = tmp_path / "ready.agent.py"
    file.write_text(run("agent", "ready", name).stdout)
    assert file.read_text() == ready.source(name)
    checked = run("agent", "check", str(file))
    assert checked.exit_code == 0, checked.output


def test_ready_made_agents_are_listed_with_a_line_each() -> None:
    rows = run("agent", "ready").stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(ready.names())
    assert all(ready.summary(row.split()[0]) in row for row in rows)
    listed = data(run("agent", "ready", "--json"), "ready")
    assert [each["name"] for each in listed] == list(ready.names())
    one = data(run("agent", "ready", "ready:earliest", "--json"), "ready")
    assert one["source"] == ready.source("earliest")
    unknown = run("agent", "ready", "nonsense")
    assert (unknown.exit_code, "earliest" in unknown.stderr) == (1, True)


def test_run_prints_what_is_chosen_in_order_and_what_is_left_behind(
    script: Callable[[str], str], sp2: str
) -> None:
    result = run(
        "agent", "run", script(LATEST), "sdsc/sp2:8", *WHEN, "--calendar", sp2,
        "--argument", "at=09:30", "--message", '{"skip": 1}',
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "sdsc: 6 of 6 slots chosen"
    assert [line.split()[0] for line in lines[2:8]] == ["5", "4", "3", "2", "1", "0"]
    assert lines[2].endswith("Fri 2027-01-15 13:00  Fri 2027-01-15 15:00")
    assert lines[8] == '  left for you: {"asked":"09:30","told":{"skip":1}}'
    assert lines[-1] == "run in the sandbox"


def test_run_shows_only_what_could_be_held(script: Callable[[str], str], sp2: str) -> None:
    words = ["agent", "run", script(LATEST), "sdsc/sp2:32", *WHEN, "--calendar", sp2, "--json"]
    (site,) = data(run(*words), "run")["sites"]
    assert [choice["start"] for choice in site["chosen"]] == [
        NOW_S + hours * HOUR_S for hours in (3, 2, 1, 0)
    ]
    assert {choice["free"] for choice in site["chosen"]} == {64}


def test_recall_is_asked_for_each_slot_that_would_be_held(
    script: Callable[[str], str], sp2: str
) -> None:
    words = ["agent", "run", script(LATEST), "sdsc/sp2:32", *WHEN, "--calendar", sp2, "--recall"]
    (site,) = data(run(*words, "--json"), "run")["sites"]
    for choice in site["chosen"]:
        expected = "given back" if choice["start"] % (2 * HOUR_S) == 0 else "kept"
        assert choice["recall"] == expected
    assert "ASKED BACK" in run(*words).stdout


def test_a_script_without_recall_says_so_when_it_is_asked(
    script: Callable[[str], str], sp2: str
) -> None:
    source = "def choose(view, request):\n    return [0]\n"
    words = ["agent", "run", script(source), "sdsc/sp2:32", *WHEN, "--calendar", sp2, "--recall"]
    (site,) = data(run(*words, "--json"), "run")["sites"]
    assert site["code"] == "ok"
    assert "recall" in site["chosen"][0]["recall"]


def test_a_script_runs_once_at_each_site_that_is_asked(
    script: Callable[[str], str], sp2: str, onyx: str
) -> None:
    words = ["agent", "run", script(LATEST), *WHEN, "--calendar", sp2, "--calendar", onyx, "--json"]
    both = data(run(*words, "sdsc/sp2 + caltech/onyx"), "run")["sites"]
    assert [(site["site"], site["slots"]) for site in both] == [("caltech", 2), ("sdsc", 6)]
    (one,) = data(run(*words, "caltech/onyx"), "run")["sites"]
    assert one["site"] == "caltech"
    none = run(*words, "ncsa/cave")
    assert none.exit_code == 2
    assert "needs nothing of" in none.stdout


def test_a_ready_made_agent_runs_by_its_name(sp2: str) -> None:
    words = ["agent", "run", "ready:latest", "sdsc/sp2:32", *WHEN, "--calendar", sp2, "--json"]
    (site,) = data(run(*words), "run")["sites"]
    assert site["chosen"][0]["start"] == NOW_S + 3 * HOUR_S
    assert run(*[word.replace(":latest", ":last") for word in words]).exit_code == 1


def test_a_failed_run_says_where_and_what_the_site_would_choose(
    script: Callable[[str], str], sp2: str
) -> None:
    file = script("def choose(view, request):\n    return [1 // 0]\n")
    result = run("agent", "run", file, "sdsc/sp2:32", *WHEN, "--calendar", sp2)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("sdsc: agent-error: line 2: ZeroDivisionError")
    assert lines[3].split()[0] == "0"
    (site,) = data(
        run("agent", "run", file, "sdsc/sp2:32", *WHEN, "--calendar", sp2, "--json"), "run"
    )["sites"]
    assert [choice["start"] for choice in site["chosen"]] == [
        NOW_S + hours * HOUR_S for hours in range(4)
    ]


def test_an_answer_that_is_none_fails_the_run(script: Callable[[str], str], sp2: str) -> None:
    file = script("def choose(view, request):\n    return [0, 0]\n")
    result = run("agent", "run", file, "sdsc/sp2:32", *WHEN, "--calendar", sp2)
    assert result.exit_code == 1
    assert result.stdout.startswith("sdsc: bad-result: slot 0 is chosen twice")


def test_a_calendar_that_is_given_twice_is_refused_with_its_file(
    script: Callable[[str], str], sp2: str
) -> None:
    twice = ["--calendar", sp2, "--calendar", sp2]
    result = run("agent", "run", script(LATEST), "sdsc/sp2:32", *WHEN, *twice)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"kalends: {sp2}: sdsc/sp2 is also in another file")


def test_no_process_is_left_behind(script: Callable[[str], str], sp2: str) -> None:
    before = set(descendants(os.getpid()))
    assert run("agent", "check", script(LATEST)).exit_code == 0
    words = ["agent", "run", script(LATEST), "sdsc/sp2:32", *WHEN, "--calendar", sp2]
    assert run(*words).exit_code == 0
    assert set(descendants(os.getpid())) <= before


def test_a_script_that_breaks_rules_is_not_run(script: Callable[[str], str], sp2: str) -> None:
    result = run("agent", "run", script(BROKEN), "sdsc/sp2:32", *WHEN, "--calendar", sp2)
    assert result.exit_code == 2
    assert "no-import" in result.stdout
    assert "slots chosen" not in result.stdout


@pytest.mark.parametrize(
    "text", ["", "nonsense", "{}", "[]", '{"version": 1, "kind": "calendar", "data": {}}', "\udcff"]
)
def test_what_is_no_printed_calendar_is_refused(
    script: Callable[[str], str], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "calendar.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    for name in (str(path), str(tmp_path), str(tmp_path / "missing.json")):
        result = run("agent", "run", script(LATEST), "sdsc/sp2", *WHEN, "--calendar", name)
        assert result.exit_code == 2
        assert result.stderr.startswith("kalends: ")
        assert "try: " in result.stderr


def test_without_a_sandbox_the_language_alone_runs_it_and_that_is_said(
    script: Callable[[str], str], sp2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["agent", "run", script(LATEST), "sdsc/sp2:32", *WHEN, "--calendar", sp2]
    boxed = data(run(*words, "--json"), "run")["sites"][0]

    async def none_here(*_: object) -> Sandbox:
        raise SandboxUnavailable("this kernel has no seccomp")

    monkeypatch.setattr(Sandbox, "start", none_here)
    printed = run(*words)
    assert printed.exit_code == 0
    assert "restricted only by the language: this kernel has no seccomp" in printed.stdout
    alone = data(run(*words, "--json"), "run")["sites"][0]
    for name in ("code", "chosen", "sent", "steps"):
        assert alone[name] == boxed[name]
    assert "restricted only by the language" in run("agent", "check", script(LATEST)).stdout


@pytest.fixture(scope="module")
def record() -> records.RunRecord:
    """A run as a site writes it down."""
    job = sample_job(LATEST, "choose", 100, {"at": "09:30"})
    outcome = asyncio.run(LanguageOnly().run(job))
    return records.record_of(job, outcome, number=7, at_ms=NOW_S * 1000, rid="", site="sdsc")


@pytest.fixture
def site(record: records.RunRecord) -> Iterator[Broker]:
    with serving_broker() as site:
        site.runs.append(
            calls.RunView(
                run="7", at_ms=NOW_S * 1000, id="", user="ada", script=record.script,
                function="choose", code="ok", record=records.encode(record),
            )
        )  # fmt: skip
        yield site


def test_a_run_fetched_from_its_site_comes_out_the_same(site: Broker, tmp_path: Path) -> None:
    kept = tmp_path / "run-7"
    result = run("agent", "replay", "7", "--site", site.url, "--save", str(kept))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:2] == ["same result", "  run      7 at sdsc"]
    assert "  here     the sandbox" in lines
    again = run("agent", "replay", str(kept))
    assert (again.exit_code, again.stdout) == (0, result.stdout)
    assert data(run("agent", "replay", str(kept), "--json"), "replayed")["same"] is True
    overwriting = run("agent", "replay", "7", "--site", site.url, "--save", str(kept))
    assert overwriting.exit_code == 2
    assert run("agent", "replay", "8", "--site", site.url).exit_code == 1


def test_a_run_that_comes_out_otherwise_ends_with_one_and_says_what_differs(
    record: records.RunRecord, tmp_path: Path
) -> None:
    file = tmp_path / "forged"
    forged = msgspec.structs.replace(record, answer=[0], steps=record.steps + 1)
    file.write_bytes(records.encode(forged))
    result = run("agent", "replay", str(file))
    assert result.exit_code == 1
    assert result.stdout.startswith("different result: the answer differs; it took ")
    assert run("agent", "replay", str(file), "--json").exit_code == 1


def test_what_is_no_record_is_refused(record: records.RunRecord, tmp_path: Path) -> None:
    file = tmp_path / "record"
    swapped = msgspec.structs.replace(record, source="def choose(view, request):\n    return []\n")
    for body in (b"", b"nonsense", records.encode(record)[:-9], records.encode(swapped)):
        file.write_bytes(body)
        result = run("agent", "replay", str(file))
        assert result.exit_code == 2
        assert "Traceback" not in result.output
    assert run("agent", "replay", str(tmp_path / "missing")).exit_code == 2


MISSING = """
import sys
sys.modules["RestrictedPython"] = None
from kalends.cli import main
sys.argv = ["kalends", *sys.argv[1:]]
sys.exit(main())
"""


def test_without_what_runs_scripts_the_commands_say_what_to_install(
    script: Callable[[str], str], sp2: str
) -> None:
    for words in (["check", script(LATEST)], ["run", script(LATEST), "sdsc/sp2", *WHEN, "--calendar", sp2],
                  ["replay", sp2]):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", MISSING, "agent", *words],
            env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            "kalends: the parts of kalends that run scripts are not installed: "
            "no module RestrictedPython",
            f"  try: install what they need: {install_command('agents')}",
        ]
