"""Every mapper against the exhaustive search, through random lives of the machine."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests import effort
from tests.machine_twins import Place, Twin, hypercube, mesh, mesh_contact, pool, torus

from kalends.core.errors import Conflict, InvalidInput
from kalends.machines.machine import Machine
from kalends.machines.partitions import Partition
from kalends.machines.spec import machine_from

TWINS: dict[str, Twin] = {
    "pool:6": pool(6),
    "mesh2d:5x4": mesh(5, 4, (1, 1), "all"),
    "mesh2d:8x6:2x2:io=border": mesh(8, 6, (2, 2), "border"),
    "mesh2d:12x10:2x2:io=inner": mesh(12, 10, (2, 2), "inner"),
    "mesh2d:8x6:4x2:io=inner": mesh(8, 6, (4, 2), "inner"),
    "mesh2d:6x1": mesh(6, 1, (1, 1), "all"),
    "hypercube:4": hypercube(4),
    "torus3d:3x4x2": torus(3, 4, 2),
    "torus3d:1x2x5": torus(1, 2, 5),
}
MESHES = {
    "mesh2d:5x4": (5, 4, (1, 1)),
    "mesh2d:8x6:2x2:io=border": (8, 6, (2, 2)),
    "mesh2d:12x10:2x2:io=inner": (12, 10, (2, 2)),
}


class Life(RuleBasedStateMachine):
    """A machine and what its twin knows: the partitions, and which nodes are out."""

    spec = ""
    partitions = Bundle("partitions")

    def __init__(self) -> None:
        super().__init__()
        self.machine = machine_from(self.spec)
        self.twin = TWINS[self.spec.removesuffix(":fit=first")]
        self.given: list[Partition] = []
        self.out: set[int] = set()

    @property
    def taken(self) -> frozenset[int]:
        return frozenset(node for partition in self.given for node in partition.nodes)

    @property
    def busy(self) -> frozenset[int]:
        return self.taken | self.twin.broken(self.out)

    @rule(target=partitions, data=st.data())
    def place(self, data: st.DataObject) -> Partition | None:
        nodes = data.draw(st.integers(1, self.twin.nodes // 2 + 1))
        return self.placed(nodes, ())

    @rule(target=partitions, data=st.data())
    def place_a_shape(self, data: st.DataObject) -> Partition | None:
        sides = data.draw(st.sampled_from(self.twin.places)).sides
        return self.placed(1, tuple(data.draw(st.permutations(sides))))

    def placed(self, nodes: int, shape: tuple[int, ...]) -> Partition | None:
        allowed = self.twin.free(self.busy, nodes, shape)
        assert self.machine.can_place(nodes, shape) == bool(allowed)
        found = self.machine.find(nodes, shape)
        partition = self.machine.place(nodes, shape)
        assert found == partition
        if partition is None:
            assert not allowed
        else:
            assert Place(frozenset(partition.nodes), partition.shape) in allowed
            assert list(partition.nodes) == sorted(set(partition.nodes))
            self.given.append(partition)
        effort.steps["placements"] += 1
        return partition

    @rule(partition=consumes(partitions))
    def release(self, partition: Partition | None) -> None:
        if partition is not None:
            self.machine.release(partition)
            self.given.remove(partition)
            with pytest.raises(Conflict):
                self.machine.release(partition)

    @rule(target=partitions, data=st.data())
    def take(self, data: st.DataObject) -> Partition | None:
        place = data.draw(st.sampled_from(self.twin.places))
        partition = Partition(tuple(sorted(place.nodes)), place.sides)
        if place.nodes & self.busy:
            with pytest.raises(Conflict):
                self.machine.take(partition)
            return None
        self.machine.take(partition)
        self.given.append(partition)
        return partition

    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        nodes = data.draw(st.sets(st.integers(0, self.twin.nodes - 1), max_size=2))
        self.machine.drain(nodes)
        self.out |= nodes

    @rule(data=st.data(), everything=st.booleans())
    def resume(self, data: st.DataObject, everything: bool) -> None:
        nodes = self.out if everything else data.draw(
            st.sets(st.integers(0, self.twin.nodes - 1), max_size=5)
        )  # fmt: skip
        self.machine.resume(set(nodes))
        self.out -= nodes

    @rule(data=st.data())
    def go_on_with_a_copy(self, data: st.DataObject) -> None:
        copy = self.machine.copy()
        while copy.place(1) is not None:
            pass
        self.machine = self.machine.copy()

    @rule(data=st.data())
    def without(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(self.twin.places))
        gone = self.machine.without([Partition(tuple(sorted(place.nodes)), place.sides)])
        for nodes in (1, 2, self.twin.nodes // 3 + 1):
            allowed = self.twin.free(self.busy | place.nodes, nodes)
            assert gone.can_place(nodes) == bool(allowed)

    @invariant()
    def counts_are_right(self) -> None:
        assert len(self.taken) == sum(len(partition.nodes) for partition in self.given)
        assert self.machine.nodes == self.twin.nodes
        assert self.machine.free == self.twin.nodes - len(self.busy)
        assert self.machine.out_of_service == len(self.twin.broken(self.out))


@pytest.mark.parametrize(
    "spec", [*TWINS, *(f"{spec}:fit=first" for spec in TWINS if not spec.startswith("pool"))]
)
def test_a_mapper_finds_a_place_exactly_if_the_exhaustive_search_does(spec: str) -> None:
    life = type("LifeOf", (Life,), {"spec": spec})
    run_state_machine_as_test(
        life,
        settings=settings(
            max_examples=effort.examples(12), stateful_step_count=25, deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("spec", TWINS)
def test_what_could_ever_fit_and_how_many_nodes_it_takes_is_what_the_exhaustive_search_says(
    spec: str,
) -> None:
    machine, twin = machine_from(spec), TWINS[spec]
    shapes = {place.sides for place in twin.places} | {(3, 3), (2, 2, 2), (1,), (99, 1)}
    requests = [(nodes, ()) for nodes in range(-1, twin.nodes + 2)]
    requests += [(nodes, shape) for shape in sorted(shapes) for nodes in (1, 4, 7)]
    for nodes, shape in requests:
        granted = twin.granted(nodes, shape)
        assert machine.granted(nodes, shape) == granted
        assert machine.could_ever_fit(nodes, shape) == (granted > 0)
        assert machine.can_place(nodes, shape) == (granted > 0)


@pytest.mark.parametrize("spec", MESHES)
@settings(max_examples=effort.examples(60), deadline=None)
@given(data=st.data())
def test_best_fit_takes_a_place_with_the_most_contact(spec: str, data: st.DataObject) -> None:
    machine, twin = machine_from(spec), TWINS[spec]
    machine.drain(data.draw(st.sets(st.integers(0, twin.nodes - 1), max_size=twin.nodes // 8)))
    for _ in range(data.draw(st.integers(0, 3))):
        machine.place(data.draw(st.integers(1, 6)))
    busy = frozenset(range(twin.nodes)) - _free_nodes(machine, twin)
    nodes = data.draw(st.integers(1, twin.nodes // 2))
    allowed = twin.free(busy, nodes)
    partition = machine.place(nodes)
    if partition is None:
        assert not allowed
        return
    contact = {place.nodes: mesh_contact(*MESHES[spec], place, busy) for place in allowed}
    assert contact[frozenset(partition.nodes)] == max(contact.values())
    effort.steps["best fits"] += 1


def _free_nodes(machine: Machine, twin: Twin) -> frozenset[int]:
    """Found by asking for every unit by name."""
    free: set[int] = set()
    for unit in twin.units:
        try:
            machine.copy().take(Partition(tuple(sorted(unit))))
        except Conflict:
            continue
        free |= unit
    return frozenset(free)


@pytest.mark.parametrize("spec", ["mesh2d:4x4:2x2", "hypercube:3", "pool:4"])
def test_nodes_that_a_machine_does_not_have_are_refused_and_change_nothing(spec: str) -> None:
    machine = machine_from(spec)
    for wrong in ([-1], [0, machine.nodes]):
        for refuses in (machine.drain, machine.resume):
            with pytest.raises(InvalidInput):
                refuses(wrong)
    for partition in (
        Partition(()),
        Partition((machine.nodes,)),
        Partition((1, 0)),
        Partition((2, 2)),
    ):
        with pytest.raises(InvalidInput):
            machine.take(partition)
    assert machine.free == machine.nodes
    with pytest.raises(Conflict):
        machine.release(Partition(()))


def test_half_a_unit_cannot_be_taken() -> None:
    machine = machine_from("mesh2d:4x4:2x2")
    with pytest.raises(InvalidInput):
        machine.take(Partition((0, 1)))


def test_what_was_forgotten_to_save_memory_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kalends.machines.enumerated.MOST_CACHED", 10)
    machine, usual = machine_from("mesh2d:5x4"), machine_from("mesh2d:5x4")
    given = []
    for nodes in (3, 4, 2, 3, 5):
        given.append(machine.place(nodes))
        monkeypatch.undo()
        assert given[-1] == usual.place(nodes)
        monkeypatch.setattr("kalends.machines.enumerated.MOST_CACHED", 10)
    for partition in given:
        if partition is not None:
            machine.release(partition)
    assert machine.free == machine.nodes
