"""``kalends admin reclaims``: which times an owner has taken back."""

from __future__ import annotations

import click

from kalends.cli import _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.cli.administration._reclaims import reclaim_lines
from kalends.contract.calls import Reclaims


@click.command("reclaims", cls=ServerCommand)
@pass_settings
def command(settings: Settings) -> None:
    """List the times that were taken back.

    With the reservations that still stand there (waiting), those that were moved or cancelled (gone),
    and those that began too soon to be moved (stay). Asks the site at --broker; needs the scope admin.
    """
    with settings.connect() as client:
        found = client.reclaims()
    zone = settings.time_zone()
    _output.answer(
        settings,
        "reclaims",
        Reclaims(reclaims=found),
        lambda: [line for view in found for line in reclaim_lines(view, zone)],
    )
