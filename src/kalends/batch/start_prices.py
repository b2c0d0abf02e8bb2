"""Cost of a reservation for waiting jobs, at each of some starts, as far as the caller may know."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kalends.batch.machine_host import Machines
from kalends.contract.job_calls import DelayedJob, FindDelays, MachineDelays, StartDelays
from kalends.core.limits import LISTING_MAX


async def machine_delays(
    machines: Machines, body: FindDelays, own: Collection[int]
) -> MachineDelays:
    """Return what `body` asks for, with those of the delayed jobs that are in `own`.

    Raises `Unavailable` while others ask. What would be over already has no room.
    """
    spans = [(start, start + body.length_s, body.nodes) for start in body.starts]
    to_come = [span for span in spans if span[1] > machines.now_s()]
    foreseen = await machines.delays(body.machine, to_come)
    found = dict(zip(to_come, foreseen.delays, strict=True))
    starts = tuple(start_delays(span, found.get(span), own) for span in spans)
    return MachineDelays(made_at=foreseen.made_at, starts=starts)


def start_delays(
    span: tuple[int, int, int], delayed: Mapping[int, int] | None, own: Collection[int]
) -> StartDelays:
    """Return what a reservation of `span` (start, end, nodes) delays; None of `delayed`: it has no room."""
    if delayed is None:
        return StartDelays(start=span[0], jobs=-1)
    mine = [DelayedJob(job=job, later_s=by_s) for job, by_s in delayed.items() if job in own]
    return StartDelays(
        start=span[0], jobs=len(delayed), longest_s=max(delayed.values(), default=0),
        own=tuple(sorted(mine, key=lambda each: each.job)[:LISTING_MAX]),
    )  # fmt: skip
