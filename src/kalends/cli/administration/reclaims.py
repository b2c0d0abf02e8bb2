"""``kalends admin reclaims``: list the reclaimed periods."""

from __future__ import annotations

import click

from kalends.cli.administration._reclaims import reclaim_lines
from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.contract.reclaim_calls import Reclaims


@click.command(
    "reclaims",
    cls=ServerCommand,
    examples=(
        "kalends admin reclaims",
        "kalends admin reclaims --broker http://127.0.0.1:7101 --json",
    ),
)
@pass_settings
def command(settings: Settings) -> None:
    """List the reclaimed periods.

    Shows the outcome for each reservation in a period: its new time, cancelled, still to be moved, or the
    reason why it stays. Calls the site at --broker and needs the scope admin.
    """
    with settings.connect() as client:
        found = client.reclaims()
    zone = settings.time_zone()
    output.answer(
        settings,
        "reclaims",
        Reclaims(reclaims=found),
        lambda: (
            [line for view in found for line in reclaim_lines(view, zone)]
            or ["no period is reclaimed"]
        ),
    )
