"""Reclaims as lines of text."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.cli import _output
from kalends.cli._short_time import short_time
from kalends.contract.calls import ReclaimedReservation, ReclaimView
from kalends.core.durations import format_duration
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


def reclaim_lines(view: ReclaimView, zone: ZoneInfo) -> list[str]:
    """Describe the period, and what becomes of each reservation: where it went, or why it goes or stays."""
    length = format_duration(view.end - view.start)
    units = f":{view.units}" if view.units else ""
    lines = [f"{view.resource}{units} from {format_time(view.start, zone)} for {length}"]
    facts = [("reason", view.reason), ("key", view.key)]
    if view.beside:
        facts.append(("beside", f"{view.beside} others have room there, and stay"))
    if not view.exact:
        facts.append(("fewest", "perhaps not: there are too many to try every choice"))
    lines += [f"  {name:8} {text}" for name, text in facts if text]
    return [*lines, *(_reservations(view, zone) or _named(view))]


def _reservations(view: ReclaimView, zone: ZoneInfo) -> list[str]:
    if not view.reservations:
        return []
    rows = [
        (
            short_id(each.id),
            each.user,
            each.units or "",
            short_time(each.start, zone),
            short_time(each.end, zone),
            _what(each, view.resource, zone),
        )
        for each in view.reservations
    ]
    headings = ("RESERVATION", "USER", "UNITS", f"FROM ({zone.key})", "TO", "WHAT BECOMES OF IT")
    return [f"  {line}" for line in _output.rows(headings, rows, right=["UNITS"])]


def _named(view: ReclaimView) -> list[str]:
    """A site of an older version says no more than this."""
    groups = (("waiting", view.waiting), ("gone", view.gone), ("stay", view.spared))
    return [f"  {name:8} {' '.join(map(short_id, rids))}" for name, rids in groups if rids]


def _what(each: ReclaimedReservation, resource: str, zone: ZoneInfo) -> str:
    match each.state:
        case "moved":
            where = f" on {each.to_resource}" if each.to_resource != resource else ""
            return f"moved to {short_time(each.to_start, zone)}{where}"
        case "waiting":
            return f"waits to be moved{': ' * bool(each.why)}{each.why}"
        case "stays":
            return f"stays: {each.why}"
        case "gone":
            return "moved, or cancelled"
        case _:
            return each.state
