"""``kalends notify remove``: remove an address for notices."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "remove",
    cls=ServerCommand,
    examples=("kalends notify remove", "kalends notify remove ann@uni.example"),
)
@click.argument("to", default="", metavar="[ADDRESS|URL]")
@pass_settings
def command(settings: Settings, to: str) -> None:
    """Remove an address for notices.

    Drops notices for this address that were not sent yet.
    """
    with settings.connect() as client:
        view = client.remove_notice_address(to)
    output.answer(settings, "notice", view, lambda: [f"removed {view.to}"])
