"""``kalends demo``: a facility of three owners on this machine, and one co-allocation."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand, Settings, pass_settings


@click.command("demo", cls=LocalCommand)
@click.option("--keep", is_flag=True, help="Keep the servers running until Ctrl-C.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="A new directory for its files, which stay there.  [default: a temporary one]",
)
@pass_settings
def command(settings: Settings, keep: bool, directory: Path | None) -> None:
    """Try it all here: three sites, a broker and sample bookings.

    Starts four servers on this machine, fills a 128-node machine with the jobs of a real one, books
    64 of its nodes, a beamline and a room for visualisation for the same two hours, shows what
    happened, and cancels it again. Nothing is left running.
    """
    with server_parts():
        from kalends.demo.runner import demo
    demo(settings, keep=keep, directory=directory)
