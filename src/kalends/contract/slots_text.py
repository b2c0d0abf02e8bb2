"""Text for slots, for events and notices."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from kalends.contract.fields import Want
from kalends.core.durations import format_duration
from kalends.core.times import format_time


def slots_text(wants: Sequence[Want], zone: str | ZoneInfo = "UTC") -> str:
    """Return the slots of a request, with times in `zone`; one time if all parts have the same."""
    amounts = ", ".join(f"{want.resource}:{want.units}" for want in wants)
    times = {(want.start, want.end) for want in wants}
    if len(times) == 1:
        return f"{amounts} {_time(*times.pop(), zone)}"
    return "; ".join(
        f"{want.resource}:{want.units} {_time(want.start, want.end, zone)}" for want in wants
    )


def _time(start: int, end: int, zone: str | ZoneInfo) -> str:
    return f"from {format_time(start, zone)} for {format_duration(end - start)}"
