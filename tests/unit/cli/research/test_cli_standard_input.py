"""``-`` for a file: standard input, plain or gzip, read as often as a file is."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kalends.cli import cli
from kalends.cli.console import files

EXCERPT = Path(__file__).parents[4] / "examples" / "data" / "sdsc-sp2-excerpt.swf"


@pytest.fixture(autouse=True)
def kept_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for temporary files."""
    directory = tmp_path / "kept"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.chdir(tmp_path)
    return directory


def run(*words: str | Path, given: bytes = b"") -> Result:
    return CliRunner().invoke(cli, [*map(str, words)], input=io.BytesIO(given))


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_from_a_pipe_is_replayed_as_from_a_file_under_every_policy_named(
    packed: bool, kept_in: Path, tmp_path: Path
) -> None:
    text = EXCERPT.read_bytes()
    reservations = tmp_path / "reservations.csv"
    reservations.write_text("start,end,nodes\n1998-04-27,1998-04-28,20\n")
    words = ("--policy", "easy,fcfs", "--reservations", reservations)
    piped = run("simulate", "-", *words, given=gzip.compress(text) if packed else text)
    assert piped.exit_code == 0, piped.output
    assert piped.output == run("simulate", EXCERPT, *words).output
    assert not list(kept_in.iterdir())


def test_a_sweep_on_several_cores_reads_the_pipe_too() -> None:
    words = ("--repeat", "2", "--shake", "60s", "--cores", "2")
    piped = run("simulate", "-", *words, given=EXCERPT.read_bytes())
    assert piped.exit_code == 0, piped.output
    assert piped.output == run("simulate", EXCERPT, *words).output


@pytest.mark.parametrize("dash", ["log", "result"])
def test_either_file_of_a_check_may_come_from_a_pipe(dash: str, tmp_path: Path) -> None:
    result = tmp_path / "easy.swf"
    assert run("simulate", EXCERPT, "--out", result).exit_code == 0
    files = {"log": EXCERPT, "result": result}
    words = ["-" if name == dash else path for name, path in files.items()]
    done = run("check-schedule", *words, "--policy", "easy", given=files[dash].read_bytes())
    assert done.exit_code == 0
    assert done.stdout.endswith("nothing is wrong\n")


def test_what_is_wrong_with_it_is_said_of_standard_input(kept_in: Path) -> None:
    done = run("simulate", "-", "--nodes", "4", given=b"; Note: x\n1 2 3\n")
    assert done.exit_code == 2
    assert "kalends: standard input, line 2: 3 fields" in done.stderr
    assert not list(kept_in.iterdir())
    assert "standard input: is empty" in run("simulate", "-").stderr
    assert "standard input: LOG and RESULT are both -" in run("check-schedule", "-", "-").stderr


def test_more_than_a_bound_is_refused_and_not_kept(
    kept_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BYTES_MAX", 1000)
    done = run("simulate", "-", given=b";" * 1001)
    assert "standard input: is longer than 1,000 bytes" in done.stderr
    assert not list(kept_in.iterdir())


def test_no_place_to_keep_it_is_said(kept_in: Path) -> None:
    kept_in.rmdir()
    done = run("simulate", "-", given=b"; MaxProcs: 4\n")
    assert "standard input: cannot be stored: No such file or directory" in done.stderr


def test_a_closed_standard_input_is_said() -> None:
    program = (
        "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    words = [sys.executable, "-c", program, "-m", "kalends", "simulate", "-"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input: is closed" in done.stderr
