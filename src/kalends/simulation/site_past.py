"""The past of a site's machine: the other users of its nodes, and the schedule as it was."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from kalends.contract.history_calls import HistoryPage, HistoryRow, ReservedSpan
from kalends.core.errors import InvalidInput
from kalends.scheduling.reservations import Reservation, Reservations
from kalends.simulation.metrics import ScheduleMetrics
from kalends.simulation.result import SimulationResult
from kalends.simulation.workloads.site_log import SiteNumbers
from kalends.simulation.workloads.swf import open_log

AS_IT_WAS: Final = "as it was"


def treatment(machine: HistoryPage, numbers: SiteNumbers) -> str:
    """Return how the jobs of a site's log are treated: the priorities of their classes, and its shares."""
    classes = machine.classes
    least = min([0, *classes.values()])
    rules = [
        f"queue:{number}={classes.get(name, least) - least}"
        for name, number in numbers.classes.items()
    ]
    kind, table = ("user", numbers.users)
    if machine.share_by == "project":
        kind, table = "group", {**numbers.projects, "": 0}
    shares = {number: machine.shares.get(name, 1) for name, number in table.items()}
    named = {number: share for number, share in shares.items() if share > 1} or {0: 1}
    return ",".join(
        [*rules, *(f"{kind}:{number}=shares:{share}" for number, share in named.items())]
    )


def background(
    before: Iterable[HistoryRow], reserved: Iterable[ReservedSpan], began: int, nodes: int
) -> list[Reservation]:
    """Return the nodes that jobs from before had from `began` on, and those that were reserved, as
    reservations in seconds from there.

    Left out are those for which there is no room: the machine had more nodes then, or a job was late.
    """
    others = [
        *((row.started, row.over, row.nodes_had, f"job {row.job}") for row in before),
        *((each.start, each.end, each.nodes, each.user) for each in reserved),
    ]
    kept: list[Reservation] = []
    for start, end, wide, name in others:
        start_s, end_s = max(start - began, 0), end - began
        if end_s <= start_s or not wide:
            continue
        wanted = Reservation(start_s, end_s, wide, name)
        try:
            Reservations(nodes, [*kept, wanted])
        except InvalidInput:
            continue
        kept.append(wanted)
    return kept


def as_it_was(log: Path, nodes: int) -> SimulationResult:
    """Return the metrics of the schedule that the log itself tells, of the jobs that a replay takes."""
    metrics = ScheduleMetrics(nodes)
    for order, job in enumerate(open_log(log, nodes=nodes, keep_lines=True)):
        wait_s, run_s = map(int, job.line.split()[2:4])
        job.order, job.start_s = order, job.submit_s + wait_s
        job.end_s = job.start_s + run_s
        metrics.add(job)
    summary = msgspec.structs.asdict(metrics.summary())
    return SimulationResult(**summary, policy=AS_IT_WAS, nodes=nodes)
