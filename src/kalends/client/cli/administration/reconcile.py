"""``kalends admin reconcile``: accept a restored store."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.client.cli import _output
from kalends.client.cli._server_parts import server_parts
from kalends.client.cli._settings import LocalCommand, Settings, pass_settings


@click.command("reconcile", cls=LocalCommand)
@click.argument("store", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@pass_settings
def command(settings: Settings, store: Path) -> int:
    """Accept a restored store as the truth.

    A store that was brought back from a backup may have forgotten promises made since, so a server
    refuses to start on it. Compare it first with the brokers (`kalends admin audit` of each), and
    make good what was promised after the backup; then call this once, while no server uses the store.
    """
    with server_parts():
        from kalends.serving.maintenance import reconcile
    epoch = reconcile(store)
    report = {"store": str(store), "epoch": epoch}
    _output.answer(settings, "reconcile", report, lambda: [f"{store} is accepted, epoch {epoch}"])
    return 0
