"""``kalends admin backup``: copy a store while its server runs."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli.console import output
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "backup",
    cls=LocalCommand,
    examples=(
        "kalends admin backup site.sqlite site-copy.sqlite",
        "kalends admin backup broker.sqlite broker-copy.sqlite --json",
    ),
)
@click.argument("store", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("destination", type=click.Path(path_type=Path))
@pass_settings
def command(settings: Settings, store: Path, destination: Path) -> None:
    """Copy a store while its server runs.

    The copy has the state of one moment and is checked before the command ends.
    """
    with server_parts():
        from kalends.cli.administration._store_kinds import KINDS
        from kalends.stores.sqlite.maintenance import backup
    backup(store, destination, KINDS)
    made = {"store": str(store), "destination": str(destination)}
    output.answer(settings, "backup", made, lambda: [f"copied {store} to {destination}"])
