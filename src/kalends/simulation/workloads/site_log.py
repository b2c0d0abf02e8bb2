"""Jobs that a site's machine has run, as a log in the Standard Workload Format 2.2.

The format has numbers only. Which user, project and priority class a number stands for is told in the
header, in lines such as ``; User: 1 ann``, ``; Group: 1 dna`` (the project) and ``; Queue: 1 low``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TextIO

from kalends.contract.history_calls import HistoryPage, HistoryRow

UNKNOWN: Final = -1


class SiteNumbers(NamedTuple):
    """Numbers of users, projects and classes in a log."""

    users: dict[str, int]
    projects: dict[str, int]
    classes: dict[str, int]


STATUS: Final = {"killed": 5, "withdrawn": 5}
"""Codes of the format: 1 completed, 0 failed, 5 cancelled."""


def write_site_log(
    stream: TextIO, machine: HistoryPage, jobs: Iterable[HistoryRow], *, began: int | None = None
) -> SiteNumbers:
    """Write `jobs` of `machine` in order of submission, with a header; the log begins at `began`, or with
    the first of them. Return the numbers that it uses.

    Allocated processors are the mean over the run where a job changed its size, or stood still for a more
    urgent one; waits and runs of jobs that never had nodes are -1. Users and projects are numbered in order
    of appearance.
    """
    rows = sorted(jobs, key=lambda row: (row.submitted, row.job))
    if began is None:
        began = rows[0].submitted if rows else 0
    by_urgency = sorted(machine.classes, key=lambda name: (machine.classes[name], name))
    numbers = users, projects, queues = SiteNumbers(
        _numbered(row.user for row in rows),
        _numbered(row.project for row in rows if row.project),
        _numbered([*by_urgency, *(row.priority for row in rows)]),
    )
    for line in _header(machine, rows, began, numbers):
        stream.write(f"; {line}\n")
    for row in rows:
        group = projects.get(row.project, UNKNOWN)
        words = (*_measured(row, began), users[row.user], group, UNKNOWN, queues[row.priority])
        stream.write(" ".join(map(str, (*words, UNKNOWN, UNKNOWN, UNKNOWN))) + "\n")
    return numbers


def mean_nodes(row: HistoryRow) -> int:
    """Return the nodes that a job had in the mean over its last attempt, rounded to one at least."""
    ran_s = row.over - row.started
    if not ran_s or not row.node_seconds:
        return row.nodes_had
    return max((row.node_seconds + ran_s // 2) // ran_s, 1)


def _measured(row: HistoryRow, began: int) -> Sequence[object]:
    """Return the fields of the format from the job's number to its status."""
    asked = (row.nodes, row.limit_s or UNKNOWN, UNKNOWN)
    status = STATUS.get(row.end, int(row.end == "exit" and row.status == 0))
    before = (row.job, row.submitted - began)
    if not row.started:
        return (*before, *[UNKNOWN] * 5, *asked, status)
    nodes = mean_nodes(row)
    cpu = f"{row.cpu_s / nodes:.2f}" if row.cpu_s else UNKNOWN
    memory = row.memory_bytes // 1024 or UNKNOWN
    run_s = row.over - row.started
    return (*before, row.started - row.submitted, run_s, nodes, cpu, memory, *asked, status)


def _header(
    machine: HistoryPage,
    rows: Sequence[HistoryRow],
    began: int,
    numbers: SiteNumbers,
) -> list[str]:
    last = max((row.over for row in rows), default=began)
    tables = zip(("User", "Group", "Queue"), numbers, strict=True)
    return [
        "Version: 2.2",
        f"Computer: {machine.machine} ({machine.description})",
        "Conversion: by kalends from the accounts of the machine",
        f"MaxJobs: {len(rows)}",
        f"MaxRecords: {len(rows)}",
        f"Preemption: {'Yes' if any(row.stood_s for row in rows) else 'No'}",
        f"UnixStartTime: {began}",
        "TimeZoneString: UTC",
        f"StartTime: {_as_date(began)}",
        f"EndTime: {_as_date(last)}",
        f"MaxNodes: {machine.nodes}",
        f"MaxProcs: {machine.nodes}",
        f"MaxQueues: {len(numbers.classes)}",
        "Note: queues are priority classes, groups are projects",
        *(f"{kind}: {number} {name}" for kind, table in tables for name, number in table.items()),
    ]


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def _as_date(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
