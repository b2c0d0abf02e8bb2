"""Machines as text: who has which nodes when, within the width, and each job where it runs."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kalends.cli.jobs.drawings import ROWS_MAX, draw_nodes, draw_plan, placed
from kalends.contract.job_calls import (
    JobView,
    MachineLoad,
    MachinePlan,
    ReservedNodes,
    ScheduledJob,
)
from kalends.machines.spec import machine_from

NOW = 1_795_428_000
ZONE = ZoneInfo("UTC")


def load(description: str, nodes: int, *out: int) -> MachineLoad:
    return MachineLoad(
        machine="lab/box", description=description, nodes=nodes, free=0, out=len(out),
        reserved=0, policy="easy", waiting=0, running=0, out_numbers=out,
    )  # fmt: skip


def plan(nodes: int, *, out: tuple[int, ...] = (), **parts: Any) -> MachinePlan:
    fields = {"jobs": (), "reservations": (), "free": ((NOW, 0),), **parts}
    return MachinePlan(machine=load(f"pool:{nodes}", nodes, *out), now=NOW, made_at=NOW, **fields)


def running(job: int, nodes: tuple[int, ...], minutes: int) -> ScheduledJob:
    return ScheduledJob(
        job=job, user="ann", phase="running", nodes=len(nodes), start=NOW - 60,
        end=NOW + minutes * 60, node_numbers=nodes,
    )  # fmt: skip


def waiting(job: int, nodes: int, start_min: int, end_min: int) -> ScheduledJob:
    start, end = NOW + start_min * 60, NOW + end_min * 60
    return ScheduledJob(
        job=job, user="bob", phase="queued", nodes=nodes, start=start, end=end, expected=start - 60
    )


def text(drawn: MachinePlan, width: int = 80, count: int = 100) -> list[str]:
    return [
        "".join(piece for piece, _ in line)
        for line in draw_plan(drawn, ZONE, width=width, count=count)
    ]


def test_a_row_for_each_change_shows_who_has_which_nodes_and_how_many_are_free() -> None:
    lines = text(
        plan(
            6,
            out=(5,),
            jobs=(running(1, (0, 1), 60), running(2, (3,), 30), waiting(3, 3, 60, 90)),
            reservations=(ReservedNodes(nodes=2, start=NOW + 3_600, end=NOW + 7_200),),
            free=((NOW, 2), (NOW + 1_800, 3), (NOW + 3_600, 0), (NOW + 5_400, 3), (NOW + 7_200, 5)),
        )
    )
    assert [line.split(" ", 3)[3] for line in lines[1:6]] == [
        "AA.B./ 2", "AA.../ 3", "aaa==/ 0", "...==/ 3", "...../ 5",
    ]  # fmt: skip
    assert [line.split()[2] for line in lines[1:6]] == ["10:00", "10:30", "11:00", "11:30", "12:00"]


def test_no_line_is_wider_than_asked_and_every_job_can_be_told_apart() -> None:
    jobs = tuple(running(number, (number,), number + 1) for number in range(20))
    drawn = text(plan(300, jobs=jobs), width=60)
    assert max(map(len, drawn)) <= 80
    assert max(map(len, drawn[:ROWS_MAX])) <= 60
    assert "a column is 8 nodes" in "\n".join(drawn)


def test_what_comes_first_is_drawn_without_a_gap_and_it_is_told_how_much_comes_later() -> None:
    jobs = tuple(running(number, (number,), number + 1) for number in range(100))
    drawn = text(plan(100, jobs=jobs), count=10)
    assert "77 later changes, until Mon 23 11:40, are not drawn" in drawn
    shown = [line.split()[2] for line in drawn[1 : ROWS_MAX + 1]]
    assert shown == [f"10:{minute:02}" for minute in range(ROWS_MAX)]
    assert len(drawn) < ROWS_MAX + 20
    assert drawn[-1] == "90 more: --count 100"
    assert text(plan(100, jobs=jobs), count=100)[-1].split()[1] == "99"


def test_jobs_that_wait_and_have_no_place_in_the_schedule_are_counted() -> None:
    jobs = (waiting(3, 1, 60, 90),)
    said = "not drawn: 2 waiting jobs that are held or not planned yet"
    assert said in text(plan(4, jobs=jobs, unplanned=2))
    assert not any("not drawn" in line for line in text(plan(4, jobs=jobs)))


@pytest.mark.parametrize("nodes", [8, 13])
def test_nothing_in_the_schedule_ever_shares_a_node(nodes: int) -> None:
    jobs = (
        running(1, (2, 5), 10), running(2, (0,), 25), waiting(3, 5, 0, 40), waiting(4, 2, 10, 40),
        waiting(5, 6, 40, 60), waiting(6, 1, 25, 90),
    )  # fmt: skip
    reserved = ReservedNodes(nodes=1, start=NOW + 3_600, end=NOW + 9_000)
    blocks = placed(plan(nodes, jobs=jobs, reservations=(reserved,)), "ABabcd")
    for one in blocks:
        for other in blocks:
            if one is not other and one.start < other.end and other.start < one.end:
                assert not set(one.nodes) & set(other.nodes)
    assert sum(len(block.nodes) for block in blocks) == 2 + 1 + 5 + 2 + 6 + 1 + 1


def machine(description: str, *out: int) -> MachineLoad:
    return load(description, machine_from(description).nodes, *out)


def job(*nodes: int) -> JobView:
    return JobView(
        job=1, machine="lab/box", user="ann", phase="running", nodes=len(nodes), limit_s=60,
        submitted=1, node_numbers=nodes,
    )  # fmt: skip


def drawn(load: MachineLoad, *jobs: JobView, width: int = 80) -> list[str]:
    lines = draw_nodes(load, jobs, width=width)
    return ["".join(piece for piece, _ in line) for line in lines]


def test_a_mesh_is_a_plane_with_each_partition_where_the_mapper_put_it() -> None:
    mesh = machine_from("mesh2d:6x4")
    partitions = [mesh.place(4, (2, 2)), mesh.place(6, (3, 2))]
    assert all(partitions)
    jobs = [job(*partition.nodes) for partition in partitions if partition is not None]
    rows = drawn(machine("mesh2d:6x4", 23), *jobs)[:4]
    assert [len(row) for row in rows] == [6] * 4
    for sign, partition in zip("AB", partitions, strict=True):
        assert partition is not None
        places = [
            (row, at)
            for row, line in enumerate(rows)
            for at, each in enumerate(line)
            if each == sign
        ]
        assert [row * 6 + column for row, column in places] == list(partition.nodes)
    assert rows[3][5] == "/"


def test_a_torus_is_a_plane_after_the_other_and_a_hypercube_is_folded() -> None:
    assert drawn(machine("torus3d:2x2x2"), job(1, 6))[:-1] == [
        "plane 0", ".A", "..", "plane 1", "..", "A.",
    ]  # fmt: skip
    assert drawn(machine("hypercube:3"), job(0, 1), job(4, 5))[:-1] == ["AA..", "BB.."]


def test_a_pool_is_lines_of_nodes_and_an_unknown_kind_too() -> None:
    assert drawn(machine("pool:10"), job(0, 9), width=8)[:-1] == ["A.......", ".A      "]
    assert drawn(load("fat-tree:4", 4))[0] == "...."


@pytest.mark.parametrize("description", ["pool:65536", "mesh2d:256x256:16x16"])
def test_a_large_machine_is_drawn_within_the_width_and_says_what_a_sign_is(
    description: str,
) -> None:
    lines = drawn(machine(description), job(*range(65_536)))
    assert max(map(len, lines)) <= 80
    assert len(lines) < 40
    assert set("".join(lines[:-1]).strip()) == {"A"}
    assert "nodes" in lines[-1]
