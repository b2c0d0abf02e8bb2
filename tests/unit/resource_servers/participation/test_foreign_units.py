"""Which cores and licences count as others', of what a batch system has."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kalends.backends.names import OwnNames
from kalends.backends.records import SystemJob, SystemReservation, SystemState, UnwellNode
from kalends.resource_servers.participation.provision.foreign_room import foreign_extents
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend

NOW = 7_200
CORES = ResourceBackend("batch", ("n1", "n2"), {}, unit="cores", units_each=4, repair_s=60)
MATLAB = ResourceBackend("batch", ("matlab",), {}, unit="licences", units_each=10, repair_s=60)
WHOLE = ResourceBackend("batch", ("n1", "n2"), {}, repair_s=60)
OURS = "kal.centre.00000000-1"
NAMES = OwnNames("centre", ())


def reserved(name: str, start: int, end: int, *nodes: str, **more: Any) -> SystemReservation:
    return SystemReservation(name, start, end, nodes, ("bob",), **more)


def job(end: int, *nodes: str, **more: Any) -> SystemJob:
    return SystemJob("1", "bob", nodes, NOW - 60, end, **more)


def foreign(backend: ResourceBackend, **has: Any) -> list[tuple[int, int, dict[str, int]]]:
    """When, and how much of what, is others'."""
    known = {
        "nodes": ("n1", "n2"), "cores": (("n1", 4), ("n2", 4)), "licences": (("matlab", 10),), **has,
    }  # fmt: skip
    state = SystemState(clock_s=NOW, boot_s=0, **known)
    return [
        (each.extent.start, each.extent.end, dict(Counter(each.extent.nodes)))
        for each in foreign_extents(NAMES, backend, state)
    ]


def test_a_reservation_of_cores_has_these_and_one_of_whole_nodes_all() -> None:
    some = reserved("some", 8_000, 9_000, "n1", "n2", cores=(1, 3))
    whole = reserved("whole", 8_000, 9_000, "n2", "n7")
    assert foreign(CORES, reservations=(some, whole)) == [
        (8_000, 9_000, {"n1": 1, "n2": 3}), (8_000, 9_000, {"n2": 4}),
    ]  # fmt: skip
    assert foreign(WHOLE, reservations=(some,)) == [(8_000, 9_000, {"n1": 1, "n2": 1})]


def test_where_only_the_sum_is_told_each_node_has_as_much_of_it_as_it_can() -> None:
    assert foreign(CORES, jobs=(job(8_000, "n1", "n2", cores=(3,)),)) == [
        (NOW - 60, 8_000, {"n1": 2, "n2": 2})
    ]
    assert foreign(CORES, jobs=(job(8_000, "n1", "n2", cores=(8,)),)) == [
        (NOW - 60, 8_000, {"n1": 4, "n2": 4})
    ]


def test_a_job_counts_once_with_the_reservation_that_it_is_in_and_alone_after_it() -> None:
    theirs = reserved("theirs", 7_000, 7_500, "n1", cores=(3,))
    inside = job(8_000, "n1", cores=(2,), reservation="theirs")
    assert foreign(CORES, reservations=(theirs,), jobs=(inside,)) == [
        (7_000, 7_500, {"n1": 3}), (7_500, 8_000, {"n1": 2}),
    ]  # fmt: skip


def test_licences_of_a_job_count_unless_its_reservation_has_them() -> None:
    nodes = reserved(OURS, 7_000, 9_000, "n1")
    licences = reserved("kal.centre.00000000-2", 7_000, 9_000, licences=(("matlab", 4),))
    of_nodes = job(8_000, "n1", reservation=OURS, licences=(("matlab", 3),))
    of_licences = job(8_000, "n2", reservation=licences.name, licences=(("matlab", 3),))
    assert foreign(MATLAB, reservations=(nodes, licences), jobs=(of_nodes, of_licences)) == [
        (NOW - 60, 8_000, {"matlab": 3})
    ]
    assert foreign(CORES, reservations=(nodes, licences), jobs=(of_nodes,)) == []


def test_all_cores_of_a_node_that_is_down_are_taken_until_it_is_mended() -> None:
    down = (UnwellNode("n1", "down"),)
    assert foreign(CORES, unwell=down) == [(NOW, NOW + 3_660, {"n1": 4})]
    assert foreign(MATLAB, unwell=down) == []


def test_what_the_system_has_less_of_than_is_offered_is_taken() -> None:
    assert foreign(CORES, cores=(("n1", 4), ("n2", 3))) == [(NOW, NOW + 3_660, {"n2": 1})]
    assert foreign(MATLAB, licences=(("matlab", 8),)) == [(NOW, NOW + 3_660, {"matlab": 2})]
    assert foreign(MATLAB, licences=()) == [(NOW, NOW + 3_660, {"matlab": 10})]
    assert foreign(CORES, nodes=("n1",), cores=(("n1", 4),)) == [(NOW, NOW + 3_660, {"n2": 4})]
