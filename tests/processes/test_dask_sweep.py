"""A sweep on a real Dask cluster, on loopback: the same as in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from distributed import LocalCluster

from kalends.core.errors import InvalidInput
from kalends.simulation.result import SimulationResult
from kalends.simulation.sweeps import Cell, sweep
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.xdist_group("one-at-a-time")

DATA = Path(__file__).parents[2] / "examples" / "data"
LOG = DATA / "sdsc-sp2-excerpt.swf"


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two worker processes; all of them are gone afterwards."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0",
    ) as cluster:  # fmt: skip
        pids = [nanny.pid for nanny in cluster.workers.values()]
        yield cluster.scheduler_address
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def timeless(cells: list[Cell]) -> list[tuple[str, float, list[SimulationResult]]]:
    return [
        (
            cell.policy,
            cell.load,
            [
                msgspec.structs.replace(each, seconds=0.0, jobs_per_second=0.0)
                for each in cell.results
            ],
        )
        for cell in cells
    ]


def test_a_sweep_on_a_dask_cluster_is_that_of_one_process(scheduler: str) -> None:
    options = {
        "policies": ["easy", "reconfigurable"], "loads": [1.0, 1.3], "repeats": 3, "shake_s": 300,
        "seed": 8, "speedups": DATA / "speedups.json",
    }  # fmt: skip
    told: list[tuple[int, int | None]] = []
    there = sweep(LOG, dask=scheduler, progress=lambda done, of: told.append((done, of)), **options)
    assert timeless(there) == timeless(sweep(LOG, cores=1, **options))
    assert told == [(done, 12) for done in range(1, 13)]


def test_what_a_worker_refuses_is_refused_here_and_the_cluster_goes_on(scheduler: str) -> None:
    with pytest.raises(InvalidInput, match="unknown policy 'eesy'"):
        sweep(LOG, policies=["easy", "eesy"], dask=scheduler)
    assert sweep(LOG, policies=["easy"], dask=scheduler)[0].results[0].jobs == 332


def test_the_command_sweeps_there_too(scheduler: str) -> None:
    program = "import sys; from kalends.cli import main; sys.exit(main())"
    words = [str(LOG), "--policy", "fcfs,easy", "--loads", "1,1.1", "--json"]
    answers = []
    for where in (["--dask", scheduler], ["--cores", "1"]):
        done = subprocess.run(
            [sys.executable, "-c", program, "simulate", *words, *where],
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout)["data"])
        for cell in answers[-1]:
            for each in cell["results"]:
                del each["seconds"], each["jobs_per_second"]
            for name in ("seconds", "jobs_per_second"):
                cell["estimates"].pop(name, None)
    assert answers[0] == answers[1]
