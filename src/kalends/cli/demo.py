"""``kalends demo``: run sites and a broker on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli.console.commands import local_command
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings


@local_command("demo", "kalends demo --keep --directory kalends-demo", "kalends demo --postgres")
@click.option("--keep", is_flag=True, help="Keep the servers running until Ctrl-C.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="New directory for the files, or that of an earlier demo, to start its servers "
    "again.  [default: a temporary one, removed at the end]",
)
@click.option(
    "--slurm",
    is_flag=True,
    help="Run two Slurm clusters and an instrument; needs root and Slurm.",
)
@click.option(
    "--bids",
    is_flag=True,
    help="Run four sites that bid for jobs, one with Slurm if it can run here.",
)
@click.option(
    "--postgres",
    is_flag=True,
    help="Kill a database, a broker and a site while users book; needs a PostgreSQL server.",
)
def demo(
    settings: Settings, keep: bool, directory: Path | None, slurm: bool, bids: bool, postgres: bool
) -> None:  # fmt: skip
    """Run three sites and a broker on this machine.

    Fills a 128-node machine with jobs from a real log, books 64 of its nodes, a beamline and a
    visualisation room for the same two hours, explains what happened, and cancels the reservation.
    All servers stop at the end.

    With --slurm, two owners run clusters with Slurm, and a third has a beamline. All three are booked for
    the same time, and one program runs on both clusters in step.

    With --bids, four sites with different policies bid for jobs that name no machine. One of the sites is
    stopped, and its job goes elsewhere.

    With --postgres, a broker and a site have two processes each, and store in a PostgreSQL database with a
    synchronous standby. The primary, a process of the broker and one of the site are killed while users
    book. The demo shows how long bookings stopped, and that none is lost.
    """
    if slurm + bids + postgres > 1:
        raise click.UsageError("Give one of --slurm, --bids and --postgres.")
    with server_parts():
        from kalends.demo.runner import demo as run_demo
    run_demo(
        settings,
        keep=keep,
        directory=directory,
        which="slurm" if slurm else "bids" if bids else "postgres" if postgres else "",
    )
