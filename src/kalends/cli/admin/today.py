"""An owner's day: ``kalends today``."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

import click

from kalends.cli.admin.approvals import waiting_lines
from kalends.cli.admin.reclaims import reclaim_lines
from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.settings import Settings
from kalends.cli.console.site_calls import SITE_HELP, site_client
from kalends.contract.day_calls import DayChange, DaySlot, DayView
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


@server_command("today", "kalends today", "kalends today --site sdsc --day tomorrow --json")
@click.option(
    "--site", metavar="SITE", default="", help=f"{SITE_HELP}  [default: the one at --broker]"
)
@click.option("--day", metavar="DAY", default="", help="Another day, e.g. 2027-03-01 or tomorrow.")
def today(settings: Settings, site: str, day: str) -> None:
    """Show an owner's day: who comes, what waits, what changed.

    Times are in the zone of the site's resources, or in --zone. Calls the site and needs the scope admin.
    """
    zone = settings.given.get("zone", "")
    with site_client(settings, site) if site else settings.connect() as client:
        view = client.today(day=day, zone=zone)
    output.answer(settings, "day", view, lambda: day_lines(view))


def day_lines(view: DayView) -> list[str]:
    """Describe the day, a paragraph for each kind of thing; only those that there are."""
    zone = ZoneInfo(view.zone)
    lines = [f"{view.site}, {format_time(view.start, zone)[:14]} ({view.zone})"]
    count = len(view.comes)
    title = f"{count or 'no'} reservation{'s' * (count != 1)}"
    lines += _part(title, _comes(view, zone))
    waiting = waiting_lines(view.waiting, zone, view.now) if view.waiting else []
    lines += _part("waits for your approval", waiting)
    lines += _part("moved or cancelled", _changed(view.changed, zone))
    lines += _part("did not come", _absent(view, zone))
    lines += _part(
        "reclaimed", [line for each in view.reclaims for line in reclaim_lines(each, zone)]
    )
    lines += _part("needs a hand", view.problems)
    since = short_time(view.week_since, zone)
    lines += _part(f"used this week, since {since}", _used(view))
    if view.more:
        lines.append("there is more than this list can hold: see kalends calendar")
    return lines


def _part(title: str, lines: Iterable[str]) -> list[str]:
    told = [f"  {line}" for line in lines]
    return ["", title, *told] if told or title.startswith("no ") else []


def _comes(view: DayView, zone: ZoneInfo) -> list[str]:
    if not view.comes:
        return []
    return rows(
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


def _absent(view: DayView, zone: ZoneInfo) -> list[str]:
    body = [
        (
            short_time(one.start, zone), short_time(one.end, zone), each.resource, one.user,
            short_id(one.id), view.no_shows.get(one.user, 0), each.reason,
        )
        for each in view.absent
        for one in each.reservations
    ]  # fmt: skip
    headings = ("FROM", "TO", "RESOURCE", "USER", "ID", "IN 4 WEEKS", "REASON")
    return rows(headings, body, right=("IN 4 WEEKS",)) if body else []


def _changed(changes: Iterable[DayChange], zone: ZoneInfo) -> list[str]:
    body = [
        (
            short_time(each.start, zone), short_time(each.end, zone), each.resource, each.units,
            each.user, short_id(each.id), _outcome(each, zone), each.contact or "-",
        )
        for each in changes
    ]  # fmt: skip
    headings = ("WAS FROM", "TO", "RESOURCE", "UNITS", "USER", "ID", "OUTCOME", "CONTACT")
    return rows(headings, body, right=("UNITS",)) if body else []


def _outcome(each: DayChange, zone: ZoneInfo) -> str:
    if each.made == "cancelled" or not each.to_start:
        return each.made
    where = f" on {each.to_resource}" if each.to_resource != each.resource else ""
    start, end = short_time(each.to_start, zone), short_time(each.to_end, zone)
    return f"now {start} to {end}{where}"


def _used(view: DayView) -> list[str]:
    passed_s = max(1, view.now - view.week_since)
    body = [
        (
            each.resource, f"{each.unit_s / 3_600:.1f}",
            f"{each.unit_s / (each.capacity * passed_s):.0%}", each.reservations,
        )
        for each in view.used
    ]  # fmt: skip
    headings = ("RESOURCE", "UNIT-HOURS", "OF ALL", "RESERVATIONS")
    return rows(headings, body, right=headings[1:]) if body else []
