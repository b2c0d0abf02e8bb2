"""Requests that wait for owners, and the periods that owners have taken back, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from kalends.contract.owner_calls import ApprovalView, ReclaimedReservation, ReclaimView
from kalends.contract.plain_tables import TableLayout
from kalends.core.durations import format_duration
from kalends.core.full_times import short_time
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


def approval_id(view: ApprovalView) -> str:
    """Return the id that an owner types, with a revision if the slots have changed."""
    number = f"/{view.revision}" if view.revision > 1 else ""
    return f"{short_id(view.id)}{number}"


def waiting_lines(
    views: Iterable[ApprovalView], zone: ZoneInfo, now_s: int, table: TableLayout
) -> list[str]:
    """Return a row for each slot of each request; the earliest deadline comes first."""
    return table(
        ("ID", "USER", "RESOURCE", "UNITS", f"FROM ({zone.key})", "TO", "WAITS", "UNTIL", "NOTE"),
        [
            (
                approval_id(view), view.user, slot.resource, slot.units, short_time(slot.start, zone),
                short_time(slot.end, zone), format_duration(max(now_s - view.since, 0)),
                short_time(view.until, zone), _note_of(view),
            )
            for view in views
            for slot in view.slots
        ],
        right=("UNITS",),
    )  # fmt: skip


def _note_of(view: ApprovalView) -> str:
    changed = f"a change of {short_id(view.reservation)}" if view.change else ""
    noted = f'"{view.note}"' if view.note else ""
    first = f"approved by {view.first}, needs another" if view.first else ""
    return "; ".join(each for each in (changed, noted, first) if each)


def reclaim_lines(
    view: ReclaimView, zone: ZoneInfo, table: TableLayout, *, dry_run: bool = False
) -> list[str]:
    """Describe the period, and the outcome of each reservation: its new time, or why it must move or stays.

    With `dry_run`, the expected outcome.
    """
    length = format_duration(view.end - view.start)
    units = f":{view.units}" if view.units else ""
    lines = [f"{view.resource}{units} from {format_time(view.start, zone)} for {length}"]
    key = "" if dry_run else view.closure or view.key
    facts = [("reason", view.reason), ("closure" if view.closure else "key", key)]
    if view.beside:
        stay = "1 other reservation fits, and stays" if view.beside == 1 else ""
        facts.append(("beside", stay or f"{view.beside} other reservations fit, and stay"))
    if not view.exact:
        facts.append(("fewest", "perhaps not: there are too many reservations to try every choice"))
    lines += [f"  {name:8} {text}" for name, text in facts if text]
    return [*lines, *reservation_lines(view, zone, table, dry_run=dry_run)]


def reservation_lines(
    view: ReclaimView, zone: ZoneInfo, table: TableLayout, *, dry_run: bool
) -> list[str]:
    """Return a row for each reservation in the period, with its outcome."""
    if not view.reservations:
        return []
    rows = [
        (
            short_id(each.id),
            each.user,
            each.units or "",
            short_time(each.start, zone),
            short_time(each.end, zone),
            _outcome(each, view, zone, dry_run),
        )
        for each in view.reservations
    ]
    headings = ("RESERVATION", "USER", "UNITS", f"FROM ({zone.key})", "TO", "OUTCOME")
    return [f"  {line}" for line in table(headings, rows, right=["UNITS"])]


def _outcome(each: ReclaimedReservation, view: ReclaimView, zone: ZoneInfo, dry_run: bool) -> str:
    match each.state:
        case "moved":
            where = f" on {each.to_resource}" if each.to_resource != view.resource else ""
            return f"moved to {short_time(each.to_start, zone)}{where}"
        case "waiting":
            done = "cancelled" if view.standing == "cancel" else "moved"
            return f"{'would be' if dry_run else 'waits to be'} {done}{_missing(each, view, zone)}"
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
