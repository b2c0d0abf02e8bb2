"""``kalends admin approve``: approve a request that waits for your approval."""

from __future__ import annotations

import click

from kalends.cli.administration._approvals import decided_lines, id_and_revision
from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "approve",
    cls=ServerCommand,
    examples=(
        "kalends admin approve 5d0c1f2e",
        "kalends admin approve 5d0c1f2e --word 'bring your own tip'",
    ),
)
@click.argument("id")
@click.option(
    "--word", default="", metavar="TEXT", help="Comment for the user, e.g. 'bring your own tip'."
)
@pass_settings
def command(settings: Settings, id: str, word: str) -> None:
    """Approve a request that needs your approval.

    The request is reserved when all owners concerned have approved it. Repeating the approval changes
    nothing. An approved request can no longer be declined. Calls the site at --broker and needs the scope
    admin.
    """
    named, revision = id_and_revision(id)
    with settings.connect() as client:
        view = client.approve(named, word=word, revision=revision)
    output.answer(settings, "approval", view, lambda: decided_lines(view))
