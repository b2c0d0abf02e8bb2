"""Reclaims as lines of text."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.contract.calls import ReclaimView
from kalends.core.durations import format_duration
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


def reclaim_lines(view: ReclaimView, zone: ZoneInfo) -> list[str]:
    """Describe the period and the reservations that wait, have gone, or may stay."""
    length = format_duration(view.end - view.start)
    lines = [f"{view.resource} from {format_time(view.start, zone)} for {length}"]
    groups = (("waiting", view.waiting), ("gone", view.gone), ("stay", view.spared))
    facts = [("reason", view.reason), ("key", view.key)]
    facts += [(name, " ".join(map(short_id, rids))) for name, rids in groups]
    return lines + [f"  {name:8} {text}" for name, text in facts if text]
