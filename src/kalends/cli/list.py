"""``kalends list``: list your requests, newest first."""

from __future__ import annotations

import typing

import click

from kalends.cli import _output, _words
from kalends.cli._identify import full_id
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.client.request_calls import ListState

STATES = [state for state in typing.get_args(ListState) if state]


@click.command(
    "list",
    cls=ServerCommand,
    examples=("kalends list --state reserved", "kalends list --waiting"),
)
@click.option("--state", type=click.Choice(STATES), help="State of the requests.  [default: all]")
@click.option(
    "--waiting", is_flag=True, help="List only requests that wait, and the slots they wait for."
)
@click.option(
    "--everyone", is_flag=True, help="List the requests of all users; needs the scope audit."
)
@click.option("--count", default=100, show_default=True, type=click.IntRange(1, 10_000),
              metavar="N", help="Maximum number of rows.")  # fmt: skip
@click.option("--before", default="", metavar="ID", help="Last request of the previous page.")
@pass_settings
def command(
    settings: Settings,
    state: ListState | None,
    waiting: bool,
    everyone: bool,
    count: int,
    before: str,
) -> None:
    """List your requests, newest first."""
    zone = settings.time_zone()
    if waiting:
        if state or everyone or before:
            raise click.UsageError("--waiting excludes --state, --everyone and --before.")
        with settings.connect() as client:
            views = client.waiting_list()
        _output.answer(settings, "requests", views, lambda: _words.waiting_listing(views, zone))
        return
    with settings.connect() as client:
        older_than = full_id(client, before) if before else ""
        views = client.list(state=state or "", everyone=everyone, count=count, before=older_than)
    _output.answer(settings, "requests", views, lambda: _words.listing(views, zone))
