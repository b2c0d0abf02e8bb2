"""Machines are made from their text, and what is no machine is refused with the right form."""

from __future__ import annotations

import pytest

from kalends.core.errors import InvalidInput
from kalends.machines.spec import ARCHITECTURES, machine_from


@pytest.mark.parametrize(
    ("text", "spec", "nodes"),
    [
        ("pool:5", "pool:5", 5),
        ("mesh2d:32x32:4x4", "mesh2d:32x32:4x4", 1024),
        ("mesh2d:8x8:2x2:io=border", "mesh2d:8x8:2x2:io=border", 64),
        ("mesh2d:8x4:1x1:io=all:fit=best", "mesh2d:8x4", 32),
        ("mesh2d:4x4:fit=first:io=inner", "mesh2d:4x4:io=inner:fit=first", 16),
        ("hypercube:7", "hypercube:7", 128),
        ("hypercube:3:fit=first", "hypercube:3:fit=first", 8),
        ("torus3d:8x4x2", "torus3d:8x4x2", 64),
    ],
)
def test_a_machine_is_made_from_its_text_and_tells_it_again(
    text: str, spec: str, nodes: int
) -> None:
    machine = machine_from(text)
    assert (machine.spec, machine.nodes, machine.free) == (spec, nodes, nodes)
    assert machine_from(machine.spec).spec == spec


@pytest.mark.parametrize(
    "text",
    [
        "", "cube:3", "pool", "pool:", "pool:0", "pool:-1", "pool:65537", "pool:9999999", "pool:1x2",
        "pool:12:fit=first", "mesh2d", "mesh2d:4", "mesh2d:0x3", "mesh2d:4x4:3x3", "mesh2d:4x4:0x1",
        "mesh2d:4x4:", "mesh2d:4x4:2x2:2x2", "mesh2d:4x4:io=top", "mesh2d:io=all:4x4",
        "mesh2d:4x4:io=all:io=all", "mesh2d:4x4:io=all:io=inner", "mesh2d:²x2", "mesh2d: 4x4",
        "mesh2d:999999x999999", "mesh2d:999999x999999:999999x999999", "mesh2d:9999x1",
        "hypercube:0", "hypercube:11", "hypercube:3x3", "torus3d:2x2", "torus3d:0x2x2",
        "torus3d:100x100x100", "torus3d:2x2x2:io=all",
    ],
)  # fmt: skip
def test_what_is_no_machine_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        machine_from(text)
    assert refused.value.where == "machine"
    assert refused.value.remedy


def test_a_misspelt_machine_is_answered_with_the_form_of_its_architecture() -> None:
    for name, architecture in ARCHITECTURES.items():
        with pytest.raises(InvalidInput) as refused:
            machine_from(f"{name}:one")
        assert architecture.form in refused.value.remedy


def test_nodes_of_a_mesh_are_numbered_by_rows() -> None:
    partition = machine_from("mesh2d:8x8:2x4").place(8)
    assert partition is not None
    assert partition.nodes == (0, 1, 8, 9, 16, 17, 24, 25)
    assert (partition.shape, partition.origin) == ((2, 4), (0, 0))


def test_a_partition_of_a_gcpp_is_never_cut_off_from_the_border() -> None:
    machine = machine_from("mesh2d:8x8:2x2:io=border")
    border = {node for node in range(64) if node % 8 in (0, 7) or node // 8 in (0, 7)}
    while (partition := machine.place(4)) is not None:
        assert border & set(partition.nodes)
    assert machine.free == 16, "the four units inside have no link"


def test_a_box_of_a_torus_wraps_around() -> None:
    machine = machine_from("torus3d:4x1x1")
    machine.drain([1, 2])
    partition = machine.place(2)
    assert partition is not None
    assert (partition.nodes, partition.origin, partition.shape) == ((0, 3), (3, 0, 0), (2, 1, 1))
