"""An owner's day as text: what ``kalends today`` prints, and what a mail has each morning."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from kalends.contract.day_calls import DayChange, DaySlot, DayView
from kalends.contract.owner_texts import reclaim_lines, waiting_lines
from kalends.contract.plain_tables import TableLayout, aligned
from kalends.core.full_times import short_time
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


def day_lines(view: DayView, table: TableLayout = aligned) -> list[str]:
    """Describe the day, a paragraph for each kind of thing; only those that there are."""
    zone = ZoneInfo(view.zone)
    lines = [f"{view.site}, {format_time(view.start, zone)[:14]} ({view.zone})"]
    lines += _part(_title(len(view.comes), "reservation"), _comes(view, zone, table))
    waiting = waiting_lines(view.waiting, zone, view.now, table) if view.waiting else []
    lines += _part("waits for your approval", waiting)
    lines += _part("moved or cancelled", _changed(view.changed, zone, table))
    lines += _part("did not come", _absent(view, zone, table))
    lines += _part(
        "reclaimed", [line for each in view.reclaims for line in reclaim_lines(each, zone, table)]
    )
    lines += _part("needs a hand", view.problems)
    since = short_time(view.week_since, zone)
    lines += _part(f"used this week, since {since}", _used(view, table))
    if view.more:
        lines.append("there is more than this list can hold: see kalends calendar")
    return lines


def _title(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'s' * (count != 1)}"


def _part(title: str, lines: Iterable[str]) -> list[str]:
    told = [f"  {line}" for line in lines]
    return ["", title, *told] if told or title.startswith("no ") else []


def _comes(view: DayView, zone: ZoneInfo, table: TableLayout) -> list[str]:
    if not view.comes:
        return []
    return table(
        ("FROM", "TO", "RESOURCE", "UNITS", "USER", "ID", "STATE", "NOTE", "CONTACT"),
        [
            (
                short_time(each.start, zone), short_time(each.end, zone), each.resource, each.units,
                each.user, short_id(each.id), _state(each, zone), each.note or "-",
                each.contact or "-",
            )
            for each in view.comes
        ],
        right=("UNITS",),
    )  # fmt: skip


def _state(each: DaySlot, zone: ZoneInfo) -> str:
    return f"came {format_time(each.came_at, zone)[15:20]}" if each.came_at else each.state


def _absent(view: DayView, zone: ZoneInfo, table: TableLayout) -> list[str]:
    body = [
        (
            short_time(one.start, zone), short_time(one.end, zone), each.resource, one.user,
            short_id(one.id), view.no_shows.get(one.user, 0), each.reason,
        )
        for each in view.absent
        for one in each.reservations
    ]  # fmt: skip
    headings = ("FROM", "TO", "RESOURCE", "USER", "ID", "IN 4 WEEKS", "REASON")
    return table(headings, body, right=("IN 4 WEEKS",)) if body else []


def _changed(changes: Iterable[DayChange], zone: ZoneInfo, table: TableLayout) -> list[str]:
    body = [
        (
            short_time(each.start, zone), short_time(each.end, zone), each.resource, each.units,
            each.user, short_id(each.id), _outcome(each, zone), each.contact or "-",
        )
        for each in changes
    ]  # fmt: skip
    headings = ("WAS FROM", "TO", "RESOURCE", "UNITS", "USER", "ID", "OUTCOME", "CONTACT")
    return table(headings, body, right=("UNITS",)) if body else []


def _outcome(each: DayChange, zone: ZoneInfo) -> str:
    if each.made == "cancelled" or not each.to_start:
        return each.made
    where = f" on {each.to_resource}" if each.to_resource != each.resource else ""
    start, end = short_time(each.to_start, zone), short_time(each.to_end, zone)
    return f"now {start} to {end}{where}"


def _used(view: DayView, table: TableLayout) -> list[str]:
    passed_s = max(1, view.now - view.week_since)
    body = [
        (
            each.resource, f"{each.unit_s / 3_600:.1f}",
            f"{each.unit_s / (each.capacity * passed_s):.0%}", each.reservations,
        )
        for each in view.used
    ]  # fmt: skip
    headings = ("RESOURCE", "UNIT-HOURS", "OF ALL", "RESERVATIONS")
    return table(headings, body, right=headings[1:]) if body else []
