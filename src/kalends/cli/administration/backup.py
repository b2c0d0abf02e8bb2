"""``kalends admin backup``: a copy of a store."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli import _output
from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand, Settings, pass_settings


@click.command("backup", cls=LocalCommand)
@click.argument("store", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("destination", type=click.Path(path_type=Path))
@pass_settings
def command(settings: Settings, store: Path, destination: Path) -> None:
    """Copy a store while its server runs.

    The copy is complete as of one moment, and is checked before this ends.
    """
    with server_parts():
        from kalends.stores.sqlite.maintenance import backup
    backup(store, destination)
    made = {"store": str(store), "destination": str(destination)}
    _output.answer(settings, "backup", made, lambda: [f"{store} is copied to {destination}"])
