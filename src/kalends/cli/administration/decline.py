"""``kalends admin decline``: decline a request that waits for your approval."""

from __future__ import annotations

import click

from kalends.cli.administration._approvals import decided_lines, id_and_revision
from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "decline",
    cls=ServerCommand,
    examples=(
        "kalends admin decline 5d0c1f2e --word 'the pump is being repaired'",
        "kalends admin decline 5d0c1f2e --word 'not on Fridays' --json",
    ),
)
@click.argument("id")
@click.option(
    "--word",
    required=True,
    metavar="TEXT",
    help="Comment for the user, e.g. 'the pump is being repaired'.",
)
@pass_settings
def command(settings: Settings, id: str, word: str) -> None:
    """Decline a request that needs your approval.

    Releases the slots of the request at every site, and sends your comment to the user. Repeating the
    decision changes nothing. A declined request can no longer be approved; the user can send a new one.
    Calls the site at --broker and needs the scope admin.
    """
    named, revision = id_and_revision(id)
    with settings.connect() as client:
        view = client.decline(named, word=word, revision=revision)
    output.answer(settings, "approval", view, lambda: decided_lines(view))
