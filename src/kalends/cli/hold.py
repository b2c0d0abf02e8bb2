"""``kalends hold``: all of a request for a while, to lock or release."""

from __future__ import annotations

from typing import Unpack

import click

from kalends.cli import _booking_options, _request_options
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("hold", cls=ServerCommand)
@click.argument("request")
@_request_options.when_options
@click.option(
    "--keep", default="15m", show_default=True, metavar="DURATION", help="How long the hold lives."
)
@_booking_options.options
@pass_settings
def command(
    settings: Settings, request: str, keep: str, **options: Unpack[_booking_options.Options]
) -> int:
    """Hold all of a request for a while, to lock or release.

    A hold that is neither locked nor released expires by itself. An older request may want it back
    sooner; `kalends watch` tells. With --when-free what is taken is held for you when it comes free.
    """
    return _booking_options.run(
        settings, request, options,
        lambda asked, wait_s: asked.client.hold(
            asked.wanted, agent=asked.agent, patience=asked.patience, give_up_at=asked.give_up_at,
            keep=keep, key=asked.key, wait_s=wait_s,
        ),
    )  # fmt: skip
