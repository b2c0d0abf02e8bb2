"""``kalends admin reclaim``: an owner takes a time back."""

from __future__ import annotations

import click

from kalends.cli import _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.cli.administration._reclaims import reclaim_lines


@click.command("reclaim", cls=ServerCommand)
@click.argument("resource", required=False, default="")
@click.option("--at", metavar="TIME", default="", help="When the time begins.")
@click.option("--for", "length", metavar="DURATION", default="", help="How long it is.")
@click.option(
    "--notice",
    metavar="DURATION",
    default=None,
    help="Reservations that begin within it from now may stay.",
)
@click.option("--reason", metavar="TEXT", default="", help="What their users are told.")
@click.option(
    "--key",
    default="",
    metavar="KEY",
    help="Your own key for this call: repeating it with the same key counts once.",
)
@click.option("--end", metavar="KEY", default="", help="Withdraw the reclaim of this key instead.")
@pass_settings
def command(
    settings: Settings,
    resource: str,
    at: str,
    length: str,
    notice: str | None,
    reason: str,
    key: str,
    end: str,
) -> None:
    """Take a time back: reservations there are moved or cancelled.

    From now on nothing new is booked there. The broker of each reservation moves all its parts
    together to the nearest time that suits, or cancels it, and tells its user why. Asks the site at
    --broker; needs the scope admin.
    """
    if bool(end) == bool(resource and at and length):
        raise click.UsageError("Give RESOURCE, --at and --for; or --end KEY.")
    with settings.connect() as client:
        if end:
            view = client.end_reclaim(end)
        else:
            key = key or client.new_key()
            _output.say(f"{'key':8} {key}", error=True)
            view = client.reclaim(
                resource, at=at, duration=length, notice=notice, reason=reason, key=key
            )
    zone = settings.time_zone()
    _output.answer(settings, "reclaim", view, lambda: reclaim_lines(view, zone))
