"""An owner's script is checked when its site is configured, and users read what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends.calendars import ResourceCalendar
from kalends.core.errors import InvalidInput
from kalends.core.limits import SCRIPT_BYTES_MAX
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.serving.configuration import load_configuration

SCRIPT = (
    'def decide(request, calendar, usage):\n    """Not at night.\n\n    More."""\n    return True\n'
)
SITE = '[site]\nname = "emlab"\nstore = "s"\n'
RESOURCE = '[[site.resources]]\nname = "{}"\n'
DECIDE = 'decide = {{ script = "{}" }}\n'


def calendars(folder: Path, text: str) -> dict[str, ResourceCalendar]:
    site = load_configuration(SITE + text, folder).site
    assert site is not None
    return calendars_of(site)


def refused(folder: Path, source: bytes) -> InvalidInput:
    (folder / "rules.py").write_bytes(source)
    with pytest.raises(InvalidInput) as refusal:
        calendars(folder, RESOURCE.format("tem") + DECIDE.format("rules.py"))
    assert refusal.value.where == "site.resources[0].decide.script"
    return refusal.value


def test_users_read_the_first_line_of_what_the_script_says_of_itself(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(SCRIPT)
    found = calendars(tmp_path, RESOURCE.format("tem") + DECIDE.format("rules.py"))["emlab/tem"]
    assert found.info.rules == ("the owner's script decides: Not at night.",)


def test_a_resources_own_script_stands_in_place_of_the_sites(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(SCRIPT)
    (tmp_path / "site.py").write_text(SCRIPT.replace("Not at night", "Not on Sunday"))
    text = f"[site.defaults]\n{DECIDE.format('site.py')}" + (
        RESOURCE.format("tem") + DECIDE.format("own.py") + RESOURCE.format("laser")
    )
    words = [
        each.rules.script.words for each in calendars(tmp_path, text).values() if each.rules.script
    ]
    assert words == ["Not at night.", "Not on Sunday."]


def test_a_script_that_is_missing_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refusal:
        calendars(tmp_path, f"[site.defaults]\n{DECIDE.format('no.py')}" + RESOURCE.format("tem"))
    assert refusal.value.where == "site.defaults.decide.script"
    assert "No such file" in refusal.value.detail


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (b"\xff", "the file is not UTF-8"),
        (b"#" * (SCRIPT_BYTES_MAX + 1), "is longer than"),
        (b"import os\n", "line 1: "),
        (b"def choose(view, request):\n    return []\n", "the script defines no function decide"),
        (b"def decide(request):\n    return True\n", "line 1: "),
    ],
)
def test_a_file_that_is_no_owners_script_is_refused(
    tmp_path: Path, source: bytes, told: str
) -> None:
    assert told in refused(tmp_path, source).detail


def test_what_decides_when_the_script_fails_is_one_of_three(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(SCRIPT)
    text = RESOURCE.format("tem") + 'decide = { script = "rules.py", on_failure = "maybe" }\n'
    with pytest.raises(InvalidInput):
        calendars(tmp_path, text)
