"""``kalends notify list``: list the addresses for your notices."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import notice_words


@click.command(
    "list",
    cls=ServerCommand,
    examples=("kalends notify list", "kalends notify list --json"),
)
@pass_settings
def command(settings: Settings) -> None:
    """List the addresses for your notices."""
    zone = settings.time_zone()
    with settings.connect() as client:
        found = client.notice_addresses()
    output.answer(settings, "notices", found, lambda: notice_words.address_listing(found, zone))
