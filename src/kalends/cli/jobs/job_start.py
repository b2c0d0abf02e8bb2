"""Waiting for the start of a job, with a countdown."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from kalends.cli.console.live_line import LiveLine
from kalends.cli.console.settings import Settings
from kalends.cli.console.short_time import short_time
from kalends.contract.job_calls import JobView
from kalends.core.durations import format_duration

if TYPE_CHECKING:
    from kalends.client.client import Client

BEFORE_START: Final = ("held", "queued", "starting")
LOOKS_S: Final = (0.05, 0.1, 0.2, 0.4)
"""First intervals between queries (s); later one each second, or each `FAR_S` if the start is far."""

FAR_S: Final = 5


async def started(client: Client, settings: Settings, view: JobView) -> JobView:
    """Return a job when it runs or has ended; until then, show its expected start."""
    looks = iter(LOOKS_S)
    with LiveLine(silent=settings.json) as line:
        while view.phase in BEFORE_START:
            wait_s = next(looks, 1.0)
            rest_s = expected_in_s(view)
            for _ in range(FAR_S if wait_s == 1 and rest_s > 10 * FAR_S else 1):
                line.show(words(view, settings), countdown(view))
                await asyncio.sleep(wait_s)
            view = await client.job(view.machine, view.job)
    return view


def words(view: JobView, settings: Settings) -> str:
    """Return the state of a job that has not started, and its expected start."""
    said = f"{view.machine}/{view.job} {view.phase}"
    if view.reasons and view.predicted is None:
        return f"{said}: {'; '.join(view.reasons)}"
    if view.predicted is None:
        return said
    zone = settings.time_zone()
    if view.reservation:
        return f"{said}: starts {short_time(view.predicted.latest, zone)} at the latest"
    expected = short_time(view.predicted.expected, zone)
    nine_of_ten = short_time(view.predicted.p90, zone)
    return f"{said}: starts ~{expected}, by {nine_of_ten} nine times of ten"


def countdown(view: JobView) -> str:
    if view.predicted is None:
        return ""
    rest_s = expected_in_s(view)
    return f"; in {format_duration(rest_s)}" if rest_s > 0 else "; at any moment"


def expected_in_s(view: JobView) -> int:
    """Return the seconds until the job's expected start; 0 if none is known."""
    return max(view.predicted.expected - int(time.time()), 0) if view.predicted is not None else 0
