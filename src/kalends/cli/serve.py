"""``kalends serve``: run a site, a broker, a virtual site, or several."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand


@click.command(
    "serve",
    cls=LocalCommand,
    examples=("kalends serve broker.toml", "kalends serve site-sdsc.toml"),
)
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(config: Path) -> int:
    """Run a site, a broker, a virtual site, or several.

    CONFIG is a TOML file; `kalends admin config` prints a commented one. Prints the server's address and
    runs until Ctrl-C or SIGTERM.
    """
    with server_parts():
        from kalends.cli._server import main
    return main(config)
