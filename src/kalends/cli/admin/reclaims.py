"""Periods that owners reclaim: ``kalends admin reclaim`` and ``reclaims``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.contract.owner_calls import ReclaimedReservation, Reclaims, ReclaimView
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import short_id
from kalends.core.times import format_time

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient


@server_command(
    "reclaim",
    "kalends admin reclaim sdsc/sp2 --units 8 --at 'fri 08:00' --for 4h --dry-run",
    "kalends admin reclaim --end 673ba8f8-d9a3-48be-9394-4080cc7feafa",
)
@click.argument("resource", required=False, default="")
@click.option("--at", metavar="TIME", default="", help="Start of the period, e.g. 'fri 08:00'.")
@click.option(
    "--for", "length", metavar="DURATION", default="", help="Length of the period, e.g. 4h."
)
@click.option(
    "--notice",
    metavar="DURATION",
    default=None,
    help="Notice, e.g. 1h: reservations that start sooner may stay.  [default: none]",
)
@click.option(
    "--units",
    type=WholeNumber(min=1),
    default=None,
    metavar="N",
    help="Units to reclaim, e.g. 8: the others can be booked.  [default: all]",
)
@click.option("--reason", metavar="TEXT", default="", help="Reason for the users, e.g. repair.")
@click.option(
    "--key",
    default="",
    metavar="KEY",
    help="Idempotency key: a repeated call with the same key counts once.  [default: a new one]",
)
@click.option(
    "--dry-run", is_flag=True, help="List the reservations that would be moved; change nothing."
)
@click.option("--end", metavar="KEY", default="", help="Key of the reclaim to withdraw.")
def reclaim(
    settings: Settings,
    resource: str,
    at: str,
    length: str,
    notice: str | None,
    units: int | None,
    reason: str,
    key: str,
    dry_run: bool,
    end: str,
) -> None:
    """Reclaim a period; move or cancel reservations.

    Closes the period to new claims. The broker of each reservation moves all its parts together to the
    nearest possible time, or cancels it, and reports the reason to its user. With --units, moves as few
    reservations as free these units. Calls the site at --broker and needs the scope admin.
    """
    if bool(end) == bool(resource and at and length):
        raise click.UsageError("Give RESOURCE, --at and --for; or --end KEY.")
    with settings.connect() as client:
        if end:
            view = _ended(client, end)
        else:
            key = key or client.new_key()
            if not dry_run:
                output.say(f"{'key':8} {key}", error=True)
            view = client.reclaim(
                resource, at=at, duration=length, notice=notice, reason=reason, units=units or 0,
                dry_run=dry_run, key=key,
            )  # fmt: skip
    zone = settings.time_zone()
    output.answer(settings, "reclaim", view, lambda: reclaim_lines(view, zone, dry_run=dry_run))


def _ended(client: SyncClient, key: str) -> ReclaimView:
    try:
        return client.end_reclaim(key)
    except (InvalidInput, NotFound) as error:
        error.where = "--end"
        raise


@server_command(
    "reclaims",
    "kalends admin reclaims",
    "kalends admin reclaims --broker http://127.0.0.1:7101 --json",
)
def reclaims(settings: Settings) -> None:
    """List the reclaimed periods.

    Shows the outcome for each reservation in a period: its new time, cancelled, still to be moved, or the
    reason why it stays. Calls the site at --broker and needs the scope admin.
    """
    with settings.connect() as client:
        found = client.reclaims()
    zone = settings.time_zone()
    output.answer(
        settings,
        "reclaims",
        Reclaims(reclaims=found),
        lambda: (
            [line for view in found for line in reclaim_lines(view, zone)]
            or ["no period is reclaimed"]
        ),
    )


def reclaim_lines(view: ReclaimView, zone: ZoneInfo, *, dry_run: bool = False) -> list[str]:
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
    return [*lines, *reservation_lines(view, zone, dry_run=dry_run)]


def reservation_lines(view: ReclaimView, zone: ZoneInfo, *, dry_run: bool) -> list[str]:
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
    return [f"  {line}" for line in output.rows(headings, rows, right=["UNITS"])]


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
