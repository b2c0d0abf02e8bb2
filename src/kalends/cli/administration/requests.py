"""``kalends admin requests``: list the requests that need the owner's approval."""

from __future__ import annotations

import time

import click

from kalends.cli.administration._approvals import approval_listing
from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.contract.approval_calls import Approvals


@click.command(
    "requests",
    cls=ServerCommand,
    examples=(
        "kalends admin requests",
        "kalends admin requests --broker http://127.0.0.1:7101 --json",
    ),
)
@pass_settings
def command(settings: Settings) -> None:
    """List the requests that need your approval.

    Shows the user, the slots, the waiting time and the deadline of each; the earliest deadline comes first.
    Calls the site at --broker and needs the scope admin.
    """
    with settings.connect() as client:
        found = client.approvals()
    zone = settings.time_zone()
    output.answer(
        settings,
        "approvals",
        Approvals(requests=found),
        lambda: (
            approval_listing(found, zone, int(time.time()))
            if found
            else ["no request needs your approval"]
        ),
    )
