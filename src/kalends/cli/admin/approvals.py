"""Requests that need an owner: ``kalends admin requests``, ``approve`` and ``decline``."""

from __future__ import annotations

import time
from typing import Final

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.settings import Settings
from kalends.contract.owner_calls import Approvals, ApprovalView
from kalends.contract.owner_texts import waiting_lines
from kalends.contract.slots_text import slots_text
from kalends.core.identifiers import short_id

REVISION_DIGITS_MAX: Final = 7


@server_command(
    "requests",
    "kalends admin requests",
    "kalends admin requests --broker http://127.0.0.1:7101 --json",
)
def requests(settings: Settings) -> None:
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
            waiting_lines(found, zone, int(time.time()), output.rows)
            if found
            else ["no request needs your approval"]
        ),
    )


@server_command(
    "approve",
    "kalends admin approve 5d0c1f2e",
    "kalends admin approve 5d0c1f2e --word 'bring your own tip'",
)
@click.argument("id")
@click.option(
    "--word", default="", metavar="TEXT", help="Comment for the user, e.g. 'bring your own tip'."
)
def approve(settings: Settings, id: str, word: str) -> None:
    """Approve a request that needs your approval.

    The request is reserved when all owners concerned have approved it. If your rules ask for two people,
    another one must approve it, too. An approved request can no longer be declined. Repeating the approval
    changes nothing. Calls the site at --broker and needs the scope admin.
    """
    named, revision = _id_and_revision(id)
    with settings.connect() as client:
        view = client.approve(named, word=word, revision=revision)
    output.answer(settings, "approval", view, lambda: _decided_lines(view))


@server_command(
    "decline",
    "kalends admin decline 5d0c1f2e --word 'the pump is being repaired'",
    "kalends admin decline 5d0c1f2e --word 'not on Fridays' --json",
)
@click.argument("id")
@click.option(
    "--word",
    required=True,
    metavar="TEXT",
    help="Comment for the user, e.g. 'the pump is being repaired'.",
)
def decline(settings: Settings, id: str, word: str) -> None:
    """Decline a request that needs your approval.

    Releases the slots of the request at every site, and sends your comment to the user. A declined
    request can no longer be approved; the user can send a new one. Repeating the decision changes nothing.
    Calls the site at --broker and needs the scope admin.
    """
    named, revision = _id_and_revision(id)
    with settings.connect() as client:
        view = client.decline(named, word=word, revision=revision)
    output.answer(settings, "approval", view, lambda: _decided_lines(view))


def _id_and_revision(named: str) -> tuple[str, int]:
    """Split ``5d0c1f2e/2`` into id and revision (default 1); raises a usage error."""
    id, _, number = named.partition("/")
    if number and not (number.isdecimal() and len(number) <= REVISION_DIGITS_MAX):
        raise click.UsageError("Write ID or ID/NUMBER, as shown by kalends admin requests.")
    return id, int(number or 1)


def _decided_lines(view: ApprovalView) -> list[str]:
    """Return the decision, and the slots that it is about, as lines."""
    said = f": {view.word}" if view.word else ""
    state: str = view.state
    if view.first and state == "pending":
        state = f"approved by {view.first}, and needs the approval of another person"
    return [
        f"{short_id(view.id)} of {view.user} is {state}{said}",
        f"  {slots_text(view.slots)}",
    ]
