"""Completion, in real shells: names from the parser and the server; nothing where there is no answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web
from click.shell_completion import BashComplete
from client_broker import Broker, serving

import kalends
from kalends.cli import COMPLETE_VARIABLE, cli
from kalends.cli.console.groups import LazyGroup
from kalends.cli.console.settings import Settings
from kalends.contract.calls import Resources, SiteStatus
from kalends.core.identifiers import short_id

ASK = {
    "bash": ". <(kalends completion bash); COMP_WORDS=({words}); COMP_CWORD={last}; "
    "_kalends_completion kalends; "
    'printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": 'kalends completion fish | source; complete -C "{line}"',
}
SHELLS = [shell for shell in ASK if shutil.which(shell)]


@pytest.fixture(autouse=True)
def at_home(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ada's shell: its cache, and the broker that she calls."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KALENDS_BROKER", broker.url)
    monkeypatch.setenv("KALENDS_USER", "ada")
    return tmp_path


def offered(*words: str) -> list[str]:
    """What the last of `words` may become."""
    shell = BashComplete(cli, {"obj": Settings()}, "kalends", COMPLETE_VARIABLE)
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def typed(shell: str, *words: str) -> list[str]:
    """The same in a real shell, which has loaded what `kalends completion` prints."""
    programs = Path(sys.executable).parent
    line = " ".join(("kalends", *words))
    quoted = " ".join(f"'{word}'" for word in ("kalends", *words))
    script = ASK[shell].format(words=quoted, last=len(words), line=line)
    done = subprocess.run(
        [shell, "--norc" if shell == "bash" else "--no-config", "-c", script],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.split("\n") if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_and_what_the_server_knows(shell: str, broker: Broker) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        booked = client.book("caltech/onyx", duration="1h")
    assert typed(shell, "canc") == ["cancel"]
    assert typed(shell, "cancel", "") == [short_id(booked.id)]
    assert typed(shell, "calendar", "cal") == ["caltech/onyx"]


def test_a_command_is_offered_the_requests_that_it_can_change(broker: Broker) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        booked = client.book("caltech/onyx", duration="1h")
        held = client.hold("caltech/onyx", duration="1h")
    assert offered("lock", "") == [short_id(held.id)]
    assert offered("move", "") == [short_id(booked.id)]
    assert set(offered("show", "")) == {short_id(held.id), short_id(booked.id)}


def test_an_owner_who_decides_is_offered_what_waits_with_its_revision(broker: Broker) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        client.book("caltech/onyx", duration="1h")
        (asked,) = client.approvals()
    named = f"{short_id(asked.id)}/{asked.revision}"
    assert offered("admin", "approve", "") == offered("admin", "decline", "") == [named]


def test_commands_options_states_and_zones_come_from_the_program_alone(broker: Broker) -> None:
    assert offered("s") == [
        "sites", "show", "shrink", "series", "share", "submit", "simulate", "serve",
    ]  # fmt: skip
    assert offered("admin", "und") == ["undrain"]
    assert offered("list", "--st") == ["--state"]
    assert offered("list", "--state", "re") == ["reserved"]
    assert offered("--zone", "Europe/Ber") == ["Europe/Berlin"]
    assert broker.seen == []


def test_no_command_is_loaded_to_complete_the_name_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LazyGroup, "get_command", None)
    ctx = cli.make_context("kalends", [], resilient_parsing=True)
    assert [item.value for item in cli.shell_complete(ctx, "boo")] == ["book"]


def test_resources_machines_sites_and_the_first_resource_of_a_request(broker: Broker) -> None:
    assert offered("resources", "") == ["sdsc/sp2", "caltech/onyx"]
    assert offered("find", "sd") == ["sdsc/sp2"]
    assert offered("find", "sdsc/sp2 + ") == []
    assert offered("agent", "runs", "--site", "n") == ["ncsa"]
    assert offered("queue", "") == []


def test_addresses_of_notices_and_keys_of_reclaims(broker: Broker) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        mail = client.add_notice_address().to
        taken = client.reclaim("sdsc/sp2", at="now+1d", duration="2h")
    assert offered("notify", "remove", "") == offered("notify", "test", "") == [mail]
    assert offered("admin", "reclaim", "--end", "") == [taken.key]
    assert offered("notify", "add", "") == offered("move", "--to", "") == []


def test_policies_come_from_the_program_and_follow_one_another_with_commas(broker: Broker) -> None:
    assert offered("simulate", "log.swf", "--policy", "easy-sj") == ["easy-sjbf"]
    assert offered("simulate", "--policy", "fcfs,conser") == ["fcfs,conservative"]
    assert offered("admin", "policy", "sdsc/sp2", "conser") == ["conservative"]
    assert broker.seen == []


def test_a_server_puts_nothing_into_a_command_line_that_a_shell_would_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("$(reboot)", "a;reboot", "a `x`", "a\nc", "-rf", "good")
    sites = tuple(SiteStatus(site=name, url="http://a", state="up") for name in names)
    answer = Resources(resources=(), sites=sites)
    monkeypatch.setattr(Broker, "do_resources", lambda self, user, body: answer)
    assert offered("agent", "runs", "--site", "") == ["good"]


def test_profiles_are_completed_from_the_file_of_the_user(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = at_home / "config.toml"
    config.write_text('[profiles.kit]\nbroker = "https://kit.example"\n')
    monkeypatch.setenv("KALENDS_CONFIG", str(config))
    assert offered("--profile", "") == ["kit"]
    config.write_text("not TOML")
    assert offered("--profile", "") == []
    assert offered("show", "") == []


def test_an_answer_is_kept_for_the_next_keys_and_for_its_user_only(
    broker: Broker, at_home: Path
) -> None:
    for word in ("", "s", "sd"):
        assert offered("resources", word)
    assert len(broker.seen) == 1
    kept = [path for path in (at_home / "cache").rglob("*") if path.is_file()]
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600]


def test_the_same_user_in_another_group_is_asked_for_anew(broker: Broker) -> None:
    for groups in ((), ("--group", "staff"), ("--group", "staff")):
        assert offered(*groups, "resources", "")
    assert len(broker.seen) == 2


def test_another_user_or_server_has_other_answers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered("show", "") == []
    with kalends.connect_sync(broker.url, user="bob") as client:
        client.book("caltech/onyx", duration="1h")
    monkeypatch.setenv("KALENDS_USER", "bob")
    assert len(offered("show", "")) == 1


def test_a_server_that_refuses_is_asked_once_and_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=503)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    with serving(app) as url:
        monkeypatch.setenv("KALENDS_BROKER", url)
        assert offered("show", "") == offered("show", "1") == []
    assert len(asked) == 1
    assert capfd.readouterr() == ("", "")
