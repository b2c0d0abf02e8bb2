"""What owners do on the command line, with the real keys, tokens and configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result
from client_broker import Broker

from kalends.cli import cli
from kalends.contract import owner_calls
from kalends.contract.owner_texts import reclaim_lines
from kalends.contract.plain_tables import aligned
from kalends.core.errors import NotAuthenticated, NotFound
from kalends.extras import install_command
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.serving.auth.public_keys import KeyTerms, load_trusted_keys
from kalends.serving.auth.revocations import Revocations
from kalends.serving.auth.tokens import KeyRing
from kalends.serving.configuration import load_configuration


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_a_token_is_not_signed_with_the_public_half_of_a_key(tmp_path: Path) -> None:
    key = tmp_path / "people"
    run("admin", "key", str(key))
    public = f"{key}.pub"
    refused = run("admin", "token", "--key", public, "--user", "ada", "--audience", "sdsc")
    assert refused.exit_code == 2
    assert "the public half" in refused.stderr
    assert "chmod" not in refused.stderr


def test_a_token_for_several_servers_comes_with_what_they_could_do(tmp_path: Path) -> None:
    key = tmp_path / "owner.key"
    assert run("admin", "key", str(key)).exit_code == 0
    both = ("--audience", "npaci", "--audience", "sdsc")
    result = run("admin", "token", "--key", str(key), "--user", "ada", *both)
    assert result.exit_code == 0
    assert "npaci, sdsc: each of these servers could use the token at the others" in result.stderr


def test_a_token_signed_with_a_new_key_is_good_for_its_audience(tmp_path: Path) -> None:
    key = tmp_path / "owner.key"
    assert run("admin", "key", str(key)).exit_code == 0
    result = run(
        "admin", "token", "--key", str(key), "--user", "ada", "--group", "physics",
        "--audience", "sdsc", "--scope", "use", "--scope", "audit", "--for", "1h",
    )  # fmt: skip
    assert result.exit_code == 0
    assert "at the others" not in result.stderr
    token = result.stdout.strip()
    scopes = frozenset({"use", "audit", "admin"})
    trusted = load_trusted_keys(Path(f"{key}.pub"), KeyTerms("kalends", scopes))
    issued_at = int(json.loads(run_json(key))["data"]["expires_at"]) - 8 * 3_600
    caller = KeyRing(trusted, "sdsc").verify(token, issued_at)
    assert caller.principal.user == "ada"
    assert caller.principal.groups == ("physics",)


def run_json(key: Path) -> str:
    words = ["admin", "token", "--key", str(key), "--user", "ada", "--audience", "sdsc", "--json"]
    return run(*words).stdout


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    key = tmp_path / "owner.key"
    run("admin", "key", str(key))
    before = key.read_bytes()
    assert run("admin", "key", str(key)).exit_code == 1
    assert key.read_bytes() == before


def test_a_wrong_scope_is_refused_in_words(tmp_path: Path) -> None:
    key = tmp_path / "owner.key"
    run("admin", "key", str(key))
    result = run(
        "admin", "token", "--key", str(key), "--user", "a", "--audience", "s", "--scope", "all"
    )
    assert result.exit_code == 2
    assert "'all' is not a scope" in result.stderr


def test_the_printed_configuration_can_be_loaded(tmp_path: Path) -> None:
    result = run("admin", "config")
    assert result.exit_code == 0
    assert load_configuration(result.stdout, tmp_path)


def test_doctor_looks_at_machines_whose_jobs_run_on_this_host(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    site = '[site]\nname = "lab"\nstore = "lab.sqlite"\n'
    box = '[[site.resources]]\nname = "box"\n[[site.machines]]\nresource = "box"\n'
    file.write_text(site + box + 'users = { ann = "nobody-here" }\n')
    (found,) = json.loads(run("admin", "doctor", str(file), "--json").stdout)["data"]["machines"]
    assert found["name"] == "lab/box"
    assert found["facts"][0].startswith("jobs run on this host")
    unknown = "nobody-here, as ann is called there, is not a Unix user of this host"
    assert (unknown in found["problems"]) == (os.geteuid() == 0), "else all run as the site's user"


@pytest.mark.parametrize("role", ["site", "broker"])
def test_doctor_says_what_stands_between_scripts_and_this_host(tmp_path: Path, role: str) -> None:
    file = tmp_path / "server.toml"
    server = f'[{role}]\nname = "lab"\nstore = "lab.sqlite"\n'
    for setting, fact, problem in (
        ("", "they run behind seccomp", ""),
        ("enabled = false", "none run here", ""),
        ("language_only = true", "", "they run inside the server"),
    ):
        file.write_text(f"{server}[{role}.agents]\n{setting}\n")
        told = run("admin", "doctor", str(file), "--json")
        scripts = json.loads(told.stdout)["data"]["scripts"]
        assert fact in "".join(scripts["facts"])
        assert problem in "".join(scripts["problems"])
        assert told.exit_code == bool(problem)


def test_doctor_of_a_virtual_site_says_what_else_it_looks_at(tmp_path: Path) -> None:
    file = tmp_path / "virtual.toml"
    member = '[[virtual.members]]\nname = "lab"\nurl = "http://127.0.0.1:7101"\n'
    file.write_text(f'[virtual]\nname = "campus"\n{member}')
    told = run("admin", "doctor", str(file))
    assert told.exit_code == 2
    assert "a virtual site runs nothing here" in told.stderr


def test_audit_reads_every_page_and_fails_when_an_invariant_does(broker: Broker) -> None:
    for _ in range(3):
        run("--broker", broker.url, "--user", "ada", "book", "caltech/onyx", "--for", "1h")
    audit = ("--broker", broker.url, "--user", "ada", "admin", "audit")
    sound = run(*audit)
    assert (sound.exit_code, sound.stdout.splitlines()) == (
        0, ["claims locked: 3", "all invariants hold"],
    )  # fmt: skip
    broker.draining = True
    broken = run(*audit)
    assert broken.exit_code == 1
    assert broken.stdout.splitlines()[-2:] == ["problem: sdsc/sp2 is overbooked", "1 problem"]
    assert json.loads(run(*audit, "--json").stdout)["data"]["problems"] == [
        "sdsc/sp2 is overbooked"
    ]


def test_drain_and_undrain_say_the_state_that_results(broker: Broker) -> None:
    assert run("admin", "drain", "--broker", broker.url).stdout == "broker test: draining\n"
    assert run("admin", "undrain", "--broker", broker.url).stdout == "broker test: ok\n"


def test_a_drain_may_carry_its_end_which_is_echoed(broker: Broker) -> None:
    admin = ("--broker", broker.url, "--zone", "UTC", "admin")
    told = run(*admin, "drain", "--until", "2050-01-01 18:00").stdout
    assert told == "broker test: draining until Sat 2050-01-01 18:00:00 UTC (UTC+00:00)\n"
    assert run(*admin, "drain", "--for", "2h").stdout.startswith("broker test: draining until ")
    both = run(*admin, "drain", "--for", "2h", "--until", "18:00")
    assert (both.exit_code, "not both" in both.stderr) == (2, True)
    past = run(*admin, "drain", "--until", "2001-01-01 18:00")
    assert (past.exit_code, "would have ended already" in past.stderr) == (2, True)


def test_a_time_is_taken_back_listed_and_withdrawn(broker: Broker) -> None:
    admin = ("--broker", broker.url, "--zone", "UTC", "admin")
    asked = (
        "reclaim",
        "sdsc/sp2",
        "--at",
        "2027-03-02 08:00",
        "--for",
        "4h",
        "--key",
        "my-own-key",
    )
    taken = run(*admin, *asked, "--notice", "1d", "--reason", "a new pump")
    assert taken.exit_code == 0
    assert taken.stdout.splitlines() == [
        "sdsc/sp2 from Tue 2027-03-02 08:00:00 UTC (UTC+00:00) for 4h",
        "  reason   a new pump",
        "  key      my-own-key",
    ]
    (_, body), *_ = broker.seen
    assert getattr(body, "notice_s", 0) == 86_400
    assert run(*admin, "reclaims").stdout == taken.stdout
    assert json.loads(run(*admin, "reclaims", "--json").stdout)["kind"] == "reclaims"
    assert run(*admin, "reclaim", "--end", "my-own-key").exit_code == 0
    assert run(*admin, "reclaims").stdout == "no period is reclaimed\n"


def test_of_a_part_that_is_taken_back_it_is_said_where_each_went_or_why_it_goes_or_stays(
    broker: Broker,
) -> None:
    admin = ("--broker", broker.url, "--zone", "UTC", "admin", "reclaim", "sdsc/sp2")
    asked = ("--units", "2", "--at", "2027-03-02 08:00", "--for", "4h", "--key", "my-own-key")
    told = run(*admin, *asked, "--dry-run")
    assert told.exit_code == 0
    (_, body), *_ = broker.seen
    assert (getattr(body, "units", 0), getattr(body, "dry_run", False)) == (2, True)
    lack = "2 units are missing from Tue 2027-03-02 08:00 to Tue 2027-03-02 12:00"
    when = "ann       4  Tue 2027-03-02 08:00  Tue 2027-03-02 12:00"
    assert told.stdout.splitlines() == [
        "sdsc/sp2:2 from Tue 2027-03-02 08:00:00 UTC (UTC+00:00) for 4h",
        "  beside   3 other reservations fit, and stay",
        "  fewest   perhaps not: there are too many reservations to try every choice",
        "  RESERVATION  USER  UNITS  FROM (UTC)            TO                    OUTCOME",
        f"  00000001     {when}  would be moved: {lack}",
        f"  00000002     {when}  moved to Tue 2027-03-02 12:00 on sdsc/onyx",
        f"  00000003     {when}  cancelled",
        f"  00000004     {when}  moved, or cancelled",
        f"  00000005     {when}  would stay: it begins within the notice",
    ]


def test_a_reclaim_needs_its_time_or_the_key_of_the_one_to_withdraw(broker: Broker) -> None:
    for words in (
        (),
        ("sdsc/sp2", "--for", "1h"),
        ("sdsc/sp2", "--end", "my-own-key", "--at", "now", "--for", "1h"),
    ):
        told = run("--broker", broker.url, "admin", "reclaim", *words)
        assert told.exit_code == 2
    told = run("--broker", broker.url, "admin", "reclaim", "--end", "nope")
    assert told.stderr.startswith("kalends: --end: a key is 8 to 80 ")
    assert broker.seen == []


def test_a_key_of_no_reclaim_is_named_as_it_was_typed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Broker, user: str, body: owner_calls.ReclaimRef) -> owner_calls.ReclaimView:
        raise NotFound("no such reclaim", where="key")

    monkeypatch.setattr(Broker, "do_reclaim_end", refuse)
    told = run("--broker", broker.url, "admin", "reclaim", "--end", "my-own-key")
    assert told.exit_code == 1
    assert told.stderr.startswith("kalends: --end: no such reclaim")


def test_of_one_that_stays_beside_a_reclaim_it_is_said_in_the_singular() -> None:
    view = owner_calls.ReclaimView(key="k", resource="sdsc/sp2", start=0, end=60, units=2, beside=1)
    assert "  beside   1 other reservation fits, and stays" in reclaim_lines(
        view, ZoneInfo("UTC"), aligned
    )


WITHOUT_SERVER_PARTS = """
import sys
sys.modules["jwt"] = None
from kalends.cli import main
sys.argv = ["kalends", "admin", "token", "--key", sys.executable, "--user", "a", "--audience", "b"]
sys.exit(main())
"""


def test_without_the_server_parts_it_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER_PARTS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert install_command("server") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_is_accepted_and_a_server_goes_on_but_not_both_in_one_call(tmp_path: Path) -> None:
    store = tmp_path / "sdsc.sqlite"
    store.write_bytes(b"")
    result = run("admin", "reconcile", str(store), "--go-on")
    assert result.exit_code == 2
    assert "--go-on" in result.stderr


def test_a_store_is_accepted_without_any_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KALENDS_TOKEN_FILE", str(tmp_path / "of-another-folder"))
    store, copy = tmp_path / "sdsc.sqlite", tmp_path / "copy.sqlite"
    SiteStore.open(store, "sdsc").close()
    assert run("admin", "backup", str(store), str(copy)).exit_code == 0
    accepted = run("admin", "reconcile", str(copy))
    assert (accepted.exit_code, accepted.stderr) == (0, "")
    needed = run("admin", "reconcile")
    assert (needed.exit_code, "of-another-folder cannot be read" in needed.stderr) == (2, True)


def test_a_comparison_that_goes_on_is_told_as_such_and_ends_with_a_code_of_its_own(
    broker: Broker,
) -> None:
    words = ["--broker", broker.url, "--user", "ada", "admin", "reconcile", "--wait"]
    slow = run(*words, "0")
    assert slow.exit_code == 75
    assert "npaci: still comparing, 1200 compared so far; ask again for the result" in slow.stdout
    gone = run(*words, "1")
    assert gone.exit_code == 1
    assert "caltech: not reached\n" in gone.stdout


def test_a_revoked_token_is_refused_by_who_reads_the_file(tmp_path: Path) -> None:
    key, listed, text = tmp_path / "owner", tmp_path / "revoked.txt", tmp_path / "ada.token"
    run("admin", "key", str(key))
    made = json.loads(run_json(key))["data"]
    text.write_text(made["token"] + "\n")
    trusted = load_trusted_keys(Path(f"{key}.pub"), KeyTerms("kalends"))
    listed.touch()
    ring = KeyRing(trusted, "sdsc", revoked=Revocations(listed))
    now_s = made["expires_at"] - 60
    assert ring.verify(made["token"], now_s).principal.user == "ada"
    result = run("admin", "revoke", str(listed), "--token-of", str(text), "--note", "laptop lost")
    assert result.exit_code == 0, result.output
    with pytest.raises(NotAuthenticated, match="revoked"):
        ring.verify(made["token"], now_s)
    listed.write_text("")
    assert ring.verify(made["token"], now_s).principal.user == "ada"
    result = run("admin", "revoke", str(listed), "--key-of", f"{key}.pub", "--json")
    [revoked] = json.loads(result.stdout)["data"]["revoked"]
    assert revoked == {"kind": "key", "id": trusted[0].key_id}
    with pytest.raises(NotAuthenticated, match="revoked"):
        ring.verify(made["token"], now_s)


def test_a_configuration_names_the_list_that_its_servers_read(tmp_path: Path) -> None:
    configuration, listed = tmp_path / "sdsc.toml", tmp_path / "revoked.txt"
    text = '[site]\nname = "sdsc"\nstore = "sdsc.sqlite"\n'
    keys = '[[site.keys]]\nfile = "owner.pub"\n'
    configuration.write_text(text + keys)
    gone = run("admin", "revoke", str(configuration), "--token", "lost")
    assert gone.exit_code != 0
    assert "reads no list" in gone.stderr
    configuration.write_text(f'{text}revoked = "revoked.txt"\n{keys}')
    result = run("admin", "revoke", str(configuration), "--token", "lost")
    assert result.exit_code == 0, result.output
    assert listed.read_text() == "token lost\n"


@pytest.mark.parametrize(
    "words", [[], ["--token", "a b"], ["--token", "a#b"], ["--token", ""], ["--key-of", "owner"]]
)
def test_what_revokes_nothing_is_a_usage_error(words: list[str], tmp_path: Path) -> None:
    run("admin", "key", str(tmp_path / "owner"))
    words = [str(tmp_path / each) if each == "owner" else each for each in words]
    assert run("admin", "revoke", str(tmp_path / "revoked.txt"), *words).exit_code == 2
    assert not (tmp_path / "revoked.txt").exists()
