"""Programs that change their size, as real processes: same results, clear ends, nothing left behind."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes import malleable_programs

PROGRAMS = malleable_programs.__file__
COMMAND = [sys.executable, "-m", "kalends_malleable"]
MARK = "KALENDS_TEST_MARK"


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Marks all processes of a test; at its end none of them may be there."""
    mark = uuid.uuid4().hex
    yield {**os.environ, MARK: mark, "OPENBLAS_NUM_THREADS": "1"}
    for pid in marked(mark):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        waiter = select.poll()
        waiter.register(handle, select.POLLIN)
        assert waiter.poll(20_000), f"process {pid} is left"
        os.close(handle)


def marked(mark: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"{MARK}={mark}".encode() in Path("/proc", pid, "environ").read_bytes():
                found.append(int(pid))
        except OSError:
            continue
    return found


def run(
    environment: dict[str, str], *arguments: str | Path, status: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def heat_alone() -> str:
    """What the heat example prints on one rank that never changes."""
    return run(dict(os.environ), malleable_programs.HEAT).stdout


@pytest.mark.parametrize("seed", range(3))
def test_heat_is_the_same_to_the_last_bit_whatever_the_sizes(
    seed: int, heat_alone: str, environment: dict[str, str]
) -> None:
    random_source = random.Random(seed)
    sops = sorted(random_source.sample(range(1, 100), 25))
    changes = [f"{random_source.randint(1, 4)}@{sop}" for sop in sops]
    size = str(random_source.randint(1, 4))
    arguments = ["--size", size, "--changes", ",".join(changes), malleable_programs.HEAT]
    done = run(environment, *arguments)
    assert done.stdout == heat_alone
    assert done.stderr.count(" ranks in ") > 10


def test_all_distributions_hold_every_index_at_all_sizes(environment: dict[str, str]) -> None:
    changes = "3@2,1@4,2@7,3@9,1@12,3@13,2@16"
    assert run(environment, "--changes", changes, PROGRAMS, "dealt").stdout == "24.0 24.0\n"


@pytest.mark.parametrize(
    ("name", "rank", "match"),
    [
        ("raising", 0, "has failed: ZeroDivisionError: by nothing"),
        ("raising", 3, "has failed: ZeroDivisionError: by nothing"),
        ("dying", 2, "was ended by SIGKILL; the others have been ended"),
        ("exiting", 0, "has failed: SystemExit: enough"),
    ],
)
def test_a_rank_that_fails_ends_all_and_is_told_once(
    name: str, rank: int, match: str, environment: dict[str, str]
) -> None:
    done = run(environment, "--changes", "4@2", PROGRAMS, name, str(rank), status=1)
    assert done.stderr.count(f"error: rank {rank} of 4 in stage first {match}") == 1
    assert done.stderr.count("Traceback") == (0 if name == "dying" else 1)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("disagreeing", "rank 0 is at sop() and rank 3 at barrier() in stage first"),
        ("differing", "rank 0 and rank 3 have different state at sop() in stage first"),
        ("stopping", "rank 0 is at sop() and rank 1 at the end of the stage in stage first"),
    ],
)
def test_ranks_that_do_not_do_the_same_are_told_apart(
    name: str, match: str, environment: dict[str, str]
) -> None:
    done = run(environment, "--size", "4", PROGRAMS, name, "3", status=1)
    assert f"error: {match}" in done.stderr


def test_a_program_that_catches_everything_changes_all_the_same(
    environment: dict[str, str],
) -> None:
    done = run(environment, "--changes", "4@2,1@4", PROGRAMS, "swallowing")
    assert done.stdout == "ended with 1\n"


def test_a_stage_that_runs_on_fewer_shrinks_by_itself(environment: dict[str, str]) -> None:
    done = run(environment, "--size", "4", PROGRAMS, "raising", "9")
    assert done.stdout == "ended with 2\n"
    assert "SOP 6: 4 -> 2 ranks" in done.stderr


def test_a_size_that_is_not_eligible_is_refused_and_the_program_goes_on(
    environment: dict[str, str],
) -> None:
    done = run(environment, "--changes", "3@2,2@4", PROGRAMS, "raising", "9")
    assert "change 2 is refused: 3 ranks are not eligible here" in done.stderr
    assert done.stdout == "ended with 2\n"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--size", "3", PROGRAMS, "raising", "9"], "3 ranks are not eligible"),
        (["--changes", "2", PROGRAMS, "raising", "9"], "not a change of size"),
        (["--restart", PROGRAMS, "raising", "9"], "--checkpoint is missing"),
        (["none.py"], "none.py: there is no such file"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_runs(
    arguments: list[str], match: str, environment: dict[str, str]
) -> None:
    assert match in run(environment, *arguments, status=2).stderr


@pytest.mark.parametrize(
    ("step", "size"),
    [
        ("asked", "1"),
        ("saved", "3"),
        ("grown", "1"),
        ("grown", "3"),
        ("left", "1"),
        ("left", "3"),
        ("entered", "1"),
        ("told", "3"),
    ],
)
def test_a_program_killed_in_a_change_goes_on_from_its_last_sop(
    step: str, size: str, heat_alone: str, environment: dict[str, str], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "heat.npz"
    changes = "4@20" if size == "1" else "1@20"
    killed = subprocess.run(
        [sys.executable, PROGRAMS, step, checkpoint, changes], env=environment, timeout=100
    )
    assert killed.returncode == -9
    again = ["--checkpoint", checkpoint, "--restart", "--size", size]
    done = run(environment, *again, "--changes", "2@19,4@21", malleable_programs.HEAT)
    assert done.stdout == heat_alone
    assert "SOP 19" not in done.stderr, "it began anew"
    assert "SOP 21" in done.stderr


def test_a_change_whose_checkpoint_cannot_be_written_is_refused(
    heat_alone: str, environment: dict[str, str], tmp_path: Path
) -> None:
    missing = tmp_path / "missing" / "heat.npz"
    done = run(environment, "--checkpoint", missing, "--changes", "2@5", malleable_programs.HEAT)
    assert "change 5 is refused: the checkpoint" in done.stderr
    assert done.stdout == heat_alone
