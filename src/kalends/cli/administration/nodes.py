"""``kalends admin nodes``: drain, fail or resume nodes of a machine."""

from __future__ import annotations

from typing import Literal

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.jobs import shown_jobs


@click.command(
    "nodes",
    cls=ServerCommand,
    examples=(
        "kalends admin nodes sdsc/sp2 drain 0-3 --reason 'new fans'",
        "kalends admin nodes sdsc/sp2 resume 0-3",
    ),
)
@click.argument("machine")
@click.argument("what", type=click.Choice(["drain", "fail", "resume"]))
@click.argument("nodes", metavar="NODES")
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown to users.")
@pass_settings
def command(
    settings: Settings,
    machine: str,
    what: Literal["drain", "fail", "resume"],
    nodes: str,
    reason: str,
) -> None:
    """Take nodes out of service, or put them back.

    Drained nodes finish their jobs. Jobs on failed nodes are ended, and run again on other nodes if their
    users allow it.
    """
    numbers = shown_jobs.numbers_in(nodes, "NODES")
    with shown_jobs.client_at(settings, machine) as client:
        load = client.serve_nodes(machine, what, numbers, detail=reason)
    output.answer(settings, "machine", load, lambda: shown_jobs.machine_lines((load,)))
