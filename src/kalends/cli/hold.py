"""``kalends hold``: hold slots until they are locked or released."""

from __future__ import annotations

from typing import Unpack

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.help_form import section
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import booking_options, request_options


@click.command(
    "hold",
    cls=ServerCommand,
    examples=(
        "kalends hold 'sdsc/sp2:64 + ncsa/cave' --for 2h --keep 30m",
        "kalends hold 'ncsa/cave' --for 1h --when-free --before 'now+2d'",
    ),
)
@click.argument("request")
@request_options.when_options
@section("Time")(
    "--keep", default="15m", show_default=True, metavar="DURATION", help="Lifetime of the hold."
)
@booking_options.options
@pass_settings
def command(
    settings: Settings, request: str, keep: str, **options: Unpack[booking_options.BookingOptions]
) -> int:
    """Hold slots until they are locked or released.

    A hold expires automatically after --keep. An older request may recall it sooner, which `kalends watch`
    reports. With --when-free, slots that are taken now are held when they come free.
    """
    return booking_options.run(
        settings, request, options,
        lambda asked, wait_s: asked.client.hold(
            asked.wanted, agent=asked.agent, patience=asked.patience, give_up_at=asked.give_up_at,
            keep=keep, key=asked.key, wait_s=wait_s,
        ),
    )  # fmt: skip
