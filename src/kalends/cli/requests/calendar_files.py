"""Reservations as calendar files: ``kalends ics``, and the feeds of ``kalends feed``."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.settings import Settings
from kalends.contract.calendar_files import entries_of
from kalends.contract.feed_calls import FeedView
from kalends.core.errors import Conflict


@server_command("ics", "kalends ics 5d0c1f2e > run.ics", "kalends ics 5d0c1f2e 8a41d7c0 > runs.ics")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def ics(settings: Settings, ids: tuple[str, ...]) -> None:
    """Print reservations as a calendar file.

    Calendar programs import the file (RFC 5545, iCalendar). Importing it again after a change replaces the
    event. Held slots are tentative, and cancelled reservations are marked as cancelled.
    """
    with settings.connect() as client:
        views = [client.show(each) for each in dict.fromkeys(ids)]
        for view in views:
            if not entries_of(view, client.settings.now_s()):
                raise Conflict(
                    f"request {view.id} is {view.state}, and has no time to put into a calendar",
                    where="id",
                    remedy="give reservations or holds: kalends list",
                )
        text = client.ics(views)
    say_calendar(settings, text)


def say_calendar(settings: Settings, text: str) -> None:
    """Print a calendar file, with the line ends that the format asks for, unless ``--json`` is given."""
    if settings.json:
        output.print_json("calendar-file", text)
    else:
        output.say_file(text)


@server_command("list", "kalends feed list", "kalends feed list --json")
def list_feeds(settings: Settings) -> None:
    """List your calendar feeds.

    Their addresses are not stored, so they cannot be shown again.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        found = client.feeds()
    table = [(each.name, short_time(each.added_at, zone)) for each in found]
    output.answer(
        settings, "feeds", found, lambda: rows(("NAME", f"ADDRESS SINCE ({zone.key})"), table)
    )


@server_command("add", "kalends feed add", "kalends feed add phone")
@click.argument("name", default="reservations")
def add_feed(settings: Settings, name: str) -> None:
    """Make a calendar feed of your reservations.

    Prints its secret address once. Calendar programs that subscribe to it show your reservations, and every
    change of them. If you have a feed NAME, it gets a new address, and the old one leads nowhere.
    """
    with settings.connect() as client:
        view = client.add_feed(name)
    output.answer(settings, "feed", view, lambda: _added_feed(view))


@server_command("revoke", "kalends feed revoke", "kalends feed revoke phone")
@click.argument("name", default="reservations")
def revoke_feed(settings: Settings, name: str) -> None:
    """Revoke a calendar feed.

    From now on, the address of the feed leads nowhere.
    """
    with settings.connect() as client:
        view = client.revoke_feed(name)
    output.answer(settings, "feed", view, lambda: [f"revoked {view.name}"])


def _added_feed(view: FeedView) -> list[str]:
    """Describe a new feed; its address is shown only here."""
    return [
        f"feed {view.name}: subscribe to this address in your calendar program",
        f"  {view.address}",
        "keep it secret: whoever has it sees your reservations; it is not shown again",
    ]
