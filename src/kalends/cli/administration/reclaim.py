"""``kalends admin reclaim``: reclaim a period; move or cancel reservations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kalends.cli.administration._reclaims import reclaim_lines
from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient
    from kalends.contract.reclaim_calls import ReclaimView


@click.command(
    "reclaim",
    cls=ServerCommand,
    examples=(
        "kalends admin reclaim sdsc/sp2 --units 8 --at 'fri 08:00' --for 4h --dry-run",
        "kalends admin reclaim --end 673ba8f8-d9a3-48be-9394-4080cc7feafa",
    ),
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
@pass_settings
def command(
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
