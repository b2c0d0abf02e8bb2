"""An attempt that was handed over runs once at most, and says how it ended: a real shell runs its script."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from kalends.backends.command_runner import CLEAN
from kalends.backends.desks.attempts import AttemptFolder, End
from kalends.backends.desks.handed_over import RUN, SCRIPT, HandedOver, run_text


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    made = AttemptFolder(str(tmp_path / "1.1.a"))
    made.make()
    return made


def handed(folder: AttemptFolder, home: Path, *argv: str, **more: str) -> list[str]:
    job = HandedOver(argv=argv, nodes=1, limit_s=60, **more)  # type: ignore[arg-type]
    if job.script:
        folder.write(SCRIPT, job.script, 0o700)
    folder.write(RUN, run_text(job, folder.path, str(home), local=True), 0o700)
    return ["/bin/sh", f"{folder.path}/{RUN}"]


def test_a_job_that_a_system_starts_twice_runs_once(folder: AttemptFolder, tmp_path: Path) -> None:
    words = handed(folder, tmp_path, "/bin/sh", "-c", "echo once >> mark; exit 3")
    starts = [subprocess.Popen(words) for _ in range(8)]
    codes = [each.wait() for each in starts]
    assert sorted(codes) == [0] * 7 + [3]
    assert (tmp_path / "mark").read_text() == "once\n"
    assert folder.end() == End("exit", 3, "")
    assert not folder.take_turn()


def test_its_files_locale_and_time_are_its_users_and_not_those_of_the_desk(
    folder: AttemptFolder, tmp_path: Path
) -> None:
    text = 'umask; echo "$LC_ALL,$TZ"; touch shared'
    words = handed(folder, tmp_path, "/bin/sh", "-c", text, output="out", umask="027")
    subprocess.run(words, check=True, env={**os.environ, **CLEAN})
    assert (tmp_path / "out").read_text() == "0027\n,\n"
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o640


def test_a_job_that_was_decided_against_goes_away_whenever_it_comes(
    folder: AttemptFolder, tmp_path: Path
) -> None:
    words = handed(folder, tmp_path, "/bin/sh", "-c", "echo ran >> mark")
    assert folder.take_turn()
    assert subprocess.run(words, check=True).returncode == 0
    assert not (tmp_path / "mark").exists()
    assert folder.end() is None
    folder.remove()
    assert subprocess.run(words, stderr=subprocess.DEVNULL).returncode != 3
    assert not (tmp_path / "mark").exists()


def test_words_and_variables_of_users_stay_what_they_are(
    folder: AttemptFolder, tmp_path: Path
) -> None:
    odd = "a 'b' \"c\" $HOME `id` \\ \n;&|"
    words = handed(
        folder,
        tmp_path,
        "/usr/bin/printenv",
        "ODD",
        environment={"ODD": odd},  # type: ignore[arg-type]
    )
    subprocess.run(words, check=True)
    assert Path(folder.path, "output").read_text() == odd + "\n"
    other = AttemptFolder(str(tmp_path / "2.1.a"))
    other.make()
    subprocess.run(handed(other, tmp_path, "/usr/bin/printf", "%s", odd, output="said"), check=True)
    assert (tmp_path / "said").read_text() == odd


def test_a_script_is_carried_over_with_its_arguments(folder: AttemptFolder, tmp_path: Path) -> None:
    words = handed(folder, tmp_path, "x", "y z", script='#!/bin/sh\necho "$#: $2"\n', output="said")
    subprocess.run(words, check=True)
    assert (tmp_path / "said").read_text() == "2: y z\n"


def test_a_directory_that_is_not_there_is_told(folder: AttemptFolder, tmp_path: Path) -> None:
    subprocess.run(
        handed(folder, tmp_path, "/bin/true", directory="/no/`such`"), stderr=subprocess.DEVNULL
    )
    assert folder.end() == End("not-started", 0, "cannot enter /no/?such?")


def test_a_job_that_is_asked_to_end_says_how_it_ended(
    folder: AttemptFolder, tmp_path: Path
) -> None:
    text = "trap 'exit 9' TERM; echo up > up; while :; do sleep 0.05; done"
    started = subprocess.Popen(
        handed(folder, tmp_path, "/bin/sh", "-c", text), start_new_session=True
    )
    while not (tmp_path / "up").exists():
        assert started.poll() is None
    os.killpg(started.pid, signal.SIGTERM)
    assert started.wait() == 9
    assert folder.end() == End("exit", 9, "")


def test_how_it_ended_is_said_once(folder: AttemptFolder) -> None:
    folder.close("lost", "nobody\nknows")
    folder.close("not-started", "never")
    assert folder.end() == End("lost", 0, "nobody knows")


@pytest.mark.parametrize("text", ["", "exit", "exit -1", "exit 99999", "done 0", "killed x"])
def test_an_end_that_cannot_be_read_is_no_success(folder: AttemptFolder, text: str) -> None:
    folder.write("ended", text)
    end = folder.end()
    assert end is not None
    assert (end.kind, end.status) == ("lost", 0)
