"""``kalends list``: list your requests, newest first."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from itertools import islice

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import words
from kalends.cli.requests.waiting_words import waiting_listing
from kalends.client.methods.listing_calls import ListState
from kalends.client.sync import SyncClient
from kalends.contract.calls import RequestView
from kalends.core.identifiers import short_id

PAGE_MAX = 1_000

STATES = [state for state in typing.get_args(ListState) if state]


@click.command(
    "list",
    cls=ServerCommand,
    examples=("kalends list --state reserved", "kalends list --waiting"),
)
@click.option(
    "--state", type=click.Choice(STATES), help="State of the requests.  [default: all but failed]"
)
@click.option("--all", "failed", is_flag=True, help="Also list requests that have failed.")
@click.option(
    "--waiting", is_flag=True, help="List only waiting requests, and the slots that they wait for."
)
@click.option(
    "--everyone", is_flag=True, help="List the requests of all users; needs the scope audit."
)
@click.option("--count", default=100, show_default=True, type=WholeNumber(1, 10_000),
              metavar="N", help="Maximum number of rows.")  # fmt: skip
@click.option("--before", default="", metavar="ID", help="Last request of the previous page.")
@pass_settings
def command(
    settings: Settings,
    state: ListState | None,
    failed: bool,
    waiting: bool,
    everyone: bool,
    count: int,
    before: str,
) -> None:
    """List your requests, newest first.

    Failed requests are left out. If there are more, the last line shows how to list them.
    """
    zone = settings.time_zone()
    if waiting:
        if state or failed or everyone or before:
            raise click.UsageError("--waiting excludes --state, --all, --everyone and --before.")
        with settings.connect() as client:
            views = client.waiting_list()
        output.answer(
            settings,
            "requests",
            views,
            lambda: waiting_listing(views, zone) if views else ["no request of yours waits"],
        )
        return
    with settings.connect() as client:
        pages = _pages(client, state or "", everyone, before, min(count + 1, PAGE_MAX))
        wanted = (view for view in pages if state or failed or view.state != "failed")
        found = list(islice(wanted, count + 1))
    shown = found[:count]
    output.answer(settings, "requests", shown, lambda: words.listing(shown, zone))
    if len(found) > count:
        last = short_id(shown[-1].id)
        output.say(f"there are more: kalends list --before {last}", error=True)


def _pages(
    client: SyncClient, state: ListState, everyone: bool, before: str, size: int
) -> Iterator[RequestView]:
    """Yield requests, newest first, a page of `size` at a time."""
    while True:
        page = client.list(state=state, everyone=everyone, count=size, before=before)
        yield from page
        if len(page) < size:
            return
        before = page[-1].id
