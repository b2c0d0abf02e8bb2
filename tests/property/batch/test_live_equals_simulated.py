"""A log told to a live queue starts the very jobs at the very times of `kalends simulate`."""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path

import pytest
from benchmarks.live_queue.comparison import Machine, first_jobs, live, simulated
from benchmarks.live_queue.replay import Started, short_of_limits
from benchmarks.live_replay import LIVE_POLICIES, main
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests import effort
from tests.policy_logs import SmallLog, crowded_log, small_logs

from kalends.core.errors import InvalidInput
from kalends.machines.spec import machine_from
from kalends.scheduling import Reservation
from kalends.scheduling.job import Moldability
from kalends.scheduling.mapped import MappedCluster
from kalends.simulation.job import SimulatedJob

LOGS = Path(__file__).parents[2] / "data" / "logs"
REAL = ("KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln", "DAS2-fs1-2003-1")
CHOOSE_SIZES = ("lazy", "adaptive", "reconfigurable")
MESH = "mesh2d:4x2"
QUEUE = 14
"""The field of a log's line."""


@pytest.mark.parametrize("log", REAL)
@pytest.mark.parametrize("policy", LIVE_POLICIES)
def test_a_log_starts_live_as_it_does_in_the_simulator(policy: str, log: str) -> None:
    nodes, jobs = first_jobs(LOGS / f"{log}.swf.gz", 400 * effort.EFFORT)
    jobs = [_of_some_class(job) for job in short_of_limits(jobs)]
    machine = Machine(f"pool:{nodes}")
    expected = simulated(jobs, policy, machine)
    assert len(expected) == len(jobs)
    assert live(jobs, policy, machine) == expected


@pytest.mark.parametrize("policy", LIVE_POLICIES)
@settings(max_examples=effort.examples(12))
@given(
    log=st.one_of(small_logs(), st.integers(0, 10**6).map(crowded_log)),
    restarted=st.sampled_from([0, 0, 1, 3]),
)
def test_random_logs_beside_reservations_start_live_as_simulated_over_restarts(
    policy: str, log: SmallLog, restarted: int
) -> None:
    jobs = _jobs_of(log, several_sizes=policy in CHOOSE_SIZES)
    machine = Machine(f"pool:{log.nodes}", _reservations_of(log))
    assert live(jobs, policy, machine, restarted=restarted) == simulated(jobs, policy, machine)


@pytest.mark.parametrize("policy", LIVE_POLICIES)
@settings(max_examples=effort.examples(6))
@given(seed=st.integers(0, 10**6), restarted=st.sampled_from([0, 3]))
def test_on_a_mesh_the_mapper_gives_live_what_it_gives_in_the_simulator(
    policy: str, seed: int, restarted: int
) -> None:
    log = crowded_log(seed)
    jobs = _jobs_of(log, several_sizes=False)
    machine = Machine(MESH, _reservations_of(log))
    assume(_can_be_reserved(machine))
    assert live(jobs, policy, machine, restarted=restarted) == simulated(jobs, policy, machine)


def test_a_job_at_its_limit_has_its_nodes_until_its_end_is_told() -> None:
    """The one rule by which live differs: nobody is given nodes in advance of a kill."""
    jobs = [
        SimulatedJob(id=1, submit_s=0, nodes=2, requested_s=10, run_s=10),
        SimulatedJob(id=2, submit_s=1, nodes=4, requested_s=10, run_s=5),
        SimulatedJob(id=3, submit_s=10, nodes=2, requested_s=1, run_s=1),
    ]
    machine = Machine("pool:4")
    assert simulated(jobs, "easy", machine)[2].start == Started(2, 10, 4)
    # When job 3 came, in that second, job 1 was still there: so job 3 went before job 2.
    assert live(jobs, "easy", machine)[3].start == Started(3, 10, 2)
    assert live(jobs, "easy", machine)[2].start == Started(2, 11, 4)
    jobs = list(short_of_limits(jobs))
    assert live(jobs, "easy", machine) == simulated(jobs, "easy", machine)


def test_the_comparison_is_a_command_that_tells_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LOGS / f"{REAL[0]}.swf.gz"
    arguments = ["live_replay", str(log), "--policy", "easy,ffih*", "--jobs", "700"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert main() == 0
    easy, levels = capsys.readouterr().out.splitlines()
    assert " 700 starts,      0 stops,      0 different" in easy
    assert levels.split()[1] == "ffih*"


def test_with_priorities_the_command_compares_what_is_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "queues.swf"
    with gzip.open(LOGS / f"{REAL[0]}.swf.gz", "rt") as stream, log.open("w") as written:
        for number, line in enumerate(stream):
            fields = line.split()
            if not line.startswith(";"):
                fields[QUEUE] = str(number % 3)
            written.write(" ".join(fields) + "\n")
    treated = [
        "--treat",
        "queue:1=1,queue:2=2",
        "--policy",
        "preemptive",
        "--jobs",
        "700",
        "--json",
    ]
    monkeypatch.setattr(sys, "argv", ["live_replay", str(log), *treated])
    assert main() == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["starts"], found["different"]) == (700, 0)
    assert found["stops"] > 20


def _of_some_class(job: SimulatedJob) -> SimulatedJob:
    """These copies of the logs say nothing of priorities, of users, and of who sits at a terminal."""
    job.priority, job.interactive = job.id * 7 % 4, job.id % 5 < 2
    job.user, job.share = job.id * 11 % 3, 1 + job.id * 11 % 3
    return job


def _jobs_of(log: SmallLog, *, several_sizes: bool) -> list[SimulatedJob]:
    jobs = list(short_of_limits(log.simulated()))
    draw = random.Random(len(jobs))
    for job in jobs:
        job.interactive = draw.random() < 0.4
        sizes = tuple(sorted({1, job.nodes, (log.nodes + 1) // 2}))
        if several_sizes and len(sizes) > 1 and draw.random() < 0.5:
            times_s = (job.requested_s,) * len(sizes)
            # One that never comes to where it could change: it is asked, and stays as it is.
            malleable, scales = draw.random() < 0.5, draw.random() < 0.5
            job.molds = Moldability(sizes, times_s, malleable=malleable, scales=scales)
    return jobs


def _reservations_of(log: SmallLog) -> tuple[Reservation, ...]:
    return tuple(
        Reservation(start, end, nodes, str(number))
        for number, (start, end, nodes) in enumerate(log.reservations, 1)
    )


def _can_be_reserved(machine: Machine) -> bool:
    """Whether the mapper finds nodes for all reservations."""
    try:
        MappedCluster(machine_from(machine.text), machine.reservations)
    except InvalidInput:
        return False
    return True
