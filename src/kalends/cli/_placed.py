"""Jobs that were left to a broker, in words."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.contract.calls import PlacedJob, RequestView
from kalends.core.errors import Unavailable
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


def placed_job(view: RequestView) -> PlacedJob:
    """Return where a job is; raises `Unavailable` while that is still being decided."""
    if view.placed is None:
        raise Unavailable(
            f"it is not decided yet where it runs ({short_id(view.id)})",
            remedy=f"kalends show {short_id(view.id)} tells it later",
        )
    return view.placed


def placed_words(placed: PlacedJob, zone: ZoneInfo) -> str:
    """Say when a job that was left to the broker starts: what was promised, or what is likely."""
    if placed.start_by:
        return f"starts by {format_time(placed.start_by, zone)}"
    return f"is likely to start by {format_time(placed.late_start, zone)}"
