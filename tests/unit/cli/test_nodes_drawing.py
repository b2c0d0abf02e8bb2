"""The nodes of a machine as text: each job where it runs, whatever the kind of the machine."""

from __future__ import annotations

import pytest

from kalends.cli.jobs.drawings import draw_nodes
from kalends.contract.job_calls import JobView, MachineLoad
from kalends.machines.spec import machine_from


def load(description: str, *out: int) -> MachineLoad:
    return MachineLoad(
        machine="lab/box", description=description, nodes=machine_from(description).nodes, free=0,
        out=len(out), reserved=0, policy="easy", waiting=0, running=0, out_numbers=out,
    )  # fmt: skip


def job(*nodes: int) -> JobView:
    return JobView(
        job=1, machine="lab/box", user="ann", phase="running", nodes=len(nodes), limit_s=60,
        submitted=1, node_numbers=nodes,
    )  # fmt: skip


def drawn(machine: MachineLoad, *jobs: JobView, width: int = 80) -> list[str]:
    lines = draw_nodes(machine, jobs, width=width)
    return ["".join(piece for piece, _ in line) for line in lines]


def test_a_mesh_is_a_plane_with_each_partition_where_the_mapper_put_it() -> None:
    machine = machine_from("mesh2d:6x4")
    partitions = [machine.place(4, (2, 2)), machine.place(6, (3, 2))]
    assert all(partitions)
    jobs = [job(*partition.nodes) for partition in partitions if partition is not None]
    rows = drawn(load("mesh2d:6x4", 23), *jobs)[:4]
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
    assert drawn(load("torus3d:2x2x2"), job(1, 6))[:-1] == [
        "plane 0", ".A", "..", "plane 1", "..", "A.",
    ]  # fmt: skip
    assert drawn(load("hypercube:3"), job(0, 1), job(4, 5))[:-1] == ["AA..", "BB.."]


def test_a_pool_is_lines_of_nodes_and_an_unknown_kind_too() -> None:
    assert drawn(load("pool:10"), job(0, 9), width=8)[:-1] == ["A.......", ".A      "]
    newer = MachineLoad(
        machine="lab/box", description="fat-tree:4", nodes=4, free=4, out=0, reserved=0,
        policy="easy", waiting=0, running=0,
    )  # fmt: skip
    assert drawn(newer)[0] == "...."


@pytest.mark.parametrize("description", ["pool:65536", "mesh2d:256x256:16x16"])
def test_a_large_machine_is_drawn_within_the_width_and_says_what_a_sign_is(
    description: str,
) -> None:
    lines = drawn(load(description), job(*range(65_536)))
    assert max(map(len, lines)) <= 80
    assert len(lines) < 40
    assert set("".join(lines[:-1]).strip()) == {"A"}
    assert "nodes" in lines[-1]
