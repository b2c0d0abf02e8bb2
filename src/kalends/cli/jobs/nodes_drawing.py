"""The nodes of a machine drawn in its topology, each with its job. Pure; yields lines of styled pieces.

A mesh is a plane, a torus is planes below each other, and a hypercube is folded into a plane. A pool, which
has no topology, is lines of nodes by number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, product
from math import prod
from string import ascii_uppercase
from typing import Final

from kalends.contract.job_calls import JobView, MachineLoad
from kalends.core.errors import InvalidInput
from kalends.machines.architectures import Hypercube
from kalends.machines.boxes import BoxTopology
from kalends.machines.spec import topology_from

FREE: Final = (".", "free")
OUT: Final = ("/", "out")

Cell = tuple[str, str]
Line = list[Cell]

ROWS_MAX: Final = 32
"""Rows of one plane; a larger one is drawn with several nodes to a sign."""


def signs_of(jobs: Sequence[JobView]) -> list[str]:
    """Return a letter for each job; after Z they start again."""
    return [ascii_uppercase[number % len(ascii_uppercase)] for number in range(len(jobs))]


def draw_nodes(load: MachineLoad, jobs: Sequence[JobView], *, width: int) -> list[Line]:
    """Return the nodes of a machine within `width` characters, and a legend."""
    cells: dict[int, Cell] = dict.fromkeys(load.out_numbers, OUT)
    for job, sign in zip(jobs, signs_of(jobs), strict=True):
        cells.update(dict.fromkeys(job.node_numbers, (sign, "running")))
    columns, rows, planes = _extent(load, width)
    side = max(-(-columns // width), -(-rows // ROWS_MAX))
    lines: list[Line] = []
    for plane in range(planes):
        if planes > 1:
            lines.append([(f"plane {plane}", "")])
        first = plane * columns * rows
        for top in range(0, rows, side):
            row = [
                _cell(cells, first, (left, top), (columns, rows), side, load.nodes)
                for left in range(0, columns, side)
            ]
            lines.append(_merged(row))
    each = "a sign is a node" if side == 1 else f"a sign is {side}x{side} nodes"
    legend: Line = [(f"{each}  ", ""), FREE, (" free  ", "")]
    if load.out_numbers:
        legend += [OUT, (" out of service", "")]
    return [*lines, legend]


def _extent(load: MachineLoad, width: int) -> tuple[int, int, int]:
    """Return columns, rows and planes; nodes are numbered along the columns first."""
    try:
        topology = topology_from(load.description)
    except InvalidInput:  # A topology of a newer version: its nodes have at least numbers.
        topology = None
    if isinstance(topology, Hypercube):
        columns = 1 << -(-len(topology.shape) // 2)
        return columns, load.nodes // columns, 1
    if isinstance(topology, BoxTopology):
        across, down, *deep = topology.shape
        return across, down, prod(deep)
    columns = min(load.nodes, width)
    while -(-load.nodes // columns) > ROWS_MAX * -(-columns // width):
        columns += width
    return columns, -(-load.nodes // columns), 1


def _cell(
    cells: Mapping[int, Cell],
    first: int,
    corner: tuple[int, int],
    extent: tuple[int, int],
    side: int,
    nodes: int,
) -> Cell:
    """Return the sign of most nodes of a square."""
    left, top = corner
    columns, rows = extent
    places = product(range(top, min(top + side, rows)), range(left, min(left + side, columns)))
    numbers = (first + row * columns + column for row, column in places)
    found = Counter(cells.get(number, FREE) for number in numbers if number < nodes)
    return found.most_common(1)[0][0] if found else (" ", "")


def _merged(row: Sequence[Cell]) -> Line:
    return [
        ("".join(sign for sign, _ in inside), kind)
        for kind, inside in groupby(row, key=lambda cell: cell[1])
    ]
