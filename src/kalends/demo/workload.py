"""A real machine's log as bookings from now on. Pure.

The excerpt is described in examples/data/README.md. Its instant is moved to the next moment of the
resource's grain; what ran then begins with it. Starts and ends are rounded up alike, so that jobs
that followed one another still do and never more nodes are taken than in the log; jobs that would
have no length left are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kalends.core.intervals import Interval, align_up
from kalends.simulation.workloads.swf_fields import read_header, read_jobs, running_and_reserved

AHEAD_S: Final = 24 * 3_600
"""The jobs of one day: enough to be busy, and the machine is free again the day after."""

LEAD_S: Final = 5 * 60
"""The first bookings begin this much later than they are made: until then jobs have the machine."""


class JobBooking(NamedTuple):
    """One job of the log as a booking."""

    interval: Interval
    nodes: int


def job_bookings(lines: Sequence[str], now_s: int, grain_s: int) -> list[JobBooking]:
    """Return the jobs that run at the excerpt's instant or start within a day of it, in order of start.

    Raises `InvalidInput` for lines that are no log.
    """
    instant_s = int(read_header(lines)["ExcerptInstant"])
    begin_s = align_up(now_s + LEAD_S, grain_s)
    moved = (
        (
            Interval(
                begin_s + align_up(max(start_s - instant_s, 0), grain_s),
                begin_s + align_up(end_s - instant_s, grain_s),
            ),
            nodes,
        )
        for start_s, end_s, nodes in running_and_reserved(read_jobs(lines), instant_s, AHEAD_S)
    )
    return [JobBooking(interval, nodes) for interval, nodes in moved if interval.length_s > 0]
