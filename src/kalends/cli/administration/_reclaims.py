"""Reclaims as lines of text."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.cli.console import output
from kalends.cli.console.short_time import short_time
from kalends.contract.reclaim_calls import ReclaimedReservation, ReclaimView
from kalends.core.durations import format_duration
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


def reclaim_lines(view: ReclaimView, zone: ZoneInfo, *, dry_run: bool = False) -> list[str]:
    """Describe the period, and the outcome of each reservation: its new time, or why it must move or stays.

    With `dry_run`, the expected outcome.
    """
    length = format_duration(view.end - view.start)
    units = f":{view.units}" if view.units else ""
    lines = [f"{view.resource}{units} from {format_time(view.start, zone)} for {length}"]
    facts = [("reason", view.reason), ("key", "" if dry_run else view.key)]
    if view.beside:
        stay = "1 other reservation fits, and stays" if view.beside == 1 else ""
        facts.append(("beside", stay or f"{view.beside} other reservations fit, and stay"))
    if not view.exact:
        facts.append(("fewest", "perhaps not: there are too many reservations to try every choice"))
    lines += [f"  {name:8} {text}" for name, text in facts if text]
    return [*lines, *(_reservations(view, zone, dry_run) or _named(view))]


def _reservations(view: ReclaimView, zone: ZoneInfo, dry_run: bool) -> list[str]:
    if not view.reservations:
        return []
    rows = [
        (
            short_id(each.id),
            each.user,
            each.units or "",
            short_time(each.start, zone),
            short_time(each.end, zone),
            _what(each, view, zone, dry_run),
        )
        for each in view.reservations
    ]
    headings = ("RESERVATION", "USER", "UNITS", f"FROM ({zone.key})", "TO", "OUTCOME")
    return [f"  {line}" for line in output.rows(headings, rows, right=["UNITS"])]


def _named(view: ReclaimView) -> list[str]:
    """Return the ids by outcome, all that a site of an older version sends."""
    groups = (("waiting", view.waiting), ("gone", view.gone), ("stay", view.spared))
    return [f"  {name:8} {' '.join(map(short_id, rids))}" for name, rids in groups if rids]


def _what(each: ReclaimedReservation, view: ReclaimView, zone: ZoneInfo, dry_run: bool) -> str:
    match each.state:
        case "moved":
            where = f" on {each.to_resource}" if each.to_resource != view.resource else ""
            return f"moved to {short_time(each.to_start, zone)}{where}"
        case "waiting":
            return f"{'would be' if dry_run else 'waits to be'} moved{_missing(each, view, zone)}"
        case "stays":
            return f"{'would stay' if dry_run else 'stays'}: {each.why}"
        case "gone":
            return "moved, or cancelled"
        case _:
            return each.state


def _missing(each: ReclaimedReservation, view: ReclaimView, zone: ZoneInfo) -> str:
    """Return how many units the reclaim still lacks during this reservation, and when."""
    for start, end, units in view.lacking:
        if start < each.end and each.start < end:
            missing = "1 unit is missing" if units == 1 else f"{units} units are missing"
            return f": {missing} from {short_time(start, zone)} to {short_time(end, zone)}"
    return ""
