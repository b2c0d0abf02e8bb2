"""Schedules of jobs with several sizes, and of grids: files, curves and metrics tell what jobs really had."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.core.errors import InvalidInput
from kalends.scheduling.reservations import Reservation
from kalends.simulation.curves import busy_nodes, means
from kalends.simulation.job_table import write_jobs
from kalends.simulation.malleable import MalleableJob
from kalends.simulation.schedule import Schedule
from kalends.simulation.workloads.speedups import SpeedUps
from kalends.simulation.workloads.swf import ResultWriter

NODES = 8
SPEEDUPS = msgspec.convert(
    {
        "classes": [
            {"sizes": [1, 2, 4], "times": [40, 22, 13], "malleable": True, "iterations": 8,
             "reconfiguration_s": 2, "redistribution_s": 1},
            {"sizes": [3, 6], "times": [50, 30]},
        ]
    },
    type=SpeedUps,
)  # fmt: skip
POLICIES = (
    "lazy",
    "adaptive",
    "reconfigurable:1",
    "easy",
    "fcfs",
    "conservative",
    "preemptive",
    "ivs",
)


def reconfigurable(cluster: Any) -> Any:
    from kalends.scheduling.policies.moldable.reconfigurable import Reconfigurable

    return Reconfigurable(cluster, 1)


def jobs_of(drawn: list[tuple[int, int, int, int]]) -> list[kalends.SimulatedJob]:
    submit_s, jobs = 0, []
    for number, (gap_s, nodes, run_s, spare_s) in enumerate(drawn, 1):
        submit_s += gap_s
        jobs.append(
            kalends.SimulatedJob(
                number, submit_s, nodes, run_s + spare_s, priority=number * 7 % 3, run_s=run_s
            )
        )
    return jobs


workloads = st.lists(
    st.tuples(st.integers(0, 25), st.integers(1, NODES), st.integers(1, 80), st.integers(0, 30)),
    min_size=1,
    max_size=25,
).map(jobs_of)


@given(workloads, st.sampled_from(POLICIES))
def test_busy_nodes_numbered_nodes_and_utilization_agree_whatever_sizes_jobs_had(
    jobs: list[kalends.SimulatedJob], policy: str
) -> None:
    schedule, ended = Schedule(), []
    make: Any = reconfigurable if policy == "reconfigurable:1" else policy
    result = kalends.simulate(
        jobs, policy=make, nodes=NODES, speedups=SPEEDUPS, watchers=[schedule.add, ended.append]
    )
    placed = [
        (index, start_s, end_s, {n for low, high in nodes for n in range(low, high + 1)})
        for index, start_s, end_s, nodes in schedule.on_nodes(NODES)
    ]
    for at, (_, start_s, end_s, nodes) in enumerate(placed):
        assert nodes <= set(range(NODES))
        for _, other_s, other_end_s, others in placed[:at]:
            assert not (start_s < other_end_s and other_s < end_s and nodes & others)
    had = sum(len(nodes) * (end_s - start_s) for _, start_s, end_s, nodes in placed)
    assert had == sum(job.node_seconds() for job in ended)
    assert abs(had - result.utilization * NODES * result.makespan_s) < 1e-6
    first_s = min(schedule.submits)
    edges = [first_s, first_s + result.makespan_s]
    assert abs(means(busy_nodes(schedule), edges)[0] - result.utilization * NODES) < 1e-9
    assert result.reconfigurations == sum(
        job.changes for job in ended if isinstance(job, MalleableJob)
    )


def test_a_job_that_changed_its_size_is_told_with_the_sizes_that_it_had() -> None:
    # Alone on 4 nodes; two more come, and it shrinks to 1 to let them in.
    schedule, ended, out, table = Schedule("log"), [], io.StringIO(), io.StringIO()
    writer = ResultWriter(out, {})
    jobs = jobs_of([(0, 4, 130, 0), (100, 3, 500, 0), (0, 2, 40, 0)])
    result = kalends.simulate(
        jobs, policy=reconfigurable, nodes=4, speedups=SPEEDUPS,
        watchers=[schedule.add, ended.append, writer.add],
    )  # fmt: skip
    assert result.reconfigurations > 0
    changed = next(job for job in ended if job.id == 1)
    assert isinstance(changed, MalleableJob)
    sizes = [nodes for _, _, nodes in changed.stretches()]
    assert sizes[:2] == [4, 1]
    index = list(schedule.ids).index(1)
    assert [each[3] for each in schedule.stretches() if each[0] == index] == sizes
    length_s = changed.end_s - changed.start_s
    line = next(line.split() for line in out.getvalue().splitlines() if line.startswith("1 "))
    assert int(line[4]) == round(changed.node_seconds() / length_s)
    assert int(line[4]) not in (changed.nodes, 4)
    write_jobs(table, schedule, 4)
    row = table.getvalue().splitlines()[1].split(",")
    assert (row[0], row[2], int(row[4])) == ("1", "malleable", sizes[-1])


def test_moldable_jobs_run_on_whole_units_of_a_mapped_machine() -> None:
    jobs = jobs_of([(0, 2, 60, 0), (5, 3, 60, 9), (0, 1, 30, 0), (0, 6, 30, 0)])
    for policy in ("lazy", "adaptive", "reconfigurable", "easy"):
        result = kalends.simulate(jobs, policy=policy, machine="mesh2d:4x4:2x2", speedups=SPEEDUPS)
        assert (result.jobs, result.reconfigurations) == (4, 0)


def test_components_and_speed_ups_do_not_go_together() -> None:
    with pytest.raises(InvalidInput, match="components are of one size"):
        kalends.simulate(
            jobs_of([(0, 2, 5, 0)]), machine="grid:4+4", components="total:4", speedups=SPEEDUPS
        )


PARTS = (4, 3, 5)
GRID = "grid:4+3,5@0.5"


@given(workloads, st.sampled_from(["easy", "conservative", "fcfs-scan"]))
def test_in_a_grid_jobs_have_numbers_of_their_own_parts_and_reservations_keep_theirs(
    jobs: list[kalends.SimulatedJob], policy: str
) -> None:
    schedule, ended = Schedule("grid", PARTS), []
    kept = Reservation(20, 90, 4, "demo", 2)
    kalends.simulate(
        jobs, policy=policy, machine=GRID, crossing="once:0.5", reservations=[kept],
        watchers=[schedule.add, ended.append],
    )  # fmt: skip
    owner = [part for part, nodes in enumerate(PARTS) for _ in range(nodes)]
    changes: list[tuple[int, int]] = []
    busy: dict[int, list[tuple[int, int]]] = {}
    for index, start_s, end_s, nodes in schedule.on_nodes(sum(PARTS)):
        numbers = [n for low, high in nodes for n in range(low, high + 1)]
        counts = tuple(sum(owner[n] == part for n in numbers) for part in range(len(PARTS)))
        assert counts == ended[index].placed
        changes += [(start_s, counts[2]), (end_s, -counts[2])]
        for number in numbers:
            assert all(
                end_s <= other_s or other_end_s <= start_s
                for other_s, other_end_s in busy.get(number, ())
            )
            busy.setdefault(number, []).append((start_s, end_s))
    taken = 0
    for time_s, change in sorted(changes):
        taken += change
        assert taken <= PARTS[2] - (4 if kept.start_s <= time_s < kept.end_s else 0)
    assert all(
        sum(c for at_s, c in changes if at_s <= second) <= 1 for second in range(20, 90)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "part", "said"),
    [
        (GRID, -1, "in a grid must name the part"),
        (GRID, 3, "no such part 3"),
        ("mesh2d:4x4", 0, "part 0 of a machine that has no parts"),
        ("", 0, "part 0 of a machine that has no parts"),
    ],
)
def test_reservations_name_a_part_in_a_grid_and_nowhere_else(
    machine: str, part: int, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        kalends.simulate(
            jobs_of([(0, 2, 5, 0)]), machine=machine, nodes=None if machine else 4,
            reservations=[Reservation(0, 9, 1, "", part)],
        )  # fmt: skip
