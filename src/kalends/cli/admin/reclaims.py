"""Periods that owners reclaim: ``kalends admin reclaim`` and ``reclaims``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.contract.owner_calls import Reclaims, ReclaimView
from kalends.contract.owner_texts import reclaim_lines
from kalends.core.errors import InvalidInput, NotFound

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
    output.answer(
        settings, "reclaim", view, lambda: reclaim_lines(view, zone, output.rows, dry_run=dry_run)
    )


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
            [line for view in found for line in reclaim_lines(view, zone, output.rows)]
            or ["no period is reclaimed"]
        ),
    )
