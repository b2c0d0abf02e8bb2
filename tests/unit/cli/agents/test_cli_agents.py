"""``kalends agent`` and ``--agent`` against a real server on loopback: what is sent, said and printed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from client_broker import NOW_S, Broker
from command_line import Run, data

from kalends.contract import calls
from kalends.core.errors import LimitExceeded
from kalends.core.scripts import script_hash

SOURCE = "def choose(view, request):\n    return [slot['id'] for slot in view['slots']]\n"
WHEN = ["--for", "2h", "--at", "2027-01-15 09:00"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mornings.py"
    path.write_text(SOURCE)
    return path


def test_a_script_is_uploaded_listed_printed_and_deleted(run: Run, file: Path) -> None:
    uploaded = run("agent", "upload", "mornings", str(file))
    assert uploaded.exit_code == 0
    assert uploaded.stdout.splitlines() == [
        "agent mornings",
        f"  script   {script_hash(SOURCE)}",
        f"  size     {len(SOURCE)} bytes",
        "  defines  choose",
        "  uploaded Fri 2027-01-15 09:00:00 CET (UTC+01:00)",
    ]
    header, row = run("agent", "list").stdout.splitlines()
    assert header.split()[:4] == ["NAME", "SCRIPT", "BYTES", "DEFINES"]
    assert row.split()[:2] == ["mornings", script_hash(SOURCE)[:12]]
    shown = run("agent", "show", "mornings")
    assert shown.stdout == SOURCE
    assert shown.stderr == uploaded.stdout
    assert data(run("agent", "show", "mornings", "--json"), "agent")["source"] == SOURCE
    assert run("agent", "delete", "mornings").stdout == "deleted mornings\n"
    assert data(run("agent", "list", "--json"), "agents") == []
    assert run("agent", "show", "mornings").exit_code == 1


def test_a_refused_script_ends_with_two_and_a_line_for_each_rule(run: Run, file: Path) -> None:
    file.write_text("import os")
    refused = run("agent", "upload", "mornings", str(file))
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert "line 1, column 1  no-import  `import` is not in the language" in refused.stderr
    assert "line 3, column 5  no-try     `try` is not in the language" in refused.stderr
    assert len(data(run("agent", "upload", "x", str(file), "--json"), "problem")["refusals"]) == 2


@pytest.mark.parametrize("command", ["book", "hold"])
def test_booking_with_a_file_uploads_it_first_and_says_who_chooses(
    run: Run, broker: Broker, file: Path, command: str
) -> None:
    result = run(
        command, "sdsc/sp2", *WHEN, "--agent", str(file), "--argument", "at=09:30",
        "--argument", "days=3", "--key", "my-key-1",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    name = f"file-{script_hash(SOURCE)[:16]}"
    assert result.stderr.splitlines()[:6] == [
        "request  sdsc/sp2",
        "for      2h",
        "at       Fri 2027-01-15 09:00:00 CET (UTC+01:00)",
        f"agent    {name}",
        "with     at=09:30 days=3",
        "key      my-key-1",
    ]
    assert f"  agent    {name} (script {script_hash(SOURCE)[:12]})" in result.stdout
    (_, uploaded), (_, booked) = broker.seen[:2]
    assert isinstance(uploaded, calls.UploadAgent)
    assert isinstance(booked, calls.Book)
    assert (uploaded.name, uploaded.source) == (name, SOURCE)
    assert booked.request.agent == name
    assert booked.request.arguments == {"at": "09:30", "days": 3}


@pytest.mark.parametrize(
    "typed",
    ["at=09:30", "n=3", 'n="3"', "x=true", 'x="true"', "z=1.5", "t=", 't="a b"', "t=null", "t=[1]"],
)
def test_arguments_are_said_as_they_could_be_typed(run: Run, broker: Broker, typed: str) -> None:
    result = run("book", "sdsc/sp2", *WHEN, "--agent", "mine", "--argument", typed)
    assert f"with     {typed}" in result.stderr.splitlines()


def test_a_name_and_a_ready_made_agent_are_sent_as_they_are(run: Run, broker: Broker) -> None:
    run("book", "sdsc/sp2", *WHEN, "--agent", "ready:earliest")
    name, body = broker.seen[0]
    assert isinstance(body, calls.Book)
    assert (name, body.request.agent) == ("book", "ready:earliest")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("09:30", "09:30"), ("3", 3), ("-2.5", -2.5), ("true", True), ('"3"', "3"), ("", ""),
        ("a=b", "a=b"), ("null", "null"), ("[1]", "[1]"), ("NaN", "NaN"), ("\udcff", None),
        (str(1 << 60), None), ("x" * 201, None),
    ],
)  # fmt: skip
def test_values_are_those_of_json_and_all_else_is_text(
    run: Run, broker: Broker, text: str, value: object
) -> None:
    result = run("book", "sdsc/sp2", *WHEN, "--agent", "mine", "--argument", f"a={text}")
    if value is None:
        assert result.exit_code == 2
        assert broker.seen == []
    else:
        _, body = broker.seen[0]
        assert isinstance(body, calls.Book)
        (sent,) = body.request.arguments.values()
        assert (sent, type(sent)) == (value, type(value))


@pytest.mark.parametrize(
    "words",
    [
        ["book", "a/b", *WHEN, "--agent", "./missing.py"],
        ["book", "a/b", *WHEN, "--agent", "missing.py"],
        ["book", "a/b", *WHEN, "--agent", "No Name"],
        ["book", "a/b", *WHEN, "--agent", ""],
        ["hold", "a/b", *WHEN, "--agent", ""],
        ["book", "a/b", *WHEN, "--argument", "a=1"],
        ["book", "a/b", *WHEN, "--agent", "mine", "--argument", "a"],
        ["book", "a/b", *WHEN, "--agent", "mine", "--argument", "=1"],
        ["book", "a/b", *WHEN, "--agent", "mine", "--argument", "a=1", "--argument", "a=2"],
        ["book", "a/b", *WHEN, "--agent", "mine", "--argument", "A=1"],
        ["agent"],
        ["agent", "nonsense"],
        ["agent", "upload", "mine", "/nonsense.py"],
        ["agent", "upload", "Mine", __file__],
        ["agent", "show", "No Name"],
        ["agent", "tell", "0001"],
        ["agent", "tell", "0001", "null"],
        ["agent", "tell", "0001", "1", "--agent", ""],
        ["agent", "tell", "0001", '{"a": '],
        ["agent", "runs"],
    ],
)
def test_usage_errors_end_with_two_and_send_nothing(
    run: Run, broker: Broker, words: list[str]
) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr
    assert "Traceback" not in result.output
    assert broker.seen == []


@pytest.mark.parametrize(
    ("typed", "sent"),
    [('{"skip": [1]}', '{"skip":[1]}'), ("later", '"later"'), ("3", "3"), ('"3"', '"3"')],
)
def test_an_agent_is_told_data_or_a_word(run: Run, broker: Broker, typed: str, sent: str) -> None:
    run("book", "sdsc/sp2", *WHEN, "--agent", "ready:earliest", "--wait", "30s")
    (id,) = broker.requests
    broker.requests[id] = msgspec.structs.replace(broker.requests[id], state="open")
    told = run("agent", "tell", id[-4:], typed, "--key", "my-key-1")
    assert told.exit_code == 0, told.stderr
    assert told.stderr.startswith("key      my-key-1\n")
    assert broker.told["my-key-1"].message == sent


def test_another_agent_goes_on_and_a_lost_answer_names_the_key(
    run: Run, broker: Broker, file: Path
) -> None:
    run("book", "sdsc/sp2", *WHEN, "--agent", "ready:earliest")
    (id,) = broker.requests
    broker.requests[id] = msgspec.structs.replace(broker.requests[id], state="open")
    assert run("agent", "tell", id, "--agent", str(file), "--key", "my-key-1").exit_code == 0
    assert broker.told["my-key-1"].agent in broker.agents
    broker.faults.extend(["drop-after", *[LimitExceeded("full")] * 3])
    lost = run("agent", "tell", id, "more", "--key", "my-key-2")
    assert lost.exit_code == 75
    assert "repeat the call with the same key my-key-2" in lost.stderr


def test_show_and_why_print_what_the_agent_left_and_cannot_steer_the_terminal(
    run: Run, broker: Broker
) -> None:
    run("book", "sdsc/sp2", *WHEN, "--agent", "ready:earliest")
    (id,) = broker.requests
    notes = (
        calls.AgentNote(at_ms=NOW_S * 1000, site="sdsc", value={"seen": 12}),
        calls.AgentNote(at_ms=NOW_S * 1000, site="caltech", value="\x1b[2J"),
    )
    broker.requests[id] = msgspec.structs.replace(broker.requests[id], notes=notes)
    for command in ("show", "why"):
        printed = run(command, id).stdout
        assert '  sdsc     {"seen":12}' in printed
        assert "  caltech  " in printed
        assert "\x1b" not in printed
    assert data(run("show", id, "--json"), "request")["notes"][0]["value"] == {"seen": 12}


def test_what_became_of_the_visits_is_printed_after_booking_and_by_show(
    run: Run, broker: Broker
) -> None:
    told = "round 1, sdsc: agent-error in line 3: KeyError: at; the default chose"
    keep = broker.keep

    def keep_with_visit(view: calls.RequestView, kind: str) -> calls.RequestView:
        number = len(broker.events)
        broker.events.append(
            calls.Event(number=number, at_ms=NOW_S * 1000, id=view.id, kind="agent", detail=told)
        )
        return keep(view, kind)

    broker.keep = keep_with_visit  # type: ignore[method-assign]  # as a broker with sites
    for command in (["book", "sdsc/sp2", *WHEN], ["hold", "sdsc/sp2", *WHEN]):
        assert f"  visit    {told}" in run(*command, "--agent", "ready:earliest").stdout
        assert "visit" not in run(*command).stdout
    id = min(broker.requests)
    assert f"  visit    {told}" in run("show", id).stdout
    broker.faults.extend([None, *[LimitExceeded("full")] * 4])
    booked = run("book", "sdsc/sp2", *WHEN, "--agent", "ready:earliest")
    assert (booked.exit_code, "visit" in booked.stdout) == (0, False)
    broker.faults.clear()
    broker.seen.clear()
    data(run("book", "sdsc/sp2", *WHEN, "--agent", "ready:earliest", "--json"), "request")
    assert [name for name, _ in broker.seen] == ["book"]


def test_runs_at_a_site_are_listed_by_its_address_or_by_its_name(
    run: Run, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("book", "sdsc/sp2", *WHEN)
    (id,) = broker.requests
    broker.runs = [
        calls.RunView(
            run=str(number), at_ms=NOW_S * 1000, id=id if number == 1 else "", user="ada",
            script="0a" * 32, function="choose", code=code, line=line, steps=120, cpu_us=1_250,
            detail=detail, record=b"\x80",
        )
        for number, code, line, detail in (
            (1, "agent-error", 3, "KeyError: 'slot'"), (2, "ok", 0, ""),
        )
    ]  # fmt: skip
    listed = run("agent", "runs", "--site", broker.url)
    assert listed.exit_code == 0, listed.stderr
    header, second, first = listed.stdout.splitlines()
    assert header.split()[0] == "RUN"
    assert second.split()[0] == "2"
    assert first.endswith("agent-error       0    120     1.2  line 3: KeyError: 'slot'")
    assert [
        r["run"]
        for r in data(run("agent", "runs", id[-4:], "--site", broker.url, "--json"), "runs")
    ] == ["1"]
    named = calls.SiteStatus(site="sdsc", url=broker.url, state="up")
    monkeypatch.setattr(
        Broker, "do_resources", lambda *_: calls.Resources(resources=(), sites=(named,))
    )
    assert run("agent", "runs", "--site", "sdsc").stdout == listed.stdout
    unknown = run("agent", "runs", "--site", "sdcs")
    assert unknown.exit_code == 1
    assert "did you mean sdsc?" in unknown.stderr
