"""Machines drawn as text: a schedule, and nodes with their jobs. Pure; yields lines of styled pieces.

The schedule has a row for each time at which something begins or ends, as in the schedules of Gehring and
Ramme 1996, and a column for each node. Jobs have the columns of their nodes if these are known, else the
first columns that are free for all of their time.

Nodes are drawn in the topology of their machine: a mesh is a plane, a torus is planes below each other, and a
hypercube is folded into a plane. A pool, which has no topology, is lines of nodes by number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice, product
from math import prod
from string import ascii_lowercase, ascii_uppercase
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from kalends.cli.console.output import rows as aligned
from kalends.cli.console.screen import NodeState
from kalends.contract.job_calls import JobView, MachineLoad, MachinePlan, ScheduledJob
from kalends.core.errors import InvalidInput

Cell = tuple[str, NodeState | Literal[""]]
Line = list[Cell]

SIGNS: Final[dict[NodeState, str]] = {"reserved": "=", "free": ".", "out": "/"}
FREE: Final[Cell] = (SIGNS["free"], "free")
OUT: Final[Cell] = (SIGNS["out"], "out")
"""Capital letters are running jobs, small letters planned ones."""

WAITING: Final = ("queued", "stopped")
"""Phases of jobs that have no nodes and are planned."""

ROWS_MAX: Final = 24
LABEL_WIDTH: Final = 13
USER_WIDTH: Final = 12

PLANE_ROWS_MAX: Final = 32
"""Rows of one plane; a larger one is drawn with several nodes to a sign."""


class DrawnBlock(NamedTuple):
    """An item of the schedule: its sign, the kind that decides its style, and its columns."""

    start: int
    end: int
    sign: str
    kind: NodeState
    nodes: tuple[int, ...]


def draw_plan(plan: MachinePlan, zone: ZoneInfo, *, width: int, count: int) -> list[Line]:
    """Return the drawing, a legend, and `count` rows of jobs, within `width` characters."""
    total = plan.machine.nodes
    signs = _signs(plan.jobs)
    blocks = placed(plan, signs)
    changes = _changes(plan, blocks)
    times, later = changes[:ROWS_MAX], changes[ROWS_MAX:]
    count_width = len(str(total))
    columns = max(min(total, width - LABEL_WIDTH - count_width - 2), 1)
    lines: list[Line] = [[(f"{'':{LABEL_WIDTH}}{'FREE':>{columns + count_width + 1}}", "")]]
    for time_s in times:
        cells = _row(blocks, time_s, total, columns)
        free = _free_at(plan, time_s)
        lines.append(
            [
                (f"{_label(time_s, zone):{LABEL_WIDTH}}", ""),
                *_merged(cells),
                (f" {free:>{count_width}}", ""),
            ]
        )
    lines.append([("", "")])
    each = -(-total // columns)
    scale = f"a column is {each} node{'' if each == 1 else 's'}"
    lines.append([(scale, "")])
    if later:
        until = _label(later[-1], zone)
        lines.append([(f"{len(later)} later changes, until {until}, are not drawn", "")])
    if plan.unplanned:
        said = f"not drawn: {plan.unplanned} waiting jobs that are held or not planned yet"
        lines.append([(said, "")])
    lines.append(
        [("capitals run; small letters wait, with starts if all jobs run to their limits", "")]
    )
    meanings: list[tuple[NodeState, str]] = [
        ("reserved", "reserved"), ("free", "free"), ("out", "out of service"),
    ]  # fmt: skip
    present = {block.kind for block in blocks} | {"free"}
    shown = [(kind, meaning) for kind, meaning in meanings if kind in present]
    lines.append(
        [piece for kind, text in shown for piece in ((SIGNS[kind], kind), (f" {text}  ", ""))]
    )
    rows: list[Line] = [[(row, "")] for row in _job_rows(plan, signs, zone, count)]
    return [*lines, [("", "")], *rows]


def placed(plan: MachinePlan, signs: Sequence[str]) -> list[DrawnBlock]:
    """Return all items of the schedule with their columns; of two in one place, the first is shown."""
    numbered = plan.machine.description.startswith("pool:")
    ends = [job.end for job in plan.jobs] + [each.end for each in plan.reservations]
    end_s = max([plan.now, *ends]) + 1
    wanted: list[tuple[int, int, str, NodeState, int, tuple[int, ...]]] = [
        (
            plan.now, end_s, SIGNS["out"], "out", plan.machine.out,
            plan.machine.out_numbers if numbered else (),
        )
    ]  # fmt: skip
    wanted += [
        (
            max(job.start, plan.now), job.end, sign,
            "planned" if job.phase in WAITING else "running", job.nodes,
            job.node_numbers if numbered else (),
        )
        for job, sign in zip(plan.jobs, signs, strict=True)
    ]  # fmt: skip
    wanted += [
        (max(each.start, plan.now), each.end, SIGNS["reserved"], "reserved", each.nodes, ())
        for each in plan.reservations
    ]
    blocks: list[DrawnBlock] = []
    free_from = [plan.now] * plan.machine.nodes
    for start, end, sign, kind, count, named in sorted(
        wanted, key=lambda each: (each[0], not each[5])
    ):
        # Items are in order of their starts: a column that is free at the start stays free.
        free = (node for node, free_s in enumerate(free_from) if free_s <= start)
        nodes = named or tuple(islice(free, count))
        for node in nodes:
            free_from[node] = end
        blocks.append(DrawnBlock(start, end, sign, kind, nodes))
    return blocks


def _signs(jobs: Iterable[ScheduledJob]) -> list[str]:
    """Return a letter for each job; after the last letter they start again."""
    counts: Counter[str] = Counter()
    found = []
    for job in jobs:
        letters = ascii_lowercase if job.phase in WAITING else ascii_uppercase
        found.append(letters[counts[letters] % len(letters)])
        counts[letters] += 1
    return found


def _changes(plan: MachinePlan, blocks: Sequence[DrawnBlock]) -> list[int]:
    """Return all times, from now on, at which an item begins or ends."""
    ends = [block.end for block in blocks if block.kind != "out"]
    return sorted({plan.now, *(block.start for block in blocks), *ends})


def _row(blocks: Sequence[DrawnBlock], time_s: int, total: int, columns: int) -> list[Cell]:
    at: dict[int, Cell] = {
        node: (block.sign, block.kind)
        for block in reversed(blocks)
        if block.start <= time_s < block.end
        for node in block.nodes
    }
    each = -(-total // columns)
    cells = []
    for first in range(0, total, each):
        inside = Counter(at.get(node, FREE) for node in range(first, min(first + each, total)))
        cells.append(inside.most_common(1)[0][0])
    return cells


def _free_at(plan: MachinePlan, time_s: int) -> int:
    return next((nodes for start, nodes in reversed(plan.free) if start <= time_s), 0)


def _merged(cells: Iterable[Cell]) -> Line:
    """Merge neighbours of one kind."""
    return [
        ("".join(sign for sign, _ in inside), kind)
        for kind, inside in groupby(cells, key=lambda cell: cell[1])
    ]


def _label(time_s: int, zone: ZoneInfo) -> str:
    return f"{datetime.fromtimestamp(time_s, zone):%a %d %H:%M}"


def _job_rows(plan: MachinePlan, signs: Sequence[str], zone: ZoneInfo, count: int) -> list[str]:
    body: list[tuple[object, ...]] = [
        (
            sign,
            job.job,
            job.user[:USER_WIDTH],
            job.nodes,
            _label(job.start, zone),
            _label(job.end, zone),
            f"~{_label(job.expected, zone)}" if job.expected else "-",
        )
        for job, sign in zip(plan.jobs, signs, strict=True)
    ]
    body += [
        (
            SIGNS["reserved"],
            "-",
            each.holder[:USER_WIDTH] or "-",
            each.nodes,
            _label(each.start, zone),
            _label(each.end, zone),
            "-",
        )
        for each in plan.reservations
    ]
    header = ("", "JOB", "USER", "NODES", "START", "END", "EXPECTED")
    left = len(body) - count
    more = [f"{left} more: --count {len(body)}"] if left > 0 else []
    return [*aligned(header, body[:count], right=("JOB", "NODES")), *more]


def signs_of(jobs: Sequence[JobView]) -> list[str]:
    """Return a letter for each job; after Z they start again."""
    return [ascii_uppercase[number % len(ascii_uppercase)] for number in range(len(jobs))]


def draw_nodes(load: MachineLoad, jobs: Sequence[JobView], *, width: int) -> list[Line]:
    """Return the nodes of a machine within `width` characters, and a legend."""
    cells: dict[int, Cell] = dict.fromkeys(load.out_numbers, OUT)
    for job, sign in zip(jobs, signs_of(jobs), strict=True):
        cells.update(dict.fromkeys(job.node_numbers, (sign, "running")))
    columns, rows, planes = _extent(load, width)
    side = max(-(-columns // width), -(-rows // PLANE_ROWS_MAX))
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
    # Imported here because schedules are drawn without topologies.
    from kalends.machines.architectures import Hypercube
    from kalends.machines.boxes import BoxTopology
    from kalends.machines.spec import topology_from

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
    while -(-load.nodes // columns) > PLANE_ROWS_MAX * -(-columns // width):
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
