"""What is out of reach for the Unix users of jobs is found, wherever it is."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kalends.batch.host_check import (
    beyond_reach,
    closed_to_scripts,
    homeless,
    named_few,
    not_writable,
)

AS_ROOT = os.geteuid() == 0
USER = "nobody" if AS_ROOT else pwd.getpwuid(os.geteuid()).pw_name
CLOSED = 0o750 if AS_ROOT else 0o600
"""Rights that keep `USER` out."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that everybody may enter, with a program in `venv/bin`."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        (home / "venv" / "bin").mkdir(parents=True, mode=0o755)
        program = home / "venv" / "bin" / "python"
        program.touch()
        program.chmod(0o755)
        yield home
        for each in (home / "venv", home / "venv/bin"):
            each.chmod(0o755)


@pytest.mark.parametrize("closed", ["venv", "venv/bin", "venv/bin/python"])
def test_the_folder_or_file_that_is_closed_is_named_once(home: Path, closed: str) -> None:
    program = home / "venv" / "bin" / "python"
    assert beyond_reach([program], USER) == []
    (home / closed).chmod(CLOSED)
    assert beyond_reach([program, program], USER) == [home / closed]


def test_the_python_of_a_venv_may_lie_where_its_user_cannot_go(home: Path) -> None:
    hidden = home / "root"
    hidden.mkdir()
    (home / "venv" / "bin" / "python").rename(hidden / "python")
    os.symlink(hidden / "python", home / "venv" / "bin" / "python")
    hidden.chmod(CLOSED)
    told = beyond_reach([home / "venv" / "bin" / "python"], USER)
    assert hidden in told
    hidden.chmod(0o755)


def test_what_is_not_there_yet_keeps_no_one_out(home: Path) -> None:
    assert beyond_reach([home / "venv" / "box.jobs" / "spool"], USER) == []
    assert beyond_reach([home / "venv"], "nobody-here") == []


def test_a_group_that_may_enter_is_not_kept_out(home: Path) -> None:
    (home / "venv").chmod(0o710)
    assert beyond_reach([home / "venv" / "bin"], USER) == ([home / "venv"] if AS_ROOT else [])
    os.chown(home / "venv", -1, pwd.getpwnam(USER).pw_gid)
    assert beyond_reach([home / "venv" / "bin"], USER) == []


def test_each_folder_is_told_once_with_what_opens_it(home: Path) -> None:
    closed = home / "my jobs"
    closed.mkdir(0o700)
    # Elsewhere jobs are the site's own user's.
    told = (
        closed_to_scripts(closed / "lab.box.jobs", {"ann": "daemon", "bob": "daemon"})
        if AS_ROOT
        else []
    )
    assert len(told) == AS_ROOT
    for each in told:
        assert f"(daemon, nobody) cannot enter {closed}, and scripts of jobs are below it" in each
        assert f"Run: chmod o+x '{closed}'; or name another folder" in each


def test_a_folder_in_which_nothing_can_be_recorded_is_named(home: Path) -> None:
    assert not_writable(home / "box.jobs" / "more") == []
    assert sorted(home.iterdir()) == [home / "venv"], "nothing is left of it"
    (told,) = not_writable(Path("/proc/box.jobs"))
    assert told.startswith("jobs cannot be recorded in /proc/box.jobs: /proc: ")


def test_users_without_a_home_are_named() -> None:
    users = {"ann": "nobody", "bob": pwd.getpwuid(os.geteuid()).pw_name, "eve": "nobody-here"}
    found = homeless(users) if AS_ROOT else []
    assert ("nobody" in found) == (AS_ROOT and not Path(pwd.getpwnam("nobody").pw_dir).is_dir())
    assert named_few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert named_few(["a"]) == "a"
