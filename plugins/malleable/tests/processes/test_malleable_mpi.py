"""Programs that change their size over MPI: the same results as on one host, with whole sets replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_malleable_control import Shepherd
from test_malleable_control import shepherd as shepherd
from test_malleable_programs import environment as environment
from test_malleable_programs import heat_alone as heat_alone
from test_malleable_programs import run
from tests.processes import malleable_programs

MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))
CORES = sorted(os.sched_getaffinity(0))[:1]
PROGRAMS = malleable_programs.__file__


def started(
    environment: dict[str, str], ranks: int, *arguments: str | Path
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "kalends_malleable", "--mpi", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run_mpi(
    environment: dict[str, str], ranks: int, *arguments: str | Path, status: int = 0
) -> tuple[str, str]:
    process = started(environment, ranks, *arguments)
    printed, errors = process.communicate(timeout=100)
    assert process.returncode == status, errors
    return printed, errors


def test_heat_is_the_same_to_the_last_bit_over_mpi_and_from_a_checkpoint(
    heat_alone: str, environment: dict[str, str], tmp_path: Path
) -> None:
    checkpoint = ["--checkpoint", str(tmp_path / "heat.npz")]
    changes = ["--changes", "4@20,1@30,3@60"]
    printed, errors = run_mpi(environment, 2, malleable_programs.HEAT, *checkpoint, *changes)
    assert printed == heat_alone
    assert [line.split(" ranks")[0] for line in errors.splitlines()] == [
        "SOP 20: 2 -> 4", "SOP 30: 4 -> 1", "SOP 60: 1 -> 3"
    ]  # fmt: skip
    assert (
        run_mpi(environment, 4, malleable_programs.HEAT, *checkpoint, "--restart")[0] == heat_alone
    )
    assert run(environment, *checkpoint, "--restart", malleable_programs.HEAT).stdout == heat_alone


def test_all_distributions_hold_every_index_over_mpi(environment: dict[str, str]) -> None:
    changes = "3@2,1@7,3@16"
    assert run_mpi(environment, 2, "--changes", changes, PROGRAMS, "dealt")[0] == "24.0 24.0\n"


def test_a_stage_that_runs_on_fewer_is_replaced_by_itself(environment: dict[str, str]) -> None:
    assert run_mpi(environment, 4, PROGRAMS, "raising", "9")[0] == "ended with 2\n"


def test_the_control_asks_each_set_of_ranks_anew(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["KALENDS_CONTROL"] = shepherd.path
    process = started(environment, 1, PROGRAMS, "telling", tmp_path)
    shepherd.welcome()
    assert shepherd.hear() == {"sizes": [1, 2, 4]}
    for number, to in [(1, 2), (2, 4)]:
        shepherd.say({"change": number, "to": to, "cores": CORES})
        assert shepherd.hear_all() == {"taking": number}
        shepherd.say({"go": number})
        shepherd.welcome()
        assert shepherd.hear() == {"sizes": [1, 2, 4]}
        answer = shepherd.hear()
        assert (answer["changed"], answer["ranks"]) == (number, to)
        assert answer["took_s"] >= answer["moving_s"] > 0
        shepherd.say({"change": number, "to": to})
        assert shepherd.hear() == answer, "the new set knows what the old one was asked"
    shepherd.say({"change": 3, "to": 3})
    assert "not eligible" in shepherd.hear()["why"]
    (tmp_path / "stop").touch()
    printed, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert printed == "entered with 1\nentered with 2\nentered with 4\nended with 2\n"
    assert json.loads((tmp_path / "4.3").read_text()) == CORES


@pytest.mark.parametrize(
    ("name", "ranks", "status", "match"),
    [
        ("raising", 2, 1, "error: rank 1 of 2 has failed: ZeroDivisionError('by nothing')"),
        ("differing", 2, 2, "error: ranks have different state at an SOP"),
        ("raising", 3, 2, "error: 3 ranks are not eligible: stage first runs on 1, 2 or 4 ranks"),
    ],
)
def test_what_fails_over_mpi_ends_all_and_is_told_once(
    name: str, ranks: int, status: int, match: str, environment: dict[str, str]
) -> None:
    _, errors = run_mpi(environment, ranks, PROGRAMS, name, "1", status=status)
    assert errors.count(match) == 1
