"""``kalends demo``: run three sites and a broker on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand, Settings, pass_settings


@click.command(
    "demo",
    cls=LocalCommand,
    examples=("kalends demo", "kalends demo --keep --directory kalends-demo"),
)
@click.option("--keep", is_flag=True, help="Keep the servers running until Ctrl-C.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="New directory for the files, which stay there.  [default: a temporary one]",
)
@pass_settings
def command(settings: Settings, keep: bool, directory: Path | None) -> None:
    """Run three sites and a broker on this machine.

    Fills a 128-node machine with jobs from a real log, books 64 of its nodes, a beamline and a
    visualisation room for the same two hours, explains what happened, and cancels the reservation.
    All servers stop at the end.
    """
    with server_parts():
        from kalends.demo.runner import demo
    demo(settings, keep=keep, directory=directory)
