"""``kalends book``: all of a request, or nothing."""

from __future__ import annotations

from typing import Unpack

import click

from kalends.cli import _booking_options, _copies, _request_options
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.client.request_calls import COPIES_MAX


@click.command("book", cls=ServerCommand)
@click.argument("request")
@_request_options.when_options
@_booking_options.options
@click.option("--copies", type=click.IntRange(1, COPIES_MAX), default=1, metavar="N",
              help="Book it N times over, each copy by itself, under the keys KEY-1 to KEY-N.")  # fmt: skip
@pass_settings
def command(
    settings: Settings, request: str, copies: int, **options: Unpack[_booking_options.Options]
) -> int:
    """Book all of a request, or nothing.

    What was understood is said first, with the key of this call. When the answer is lost, `kalends
    show --key KEY` tells what became of it; the same command with `--key KEY` never books twice.
    While others hold what is wanted it waits, for a minute if nothing else is said; Ctrl-C leaves it
    waiting. An agent prefers among the slots that there are; when it fails, sites choose the earliest.
    """
    if copies > 1:
        return _copies.run(settings, request, options, copies)
    return _booking_options.run(
        settings, request, options,
        lambda asked, wait_s: asked.client.book(
            asked.wanted, agent=asked.agent, patience=asked.patience, give_up_at=asked.give_up_at,
            key=asked.key, wait_s=wait_s,
        ),
    )  # fmt: skip
