"""``kalends admin policy``: switch the policy of a machine's queue."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.jobs import shown_jobs


@click.command(
    "policy",
    cls=ServerCommand,
    examples=("kalends admin policy sdsc/sp2 conservative", "kalends admin policy sdsc/sp2 easy"),
)
@click.argument("machine")
@click.argument("policy")
@pass_settings
def command(settings: Settings, machine: str, policy: str) -> None:
    """Switch the policy of a machine; its jobs keep their order.

    This lasts until you switch again, or change the machine in the configuration.
    """
    with shown_jobs.client_at(settings, machine) as client:
        load = client.set_policy(machine, policy)
    output.answer(settings, "machine", load, lambda: shown_jobs.machine_lines((load,)))
