"""What `kalends admin init` sets up can be served, and `kalends serve --check` says so without a start."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ports import free_ports

from kalends.cli import cli
from kalends.serving.auth.keys import write_key_pair
from kalends.serving.auth.public_keys import KeyTerms, load_trusted_keys
from kalends.serving.auth.tokens import KeyRing
from kalends.serving.configuration import StorePlace, load_configuration
from kalends.serving.installation.files import closed_to_others
from kalends.serving.installation.plan import Installation, NamedUrl, WantedResource
from kalends.serving.installation.service_unit import service_unit


def run(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, words, input=typed)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def free_address() -> str:
    (port,) = free_ports(1)
    return f"127.0.0.1:{port}"


def set_up_both() -> None:
    assert run(
        "admin", "init", "broker", "npaci", "--listen", free_address(), "--self-signed",
        "--site", "ctc=https://ctc.example:7101",
    ).exit_code == 0  # fmt: skip
    assert run(
        "admin", "init", "site", "ctc", "--listen", free_address(), "--self-signed",
        "--resource", "sp2:128", "--resource", "cave", "--broker-key", "npaci/keys/npaci.pub",
    ).exit_code == 0  # fmt: skip


def test_a_site_and_a_broker_of_one_line_each_are_ready_to_serve(folder: Path) -> None:
    set_up_both()
    for name in ("npaci", "ctc"):
        result = run("serve", "--check", f"{name}/{name}.toml", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)["data"]
        assert (found["problems"], found["warnings"], found["risks"]) == ([], [], [])
    assert "resource ctc/sp2: 128 units" in result.stdout
    assert "keys/npaci.pub for use, broker, in the name of anybody" in result.stdout
    assert not list(folder.rglob("*.sqlite*")), "a check makes no store"


def test_the_site_believes_its_broker_as_that_broker_and_its_operator_as_operator(
    folder: Path,
) -> None:
    set_up_both()
    configuration = load_configuration((folder / "ctc/ctc.toml").read_text(), folder / "ctc")
    assert configuration.site is not None
    people, broker = configuration.site.keys
    assert (broker.brokers, broker.scopes) == (("npaci",), ("use", "broker"))
    keys = load_trusted_keys(people.file, KeyTerms(scopes=frozenset(people.scopes)))
    token = (folder / "ctc/tokens/operator").read_text().strip()
    made_at = int((folder / "ctc/tokens/operator").stat().st_mtime)
    caller = KeyRing(keys, "ctc").verify(token, made_at)
    assert caller.scopes == {"use", "audit", "admin"}


def test_a_check_names_tokens_that_other_servers_could_use_here(folder: Path) -> None:
    set_up_both()
    with (folder / "ctc/ctc.toml").open("a") as file:
        file.write(
            '[[site.keys]]\nopenid = "https://login.example"\nclaims.audiences = ["kalends"]\n'
        )
    result = run("serve", "--check", "ctc/ctc.toml")
    assert result.exit_code == 0
    assert "trusts https://login.example for use" in result.stdout
    assert "RISK: tokens of https://login.example for 'kalends' are accepted here" in result.stdout


def test_secrets_are_their_owners_alone_whatever_the_mask(folder: Path) -> None:
    before = os.umask(0)
    try:
        set_up_both()
    finally:
        os.umask(before)
    shared = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.stat().st_mode & 0o077 and path.suffix not in (".pub", ".pem", ".service", ".conf")
    }
    # Scripts of jobs are below the folder of a site: others may go through it, and see nothing in it.
    assert shared == {"ctc"}
    assert (folder / "ctc").stat().st_mode & 0o777 == 0o711


def test_a_machine_of_a_new_site_can_run_scripts_and_a_closed_folder_is_named(
    folder: Path,
) -> None:
    for each in (folder, *folder.parents):
        if each.owner() == Path().owner() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o011)
    set_up_both()
    with (folder / "ctc/ctc.toml").open("a") as file:
        file.write('[[site.machines]]\nresource = "sp2"\n')
        if os.geteuid() == 0:
            file.write('users = { ann = "nobody" }\n')
    for words in (("serve", "--check"), ("admin", "doctor")):
        assert "scripts of jobs are below it" not in run(*words, "ctc/ctc.toml").stdout
    (folder / "ctc").chmod(0o700)
    closed = f"(nobody) cannot enter {folder}/ctc, and scripts of jobs are below it. Run: chmod o+x"
    for words in (("serve", "--check"), ("admin", "doctor")):
        told = run(*words, "ctc/ctc.toml")
        # Elsewhere jobs are the site's own user's, who has made the folder.
        if os.geteuid() == 0:
            assert closed in told.stdout
            assert told.exit_code == 1


def test_nothing_is_overwritten_and_what_fails_leaves_nothing(folder: Path) -> None:
    set_up_both()
    before = (folder / "ctc/ctc.toml").read_bytes()
    assert run("admin", "init", "site", "ctc").exit_code == 1
    assert (folder / "ctc/ctc.toml").read_bytes() == before
    (folder / "no.pub").write_text("no key")
    assert run("admin", "init", "site", "sdsc", "--broker-key", "no.pub").exit_code == 2
    assert not (folder / "sdsc").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["site"], "the role and name of the server are missing"),
        (["site", "Not a name"], "name"),
        (["site", "ctc", "--site", "a=http://a"], "a site has none"),
        (["broker", "npaci", "--resource", "sp2"], "a broker has none"),
        (["site", "ctc", "--resource", "sp2:many"], "is not a number of units"),
        (["broker", "npaci", "--site", "ctc"], "is not NAME=VALUE"),
        (["broker", "npaci", "--site", "ctc=ftp://x"], "not the address of a server"),
        (["site", "ctc", "--listen", "0.0.0.0:7101"], "unencrypted"),
        (["site", "ctc", "--listen", "nowhere"], "not an address to listen on"),
    ],
)
def test_what_cannot_be_set_up_is_said_before_anything_is_made(
    folder: Path, words: list[str], said: str
) -> None:
    result = run("admin", "init", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(folder.iterdir())


def test_a_check_names_every_problem_and_starts_nothing(folder: Path) -> None:
    set_up_both()
    (folder / "npaci/keys/npaci").chmod(0o644)
    result = run("serve", "--check", "npaci/npaci.toml")
    assert result.exit_code == 1
    assert "every user of this machine can read it" in result.stdout
    listen = load_configuration((folder / "ctc/ctc.toml").read_text(), folder / "ctc").site
    assert listen is not None
    host, _, port = listen.listen.partition(":")
    (folder / "ctc/ctc.sqlite").write_text("precious")
    with socket.create_server((host, int(port))):
        result = run("serve", "--check", "ctc/ctc.toml")
    assert "is taken" in result.stdout
    assert "it is not a SQLite database" in result.stdout
    assert (folder / "ctc/ctc.sqlite").read_text() == "precious"


def test_a_check_says_how_users_are_told_of_changes(folder: Path) -> None:
    set_up_both()
    with (folder / "npaci/npaci.toml").open("a") as configuration:
        configuration.write(
            '\n[broker.notices]\nsmtp = "relay.example:25"\nfrom = "kalends@npaci.example"\n'
            'webhook_hosts = ["*", "127.0.0.1:8080"]\n'
        )
    told = "  notices by mail from kalends@npaci.example through relay.example:25 and webhooks at "
    checked = run("serve", "--check", "npaci/npaci.toml").stdout.splitlines()
    assert told + "any public host, 127.0.0.1:8080" in checked


def test_on_a_terminal_it_asks_for_what_is_missing(folder: Path) -> None:
    answers = [
        ("Set up a", "site"),
        ("Name", "ctc"),
        ("listen at", free_address()),
        ("resources", "sp2:4"),
    ]
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "kalends", "admin", "init"]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as asking:
        os.close(terminal)
        seen = ""
        for question, answer in answers:
            while question not in seen:
                seen += os.read(keyboard, 1_000).decode()
            seen = ""
            os.write(keyboard, f"{answer}\n".encode())
        assert asking.wait() == 0
    os.close(keyboard)
    site = load_configuration((folder / "ctc/ctc.toml").read_text(), folder / "ctc").site
    assert site is not None
    assert [(each.name, each.capacity) for each in site.resources] == [("sp2", 4)]


names = st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True)


@given(names, names, st.integers(1, 1_000_000), st.text(max_size=20))
def test_any_plan_that_is_taken_is_read_as_it_was_meant(
    name: str, resource: str, units: int, odd: str
) -> None:
    directory = Path("/srv") / (odd.replace("/", "").replace("\0", "") or "x")
    plan = Installation(
        role="site", name=name, directory=directory, listen="127.0.0.1:0",
        resources=(WantedResource(resource, units),), broker_keys=(directory / f"{name}.pub",),
    )  # fmt: skip
    site = plan.check().site
    assert site is not None
    assert (site.name, site.store) == (name, StorePlace(directory / f"{name}.sqlite"))
    assert [(each.name, each.capacity) for each in site.resources] == [(resource, units)]
    broker = Installation(
        role="broker", name=name, directory=directory, listen="127.0.0.1:0",
        sites=(NamedUrl(resource, "https://a.example:1"),),
    ).check().broker  # fmt: skip
    assert broker is not None
    assert [(each.name, each.url) for each in broker.sites] == [(resource, "https://a.example:1")]


def test_the_unit_is_what_systemd_takes_and_leaves_a_server_no_rights(folder: Path) -> None:
    write_key_pair(folder / "people")
    unit = service_unit(
        "site", "ctc", folder / 'a "b" % $c' / "ctc.toml", Path(shutil.which("sh") or "")
    )
    for line in (
        "User=kalends-ctc",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=\n",
        "UMask=0077",
        "OOMPolicy=continue",
    ):
        assert line in unit
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    (folder / "kalends-ctc.service").write_text(unit)
    verified = subprocess.run(
        [analyze, "verify", "kalends-ctc.service"], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")


def test_what_is_to_be_pasted_is_quoted(folder: Path) -> None:
    name = "my lab's $dir"
    made = run(
        "admin", "init", "site", "lab", "--directory", name, "--resource", "g:4", "--zone", "UTC"
    )
    assert made.exit_code == 0
    pasted = [
        line for line in made.stdout.splitlines() if line.startswith(("check ", "run ", "  "))
    ]
    words = [word for line in pasted if "cannot enter" not in line for word in shlex.split(line)]
    whole = str(folder / name)
    assert whole in words
    assert f"{whole}/kalends-lab.service" in words
    assert f"{whole}/kalends-lab.conf" in words
    assert words.count(f"{name}/lab.toml") == 2


def test_the_unit_sees_the_homes_in_which_its_interpreter_really_lies() -> None:
    served, linked = Path("/srv/lab/lab.toml"), Path("/opt/kalends/bin/python")
    assert "ProtectHome=yes" in service_unit("site", "lab", served, linked)
    for hidden in ("/root/venv/bin/python", "/home/ann/lib", "/run/user/1/x"):
        unit = service_unit("site", "lab", served, linked, [Path(hidden)])
        assert "ProtectHome=read-only" in unit
    assert "ProtectHome=yes" in service_unit("site", "lab", Path("/homework/lab.toml"), linked)


def test_folders_that_the_services_user_cannot_enter_are_found() -> None:
    # Folders of tests are closed to others already.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        base = Path(made)
        base.chmod(0o755)
        closed = base / "closed"
        (closed / "inside").mkdir(parents=True)
        closed.chmod(0o700)
        assert closed_to_others([closed / "inside" / "python", base / "python"]) == (closed,)
        closed.chmod(0o711)
        assert closed_to_others([closed / "inside" / "python"]) == ()


def test_a_check_is_silent_about_a_resource_that_somebody_can_book(folder: Path) -> None:
    set_up_both()
    file = folder / "ctc/ctc.toml"
    before = file.read_text()
    weekend = '{ rrule = "FREQ=WEEKLY;BYDAY=SA,SU", start = "00:00", duration = "24h" }'
    for rules in (
        f"hours = [{weekend}]",
        f'access = [{{ who = "group:lab", may = "lock", hours = [{weekend}] }}]',
        f'grain = "1d"\nblackouts = [{{ reason = "quiet", hours = [{weekend}] }}]',
        'limits = [{ who = "group:lab", ahead = "5d" }, { who = "everyone", ahead = "1s" }]',
    ):
        file.write_text(before.replace("capacity = 128", f"capacity = 128\n{rules}"))
        found = json.loads(run("serve", "--check", str(file), "--json").stdout)["data"]
        assert not [each for each in found["warnings"] if "no user can book" in each], rules
        assert "ctc/sp2" in str(found["serves"]), found


def test_a_check_finds_a_server_at_which_no_user_can_book(folder: Path) -> None:
    set_up_both()
    for text, change, told in (
        ("ctc", ("scopes = [\"use\", \"broker\"]\nbrokers = [\"npaci\"]", "scopes = [\"use\"]"),
         "no broker has a key here"),
        ("ctc", ("capacity = 128", "capacity = 128\naccess = [{ who = \"everyone\", may = \"see\" }]"),
         "no user can book ctc/sp2"),
        ("ctc", ("capacity = 128", "capacity = 128\nblackouts = [{ reason = \"moving\", hours = "
                 "[{ rrule = \"FREQ=DAILY\", start = \"00:00\", duration = \"24h\" }] }]"),
         "no user can book ctc/sp2 until"),
        ("ctc", ("capacity = 128", "capacity = 128\nhours = [{ rrule = \"FREQ=DAILY;UNTIL=20260301\", "
                 "start = \"08:00\", duration = \"8h\" }]"),
         "no user can book ctc/sp2 until"),
        ("ctc", ("capacity = 128", "capacity = 128\naccess = [{ who = \"group:lab\", may = \"lock\", hours = "
                 "[{ rrule = \"FREQ=DAILY;UNTIL=20260301\", start = \"08:00\", duration = \"8h\" }] }]"),
         "no user can book ctc/sp2 until"),
        ("npaci", ("[[broker.sites]]\nname = \"ctc\"\nurl = \"https://ctc.example:7101\"", ""),
         "it has no sites"),
    ):  # fmt: skip
        file = folder / f"{text}/{text}.toml"
        before = file.read_text()
        assert change[0] in before
        file.write_text(before.replace(*change))
        found = json.loads(run("serve", "--check", str(file), "--json").stdout)["data"]
        assert any(told in each for each in found["warnings"]), found
        file.write_text(before)
