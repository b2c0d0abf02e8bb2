"""What is out of reach for other users than root is found, wherever it lies."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kalends.batch.host_check import beyond_reach


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


@pytest.mark.parametrize("closed", ["venv", "venv/bin", "venv/bin/python"])
def test_the_folder_or_file_that_is_closed_is_named_once(home: Path, closed: str) -> None:
    program = home / "venv" / "bin" / "python"
    assert beyond_reach([program]) == []
    (home / closed).chmod(0o750)
    (told,) = beyond_reach([program, program])
    assert f"enter or run {home / closed}:" in told


def test_the_python_of_a_venv_may_lie_where_nobody_comes(home: Path) -> None:
    hidden = home / "root"
    hidden.mkdir()
    (home / "venv" / "bin" / "python").rename(hidden / "python")
    os.symlink(hidden / "python", home / "venv" / "bin" / "python")
    hidden.chmod(0o700)
    (told,) = beyond_reach([home / "venv" / "bin" / "python"])
    assert f"enter or run {hidden.resolve()}:" in told
