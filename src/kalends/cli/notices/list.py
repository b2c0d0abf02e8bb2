"""``kalends notify list``: list where you are told."""

from __future__ import annotations

import click

from kalends.cli import _notice_words, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command(
    "list",
    cls=ServerCommand,
    examples=("kalends notify list", "kalends notify list --json"),
)
@pass_settings
def command(settings: Settings) -> None:
    """List where you are told."""
    zone = settings.time_zone()
    with settings.connect() as client:
        found = client.notice_addresses()
    _output.answer(settings, "notices", found, lambda: _notice_words.address_listing(found, zone))
