"""Reservations and jobs with fixed starts on machines with a topology: which nodes they get."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import Conflict
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal


class Mesh:
    def __init__(self, machine: str = "mesh2d:4x4", **terms: Any) -> None:
        self.queue = BatchQueue("lab/box", f.Terms(machine=machine, **terms), 1_000)
        self.keys = 0

    def submit(self, **fields: Any) -> int:
        self.keys += 1
        request = JobRequest(machine="lab/box", command=("true",), **fields)
        return self.queue.submit(Principal("ann"), request, f"the-key-{self.keys}", 1_000)[0]

    def has_room(self, start: int, end: int, nodes: int) -> bool:
        return self.queue.flow.room.have_room((f.NodeClaim(1, start, end, nodes),), (), 1_000)


def test_a_reservation_takes_no_nodes_that_a_job_is_promised_if_there_are_others() -> None:
    mesh = Mesh(policy="conservative")
    for nodes, limit_s in ((8, 100), (8, 50), (8, 200), (8, 1_000)):
        mesh.submit(nodes=nodes, limit_s=limit_s)
    before = mesh.queue.flow.room.promises()
    assert before == {3: 1_050, 4: 1_100}
    mesh.queue.claims_changed((), (f.NodeClaim(1, 1_250, 1_400, 8),), 1_000)
    assert mesh.queue.flow.room.promises() == before
    assert not mesh.queue.take_effects().unplaced


@pytest.mark.parametrize("policy", ["conservative", "fcfs*", "ffih*"])
def test_there_is_no_room_on_promised_nodes_unless_the_owner_lets_a_reservation_delay_all(
    policy: str,
) -> None:
    for may_delay, room in (("waiting-room", False), ("none", False), ("all", True)):
        mesh = Mesh(policy=policy, may_delay=may_delay)
        mesh.submit(nodes=16, limit_s=100)
        mesh.submit(nodes=12, limit_s=100)
        assert mesh.has_room(1_100, 1_200, 4)
        assert mesh.has_room(1_150, 1_200, 8) is room


def test_units_that_are_free_but_make_no_partition_are_no_room() -> None:
    mesh = Mesh("mesh2d:2x2")
    jobs = [mesh.submit(nodes=1, limit_s=100) for _ in range(4)]
    by_node = {mesh.queue.job(each).nodes[0]: each for each in jobs}
    for node in (0, 3):
        mesh.queue.ended(by_node[node], 1, f.JobEnding(kind="exit"), 1_000)
    assert not mesh.has_room(1_000, 1_050, 2), "0 and 3 lie across"
    assert mesh.has_room(1_000, 1_050, 1)
    assert mesh.has_room(1_100, 1_150, 2)


def test_several_claims_have_room_together_or_not_at_all() -> None:
    room = Mesh("mesh2d:4x4:2x2").queue.flow.room
    claims = [f.NodeClaim(number, 1_000, 1_050, 5) for number in (1, 2, 3)]
    assert room.have_room(claims[:2], (), 1_000)
    assert not room.have_room(claims, (), 1_000), "five nodes are two units of four"


@pytest.mark.parametrize(
    ("machine", "shape"),
    [("mesh2d:8x4", (8, 1)), ("torus3d:4x4x2", (4, 2, 1)), ("mesh2d:4x8:2x2", (3, 3))],
)
def test_a_job_of_a_shape_with_a_fixed_start_begins_then_in_its_shape(
    machine: str, shape: tuple[int, ...]
) -> None:
    mesh = Mesh(machine)
    number = mesh.submit(at=1_100, limit_s=50, shape=shape)
    mesh.queue.advance(1_100)
    job = mesh.queue.job(number)
    assert job.phase == "starting"
    assert job.entry is not None
    assert job.entry.partition is not None
    extent = tuple(sorted(job.entry.partition.shape))
    assert all(has >= asked for has, asked in zip(extent, sorted(shape), strict=True))


def test_a_fixed_start_on_promised_nodes_is_refused() -> None:
    mesh = Mesh(policy="conservative")
    mesh.submit(nodes=16, limit_s=100)
    mesh.submit(nodes=12, limit_s=100)
    with pytest.raises(Conflict, match="8 nodes are not free"):
        mesh.submit(at=1_150, limit_s=10, nodes=8)


def test_a_reservation_leaves_nodes_that_go_out_of_service_if_there_are_others() -> None:
    mesh = Mesh()
    rid = "0190a000-0000-7000-8000-000000000001"
    mesh.queue.claims_changed((), (f.NodeClaim(1, 1_100, 1_200, 8, rid, "ann"),), 1_000)
    (room,) = mesh.queue.flow.room.scheduler.cluster.rooms  # type: ignore[attr-defined]
    number = mesh.submit(nodes=8, limit_s=100, reservation=rid)
    mesh.queue.drain(room[1].nodes[:1], "a fan", 1_000)
    mesh.queue.advance(1_100)
    assert len(mesh.queue.job(number).nodes) == 8
    assert set(room[1].nodes[:1]).isdisjoint(mesh.queue.job(number).nodes)
