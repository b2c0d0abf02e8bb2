"""The schedule as text: who has which nodes when, within the width, and names nobody who is not told."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kalends.cli.jobs.drawings import ROWS_MAX, draw_plan, placed
from kalends.contract.job_calls import MachineLoad, MachinePlan, ReservedNodes, ScheduledJob

NOW = 1_795_428_000
ZONE = ZoneInfo("UTC")


def plan(nodes: int, *, out: tuple[int, ...] = (), **parts: Any) -> MachinePlan:
    load = MachineLoad(
        machine="lab/box", description=f"pool:{nodes}", nodes=nodes, free=0, out=len(out),
        reserved=0, policy="easy", waiting=0, running=0, out_numbers=out,
    )  # fmt: skip
    fields = {"jobs": (), "reservations": (), "free": ((NOW, 0),), **parts}
    return MachinePlan(machine=load, now=NOW, made_at=NOW, **fields)


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
