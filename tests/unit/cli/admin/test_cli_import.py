"""``kalends admin import``: tables become sections of a configuration, and reservations of their users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command_line import data
from keyed_broker import keyed_broker

from kalends.cli import cli
from kalends.serving.auth.keys import write_key_pair
from kalends.serving.configuration import load_configuration
from kalends.testing import LocalFacility

SITE = """# Our rooms.
[site]
name = "lab"
store = "lab.sqlite"

[[site.resources]]
name = "room"     # the old one
"""


TOMORROW = f"{datetime.now(UTC) + timedelta(days=1):%F} 10:00"


def run(*words: str, url: str = "http://127.0.0.1:1") -> Result:
    return CliRunner().invoke(cli, words, env={"KALENDS_BROKER": url, "KALENDS_ZONE": "UTC"})


def test_resources_are_added_once_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    site, rooms = tmp_path / "site.toml", tmp_path / "rooms.csv"
    site.write_text(SITE)
    site.chmod(0o640)
    rooms.write_text(
        "Name;Capacity;Zone;Kind;Floor\n"
        'room;9;;;\nscope;2;Europe/Berlin;"electron ""SEM""";-1\nBad Room;1;;;\n'
        "none;0;;;\nfar;1;Mars/North;;\nscope;3;;;\n"
    )
    words = ("admin", "import", "resources", str(rooms), str(site))
    dry = run(*words, "--dry-run")
    assert (dry.exit_code, site.read_text()) == (2, SITE)
    assert "line 3: scope: would be added" in dry.stdout
    done = run(*words, "--json")
    assert done.exit_code == 2
    rows = data(done, "imported_resources")
    assert [(row["line"], row["state"]) for row in rows] == [
        (2, "there"), (3, "made"), (4, "bad"), (5, "bad"), (6, "bad"), (7, "there"),
    ]  # fmt: skip
    faults = [row["problem"].split(":")[0] for row in rows if row["problem"]]
    assert faults == ["column name", "column capacity", "column zone"]
    text = site.read_text()
    assert text.startswith(SITE)
    assert site.stat().st_mode & 0o777 == 0o640
    made = load_configuration(text, tmp_path).site
    assert made is not None
    room, scope = made.resources
    assert (room.name, room.capacity) == ("room", 1)
    assert (scope.capacity, scope.zone) == (2, "Europe/Berlin")
    assert scope.attributes == {"kind": 'electron "SEM"', "floor": "-1"}
    assert run(*words).exit_code == 2
    assert site.read_text() == text


def test_what_a_configuration_has_stays_to_its_line_ends_whatever_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, rooms = tmp_path / "site.toml", tmp_path / "rooms.csv"
    old = SITE.replace("Our rooms", "Räume").replace("\n", "\r\n").encode()
    site.write_bytes(old)
    rooms.write_text("name\nscope\n")
    monkeypatch.setattr("locale.getencoding", lambda: "ascii")
    assert run("admin", "import", "resources", str(rooms), str(site)).exit_code == 0
    assert site.read_bytes().startswith(old.rstrip(b"\r\n"))


def test_a_configuration_of_a_broker_takes_no_resources(tmp_path: Path) -> None:
    broker, rooms = tmp_path / "broker.toml", tmp_path / "rooms.csv"
    broker.write_text('[broker]\nname = "npaci"\nstore = "npaci.sqlite"\n')
    rooms.write_text("name\nroom\n")
    refused = run("admin", "import", "resources", str(rooms), str(broker))
    assert refused.exit_code == 2
    assert "no site is configured there" in refused.stderr


def test_bookings_are_made_at_a_broker_that_asks_for_no_token(tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text(
        f"resource,user,start,end,colour\nlab/room,ann,{TOMORROW},11:00,red\nlab/room,bob,x,11:00,red\n"
    )
    words = ("admin", "import", "bookings", str(old))
    with LocalFacility({"lab": {"room": 1}}) as servers:
        url = servers.url(servers.broker)
        dry = run(*words, "--dry-run", url=url)
        assert "line 2  can be booked   ann" in dry.stdout
        done = run(*words, url=url)
        with servers.sync_client("ann") as ann:
            (view,) = ann.list()
    assert done.exit_code == 2
    assert "columns that are not read: colour" in done.stderr
    assert f"{view.id[-8:]}\n" in done.stdout
    assert "  start: 'x' is not a time" in done.stdout
    assert "1 booked, 1 not understood" in done.stdout


def test_without_a_key_a_broker_with_keys_is_told_which_option_helps(tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text(
        f"resource,user,start,end\nlab/room,ann,{TOMORROW},11:00\nlab/room,jürgen,{TOMORROW},11:00\n"
    )
    with keyed_broker(tmp_path) as url:
        words = ("admin", "import", "bookings", str(old))
        refused = run(*words, url=url)
        known = run(*words, "--key", str(tmp_path / "people"), "--json", url=url)
        write_key_pair(tmp_path / "others")
        other = run(*words, "--key", str(tmp_path / "others"), url=url)
    assert refused.exit_code == 4
    assert "--key FILE" in refused.stderr
    assert (other.exit_code, "with --issuer" in other.stderr) == (4, True)
    row, of_any_letters = data(known, "imported")
    assert of_any_letters["state"] == "refused"
    assert (row["state"], row["problem"]["refusals"][0]["code"]) == ("refused", "unknown-resource")
