"""`kalends.simulate` from Python: workloads of every kind, and what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest

import kalends
from kalends.core.errors import InvalidInput, KalendsError
from kalends.extras import install_command
from kalends.scheduling.policies.ordered.fcfs import Fcfs
from kalends.simulation.result import SimulationResult
from kalends.simulation.schedule import Schedule
from kalends.simulation.sweeps import sweep

ROOT = Path(__file__).parents[3]
EXCERPT = ROOT / "examples" / "data" / "sdsc-sp2-excerpt.swf"
KTH = ROOT / "tests" / "data" / "logs" / "KTH-SP2-1996-2.sc15.swf.gz"


def job(
    number: int, submit_s: int, nodes: int, run_s: int, requested_s: int = 0
) -> kalends.SimulatedJob:
    return kalends.SimulatedJob(number, submit_s, nodes, requested_s or run_s, run_s=run_s)


def timeless(result: SimulationResult) -> SimulationResult:
    return msgspec.structs.replace(result, seconds=0.0, jobs_per_second=0.0)


def test_the_published_metrics_of_easy_on_the_kth_log_come_out() -> None:
    result = kalends.simulate(KTH, policy="easy", nodes=100)
    assert result.jobs == 28_481
    assert f"{result.mean_bounded_slowdown:.8f}" == "92.57653973"
    assert f"{result.mean_wait_s:.1f}" == "6836.9"
    assert f"{result.mean_response_s:.3f}" == "15696.798"
    assert f"{result.utilization:.5f}" == "0.68561"
    assert (result.makespan_s, result.max_wait_s) == (29_363_626, 262_194)


def test_jobs_of_a_list_stay_as_they_are_and_can_be_replayed_again() -> None:
    jobs = [job(1, 0, 2, 100), job(2, 5, 1, 10)]
    first = kalends.simulate(jobs, nodes=2)
    assert [each.start_s for each in jobs] == [-1, -1]
    assert timeless(kalends.simulate(jobs, nodes=2)) == timeless(first)
    assert (first.mean_wait_s, first.makespan_s) == (47.5, 110)


def test_a_function_a_generator_and_a_policy_of_ones_own_will_do() -> None:
    made = kalends.simulate(lambda: (job(n, n, 1, 9) for n in range(1, 4)), policy=Fcfs, nodes=1)
    given = kalends.simulate((job(n, n, 1, 9) for n in range(1, 4)), policy="fcfs", nodes=1)
    assert made.policy == "Fcfs"
    assert made.provenance is not None
    source = msgspec.structs.replace(made.provenance, policy="fcfs")
    named = msgspec.structs.replace(made, policy="fcfs", provenance=source)
    assert timeless(named) == timeless(given)


def test_runs_above_the_requested_time_are_cut_and_wide_jobs_dropped_and_both_are_named() -> None:
    result = kalends.simulate([job(1, 0, 1, 50, 20), job(2, 0, 9, 5), job(3, 0, 1, 5)], nodes=4)
    assert (result.jobs, result.makespan_s) == (2, 20)
    assert result.cut.said == ["job 1 ran 50 s of 20 s"]
    assert [(tally.count, tally.said) for tally in result.dropped.values()] == [
        (1, ["job 2, 9 nodes"])
    ]


def test_exact_estimates_are_the_run_times() -> None:
    jobs = [job(1, 0, 1, 10, 99), job(2, 0, 2, 10), job(3, 0, 1, 10, 50)]
    assert kalends.simulate(jobs, nodes=2).makespan_s == 20
    schedule = Schedule()
    kalends.simulate(jobs, nodes=2, estimates="exact", watchers=[schedule.add])
    assert list(schedule.requested) == [10, 10, 10]


@pytest.mark.parametrize(
    ("jobs", "where"),
    [
        ([job(7, 0, 0, 5)], "job 7"),
        ([job(7, 0, 1, 0, 5)], "job 7"),
        ([job(7, 0, 1, 5, -1)], "job 7"),
        ([job(6, 5, 1, 5), job(7, 4, 1, 5)], "job 7"),
    ],
)
def test_jobs_that_make_no_sense_are_named(jobs: list[kalends.SimulatedJob], where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        kalends.simulate(jobs, nodes=4)
    assert refused.value.where == where


def test_jobs_that_were_simulated_already_are_refused() -> None:
    jobs = [job(1, 0, 1, 5)]
    kalends.simulate(iter(jobs), nodes=1)
    with pytest.raises(InvalidInput, match="was simulated already"):
        kalends.simulate(jobs, nodes=1)


def test_progress_tells_how_many_have_ended_of_how_many() -> None:
    told: list[tuple[int, int | None]] = []
    jobs = [job(n, n, 1, 1) for n in range(2500)]
    kalends.simulate(jobs, nodes=1, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (2500, 2500)
    assert len(told) == 3


def test_a_sweep_is_the_same_in_one_process_and_in_several_and_that_of_single_replays() -> None:
    options = {
        "policies": ["easy", "fcfs"],
        "loads": [1.0, 1.2],
        "repeats": 2,
        "shake_s": 60,
        "seed": 3,
    }
    alone = sweep(EXCERPT, cores=1, **options)
    many = sweep(EXCERPT, cores=2, **options)
    cells = [(cell.policy, cell.load, list(map(timeless, cell.results))) for cell in alone]
    assert cells == [(cell.policy, cell.load, list(map(timeless, cell.results))) for cell in many]
    assert [cell[:2] for cell in cells] == [
        ("easy", 1.0), ("easy", 1.2), ("fcfs", 1.0), ("fcfs", 1.2),
    ]  # fmt: skip
    single = kalends.simulate(EXCERPT, policy="fcfs", load=1.2, shake_s=60, seed=4)
    assert cells[3][2][1] == timeless(single)
    assert alone[0].estimate("mean_wait_s").half_width is not None


def test_without_dask_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(KalendsError, match=re.escape(install_command("dask"))):
        sweep(EXCERPT, policies=["easy"], dask="tcp://127.0.0.1:9")


def test_what_a_preempted_job_waits_in_between_is_not_utilization() -> None:
    jobs = [job(1, 0, 2, 100), job(2, 10, 2, 50)]
    jobs[1].priority = 1
    schedule = Schedule()
    result = kalends.simulate(jobs, policy="preemptive", nodes=2, watchers=[schedule.add])
    assert list(zip(schedule.ids, schedule.starts, schedule.ends, strict=True)) == [
        (2, 10, 60), (1, 0, 150),
    ]  # fmt: skip
    assert (result.utilization, result.makespan_s) == (1.0, 150)


def test_a_sweep_of_nothing_or_too_much_is_refused_before_it_begins() -> None:
    for repeats in (0, 1_000_000):
        with pytest.raises(InvalidInput, match="ask for 1 to"):
            sweep(EXCERPT, policies=["easy"], repeats=repeats, shake_s=1)


@pytest.mark.parametrize(
    "word", ["watchers", "accounts", "keep_lines", "policy", "load", "nothing"]
)
def test_a_sweep_takes_no_option_of_a_single_replay(word: str) -> None:
    with pytest.raises(TypeError, match=word):
        sweep(EXCERPT, policies=["easy"], nodes=100, cores=1, **{word: ()})
