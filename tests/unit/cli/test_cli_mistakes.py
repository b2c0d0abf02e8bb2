"""Whoever mistypes is told what is meant, in the words of the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from client_broker import Broker
from command_line import Run
from keyed_broker import keyed_broker, token_of_ada

from kalends.cli import cli
from kalends.cli.console.groups import MEANT
from kalends.cli.console.remedies import with_remedies
from kalends.cli.console.settings import Settings
from kalends.cli.console.site_calls import client_at
from kalends.core.errors import NotAllowed, NotAuthenticated, Unavailable
from kalends.testing import LocalFacility


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--after", "whenever"), "--after: 'whenever' is not a time"),
        (("--before", "whenever"), "--before: 'whenever' is not a time"),
        (("--before", "now-2h"), "--before: the latest end is not after the earliest start"),
        (("--before", "now+1h"), "REQUEST: the stages take 2h together"),
    ],
)
def test_errors_name_options_and_no_fields(run: Run, words: tuple[str, str], told: str) -> None:
    result = run("find", "sdsc/sp2", "--for", "2h", *words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"kalends: {told}")


def test_a_length_and_a_note_are_named_as_they_were_typed(run: Run) -> None:
    assert "kalends: --for: " in run("find", "sdsc/sp2", "--for", "2x").stderr
    long = run("book", "sdsc/sp2", "--for", "1h", "--note", "x" * 300)
    assert "kalends: --note: it has more than 200 characters" in long.stderr


def test_a_resource_that_there_is_not_is_told_with_those_that_are_near(run: Run) -> None:
    result = run("calendar", "sdcs/sp2")
    assert result.exit_code == 1
    assert "did you mean sdsc/sp2" in result.stderr


def test_an_id_is_found_by_its_beginning_and_by_its_end_and_near_ones_are_told(run: Run) -> None:
    run("book", "sdsc/sp2", "--for", "2h", "--at", "2027-01-15 09:00")
    id = run("list", "--json").stdout.partition('"id": "')[2][:36]
    assert id in run("show", id[:13]).stdout
    assert id in run("show", id[-8:]).stdout
    assert id in run("show", id[-8:-4]).stdout
    assert id in run("show", id[-4:]).stdout
    wrong = id[-8:-1] + ("2" if id[-1] != "2" else "3")
    assert f"did you mean {id[-8:]}?" in run("show", wrong).stderr


@pytest.mark.parametrize(
    ("named_by", "told"), [("", "kalends login --broker"), ("--broker", "check")]
)
def test_who_has_named_no_server_is_told_how_to_name_one(named_by: str, told: str) -> None:
    settings = Settings(sources={"broker": named_by} if named_by else {})
    error = Unavailable("no answer", where=settings.broker, remedy="check the address")
    assert told in with_remedies(settings, error).remedy


def test_a_site_that_refuses_the_pass_of_its_broker_is_named(
    broker: Broker, tmp_path: Path
) -> None:
    with keyed_broker(tmp_path) as refusing:
        broker.site_urls["ctc"] = refusing
        broker.passes.append("e30.e30.e30")
        settings = Settings(broker=broker.url)
        with (
            pytest.raises(
                NotAuthenticated, match="the site ctc does not accept this token"
            ) as told,
            client_at(settings, "ctc/sp2") as site,
        ):
            site.whoami()
    settings.profile, settings.sources = "kit", {"token_file": "profile kit"}
    assert told.value.where == refusing
    assert f"--profile ctc --broker {refusing}" in with_remedies(settings, told.value).remedy


def test_who_needs_more_than_a_pass_allows_is_told_to_call_the_site_itself(
    broker: Broker, tmp_path: Path
) -> None:
    with keyed_broker(tmp_path) as there:
        broker.site_urls["ctc"] = there
        broker.passes.append(token_of_ada(tmp_path))
        with (
            pytest.raises(
                NotAllowed, match="the site ctc does not allow this for a broker's users"
            ) as told,
            client_at(Settings(broker=broker.url), "ctc/sp2") as site,
        ):
            site.drain()
    assert f"--broker {there} --token-file FILE" in told.value.remedy


def test_a_token_that_was_not_renewed_names_the_profile_to_log_in_to_again() -> None:
    kept = {"broker": "profile kit", "token_file": "profile kit"}
    error = NotAuthenticated("your token has expired", where="https://login.kit.example")
    settings = Settings(profile="kit", sources=kept)
    assert with_remedies(settings, error).remedy == "log in again: kalends login --profile kit"


def test_after_a_logout_the_same_profile_logs_in_again() -> None:
    settings = Settings(profile="kit", sources={"broker": "profile kit"})
    error = NotAuthenticated("no token was sent", where="Authorization")
    assert with_remedies(settings, error).remedy == "log in: kalends login --profile kit"


def test_a_request_without_quotes_is_explained(run: Run) -> None:
    result = run("book", "sdsc/sp2", "+", "caltech/onyx", "--for", "2h")
    assert result.exit_code == 2
    assert "Put it in quotes" in result.stderr


def test_verbs_of_other_programs_lead_to_commands_that_there_are(run: Run) -> None:
    assert "Did you mean cancel or kill?" in run("delete", "1234").stderr
    names = set(cli.list_commands(None))  # type: ignore[arg-type]  # it needs no context
    assert {name for meant in MEANT.values() for name in meant} <= names
    assert not names & MEANT.keys()


def test_a_script_in_the_place_of_a_machine_is_told_how_it_is_submitted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my job.sh").write_text("#!/bin/sh\ntrue\n")
    refused = run("submit", "my job.sh")
    assert (refused.exit_code, "is a file" in refused.stderr) == (2, True)
    typed = shlex.split(refused.stderr.partition("try: kalends ")[2])
    again = run(*typed, "--for", "1m")
    assert "MACHINE" not in again.stderr
    assert "is a file" not in again.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("move", "5d0c", "--at", "tomorrow 9:00"), "--to"),
        (("book", "sdsc/sp2", "--duration", "1h"), "--for"),
        (("find", "sdsc/sp2", "--for", "1h", "--until", "now+1d"), "--before"),
        (("calendar", "sdsc/sp2", "--begin", "now"), "--from"),
    ],
)
def test_an_option_of_another_command_is_answered_with_the_one_of_this(
    run: Run, words: tuple[str, ...], meant: str
) -> None:
    refused = run(*words)
    assert (refused.exit_code, f"Did you mean '{meant}'?" in refused.stderr) == (2, True)


def test_a_call_that_only_a_site_has_is_answered_with_the_addresses_of_the_sites() -> None:
    with LocalFacility({"lab": {"scope": 1}}) as servers:
        words = ["--broker", servers.url("broker"), "--user", "ann", "admin", "requests"]
        refused = CliRunner().invoke(cli, words)
        assert f"--broker {servers.url('lab')} (lab)" in refused.stderr
        words[1] = servers.url("lab")
        assert "is a broker" not in CliRunner().invoke(cli, words).stderr
