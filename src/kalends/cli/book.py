"""``kalends book``: book every part of a request, or nothing."""

from __future__ import annotations

from typing import Unpack

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.help_form import section
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import booking_options, independent_copies, request_options
from kalends.client.methods.request_calls import COPIES_MAX


@click.command(
    "book",
    cls=ServerCommand,
    examples=(
        "kalends book 'sdsc/sp2:64 + ncsa/cave' --for 2h --at 'tomorrow 09:00'",
        "kalends book 'sdsc/sp2:16' --for 1h --prefer mornings --until 'now+1h'",
    ),
)
@click.argument("request")
@request_options.when_options
@booking_options.options
@section("Call")("--copies", type=WholeNumber(1, COPIES_MAX), default=1, show_default=True, metavar="N",
                 help="Number of copies, booked one by one under the keys KEY-1 to KEY-N.")  # fmt: skip
@pass_settings
def command(
    settings: Settings,
    request: str,
    copies: int,
    **options: Unpack[booking_options.BookingOptions],
) -> int:
    """Book every part of a request, or nothing.

    Waits up to a minute for slots that others hold; Ctrl-C leaves the request waiting. The request as
    understood and the key of the call are printed first. If the answer is lost, `kalends show --key
    KEY` reports the outcome, and the same command with `--key KEY` never books twice. If an agent
    fails, its site chooses the earliest slots.
    """
    if copies > 1:
        return independent_copies.run(settings, request, options, copies)
    return booking_options.run(
        settings, request, options,
        lambda asked, wait_s: asked.client.book(
            asked.wanted, agent=asked.agent, patience=asked.patience, give_up_at=asked.give_up_at,
            key=asked.key, wait_s=wait_s,
        ),
    )  # fmt: skip
