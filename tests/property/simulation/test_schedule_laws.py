"""Schedules as wholes: node numbers, curves, shaken workloads, beside slow ways to the same."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.scheduling.node_numbers import FreeNodes, intervals
from kalends.simulation.confidence import students_t
from kalends.simulation.curves import busy_nodes, greatest, means, queue_depth
from kalends.simulation.experiment import simulate
from kalends.simulation.input_shaking import loaded, shaken
from kalends.simulation.job import SimulatedJob
from kalends.simulation.job_table import COLUMNS, write_jobs
from kalends.simulation.result import SimulationResult
from kalends.simulation.schedule import Schedule

NODES = 8


def workload(jobs: Iterable[tuple[int, int, int, int]]) -> list[SimulatedJob]:
    """Jobs of ``(gap, nodes, run, requested beyond)``."""
    made, submit_s = [], 0
    for number, (gap, nodes, run_s, beyond_s) in enumerate(jobs, start=1):
        submit_s += gap
        made.append(SimulatedJob(number, submit_s, nodes, run_s + beyond_s, run_s=run_s))
        made[-1].priority = number * 7 % 5
    return made


workloads = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, NODES), st.integers(1, 12), st.integers(0, 5)),
    min_size=1,
    max_size=40,
).map(workload)


def scheduled(jobs: list[SimulatedJob], policy: str = "easy") -> tuple[Schedule, SimulationResult]:
    schedule = Schedule("tiny")
    return schedule, simulate(jobs, policy=policy, nodes=NODES, watchers=[schedule.add])


@settings(max_examples=effort.examples(150), deadline=None)
@given(workloads, st.sampled_from(["easy", "fcfs", "preemptive"]))
def test_numbered_nodes_are_never_shared_and_each_job_has_as_many_as_it_asked_for(
    jobs: list[SimulatedJob], policy: str
) -> None:
    schedule, _ = scheduled(jobs, policy)
    runs = [
        (index, start_s, end_s, {n for low, high in nodes for n in range(low, high + 1)})
        for index, start_s, end_s, nodes in schedule.on_nodes(NODES)
    ]
    assert {index for index, *_ in runs} == set(range(len(jobs)))
    for at, (index, start_s, end_s, nodes) in enumerate(runs):
        assert len(nodes) == schedule.widths[index]
        assert nodes <= set(range(NODES))
        for _, other_s, other_end_s, others in runs[:at]:
            assert not (start_s < other_end_s and other_s < end_s and nodes & others)
    ran_s = [0] * len(jobs)
    for index, start_s, end_s, _ in runs:
        ran_s[index] += end_s - start_s
    assert dict(zip(schedule.ids, ran_s, strict=True)) == {job.id: job.run_s for job in jobs}
    effort.steps["numbered nodes"] += len(jobs)


@settings(max_examples=effort.examples(100), deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_free_nodes_are_those_of_a_set_of_which_the_lowest_are_taken(
    counts: list[int], chance: random.Random
) -> None:
    nodes, free = FreeNodes(16), set(range(16))
    held = []
    for count in counts:
        taken = nodes.take(count)
        lowest = sorted(free)[:count]
        assert taken == (intervals(lowest) if len(lowest) == count else None)
        if taken is not None:
            free -= set(lowest)
            held.append((taken, lowest))
        if held and (taken is None or chance.random() < 0.5):
            back, numbers = held.pop(chance.randrange(len(held)))
            nodes.give_back(back)
            free |= set(numbers)


@settings(max_examples=effort.examples(100), deadline=None)
@given(workloads)
def test_curves_are_counts_of_each_second_and_agree_with_the_metrics(
    jobs: list[SimulatedJob],
) -> None:
    schedule, result = scheduled(jobs)
    first_s, last_s = min(schedule.submits), max(schedule.ends)
    edges = list(range(first_s, last_s + 1))
    columns = list(
        zip(schedule.submits, schedule.starts, schedule.ends, schedule.widths, strict=True)
    )
    busy = [sum(w for _, start, end, w in columns if start <= t < end) for t in edges[:-1]]
    waiting = [sum(submit <= t < start for submit, start, _, _ in columns) for t in edges[:-1]]
    assert means(busy_nodes(schedule), edges) == busy
    assert means(queue_depth(schedule), edges) == waiting
    assert greatest(queue_depth(schedule), edges) == waiting
    assert max(waiting) == result.max_queue_depth
    assert abs(sum(waiting) / len(waiting) - result.mean_queue_depth) < 1e-9
    assert abs(sum(busy) / len(busy) / NODES - result.utilization) < 1e-9
    half = (len(edges) - 1) // 2
    if half:
        parts = [edges[0], edges[half], edges[-1]]
        assert greatest(queue_depth(schedule), parts) == [max(waiting[:half]), max(waiting[half:])]


@settings(max_examples=effort.examples(100), deadline=None)
@given(workloads, st.integers(0, 50), st.integers(0, 1000))
def test_shaken_jobs_are_the_same_ones_in_order_of_submission_and_not_far_away(
    jobs: list[SimulatedJob], shift_s: int, seed: int
) -> None:
    before = {job.id: job.submit_s for job in jobs}
    after = list(shaken(jobs, shift_s, seed))
    submits = [job.submit_s for job in after]
    assert sorted(before) == sorted(job.id for job in after)
    assert submits == sorted(submits)
    assert submits[0] >= min(before.values())
    assert all(abs(job.submit_s - before[job.id]) <= shift_s for job in after)


@given(workloads, st.sampled_from([0.5, 1.0, 2.0]))
def test_a_load_divides_the_times_between_submissions(
    jobs: list[SimulatedJob], load: float
) -> None:
    before = [job.submit_s for job in jobs]
    first_s = before[0]
    after = [job.submit_s for job in loaded(jobs, load)]
    assert after == [first_s + int((submit_s - first_s) / load) for submit_s in before]


def test_the_table_of_jobs_has_the_columns_of_batsim() -> None:
    jobs = workload([(5, 6, 10, 2), (1, 4, 7, 0), (0, 2, 3, 0)])
    schedule, result = scheduled(jobs)
    written = io.StringIO()
    write_jobs(written, schedule, result.nodes)
    rows = list(csv.DictReader(io.StringIO(written.getvalue())))
    assert tuple(rows[0]) == COLUMNS
    assert [row["job_id"] for row in rows] == ["1", "2", "3"]
    assert [row["allocated_resources"] for row in rows] == ["0-5", "0-3", "6-7"]
    assert rows[1] == {
        "job_id": "2", "workload_name": "tiny", "profile": "rigid", "submission_time": "6",
        "requested_number_of_resources": "4", "requested_time": "7", "success": "1",
        "final_state": "COMPLETED_SUCCESSFULLY", "starting_time": "15", "execution_time": "7",
        "finish_time": "22", "waiting_time": "9", "turnaround_time": "16", "stretch": "2.285714",
        "allocated_resources": "0-3", "metadata": "",
    }  # fmt: skip


def test_students_t_is_that_of_the_tables() -> None:
    table = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 10: 2.228, 30: 2.042, 100: 1.984}
    assert {freedom: round(students_t(0.95, freedom), 3) for freedom in table} == table
    assert round(students_t(0.99, 7), 3) == 3.499
