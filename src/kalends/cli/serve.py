"""``kalends serve``: a site, a broker or both."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand


@click.command("serve", cls=LocalCommand)
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(config: Path) -> int:
    """Run a site, a broker or both from a configuration file.

    Prints the address it listens at and serves until it is told to stop (Ctrl-C, SIGTERM). `kalends
    admin config` prints a file to begin with.
    """
    with server_parts():
        from kalends.cli._server import main
    return main(config)
