"""Sharing: ``kalends share``, ``unshare``, ``give``, ``accept`` and ``decline``."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import all_of, server_command
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import request_options
from kalends.contract.sharing_calls import LinkView

_party_options = all_of(
    click.argument("id"),
    click.argument("party", metavar="[USER]", required=False, default=""),
    click.option(
        "--to-group", "members", default="", metavar="GROUP", help="A group in place of a user."
    ),
    click.option("--link", is_flag=True, help="A secret address for guests, in place of a user."),
)


@server_command("share", "kalends share 5d0c1f2e bob --may-change", "kalends share 5d0c1f2e --link")
@_party_options
@click.option("--may-change", is_flag=True, help="Also let them move, resize and cancel it.")
def share(
    settings: Settings, id: str, party: str, members: str, link: bool, may_change: bool
) -> None:
    """Share a request with a user, a group or guests.

    Participants look at the request. They change it in your name, if you say so. The address for guests shows
    resources and times alone, and is printed once.
    """
    _one_of(party, members, link)
    if link and may_change:
        raise click.UsageError("--link excludes --may-change: guests only look.")
    with settings.connect() as client:
        if link:
            made = client.add_link(id)
            output.answer(settings, "link", made, lambda: _link_lines(made))
            return
        view = client.share(id, party, group=members, may_change=may_change)
    request_options.answer(settings, view)


@server_command("unshare", "kalends unshare 5d0c1f2e bob", "kalends unshare 5d0c1f2e --link")
@_party_options
def unshare(settings: Settings, id: str, party: str, members: str, link: bool) -> None:
    """Stop sharing a request with a user, a group or guests."""
    _one_of(party, members, link)
    with settings.connect() as client:
        if link:
            gone = client.revoke_link(id)
            output.answer(settings, "link", gone, lambda: [f"the link to {gone.id} is revoked"])
            return
        view = client.unshare(id, party, group=members)
    request_options.answer(settings, view)


@server_command("give", "kalends give 5d0c1f2e bob", "kalends give 5d0c1f2e bob --days 2")
@click.argument("id")
@click.argument("heir", metavar="USER")
@click.option("--days", default=7, show_default=True, type=WholeNumber(1, 30), metavar="N",
              help="Days until the offer lapses.")  # fmt: skip
def give(settings: Settings, id: str, heir: str, days: int) -> None:
    """Offer a reservation to another user.

    The reservation stays yours until that user accepts it, and the owners agree.
    """
    with settings.connect() as client:
        view = client.give(id, heir, days=days)
    request_options.answer(settings, view)


@server_command("accept", "kalends accept 5d0c1f2e", "kalends accept 5d0c1f2e --wait 2m")
@click.argument("id")
@click.option("--key", default="", metavar="KEY",
              help="Idempotency key: a repeated call with the same key accepts once."
              "  [default: a new one]")  # fmt: skip
@request_options.wait_option
def accept(settings: Settings, id: str, key: str, wait: str) -> None:
    """Take over a reservation that is offered to you.

    The owners check it as a booking of yours. If one refuses, it stays with its user.
    """
    wait_s = request_options.wait_s(wait)
    with settings.connect() as client:
        full, key = client.full_id(id), key or client.new_key()
        output.say(f"{'accept':8} {full}", error=True)
        output.say(f"{'key':8} {key}", error=True)
        view = client.accept_offer(full, key=key, wait_s=wait_s)
    request_options.answer(settings, view)


@server_command("decline", "kalends decline 5d0c1f2e", "kalends decline 5d0c1f2e --json")
@click.argument("id")
def decline(settings: Settings, id: str) -> None:
    """Decline a reservation that is offered to you, or withdraw your offer."""
    with settings.connect() as client:
        view = client.decline_offer(id)
    request_options.answer(settings, view)


def _one_of(party: str, members: str, link: bool) -> None:
    if bool(party) + bool(members) + link != 1:
        raise click.UsageError("Give one of USER, --to-group and --link.")


def _link_lines(view: LinkView) -> list[str]:
    """Describe a new link; its address is shown only here."""
    return [
        f"guests see {view.id} at this address, with .json at its end as JSON",
        f"  {view.address}",
        f"it is not shown again; to revoke it: kalends unshare {view.id} --link",
    ]
