"""``kalends list``: one row for each request."""

from __future__ import annotations

import typing

import click

from kalends.cli import _output, _words
from kalends.cli._identify import full_id
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.client.request_calls import ListState

STATES = [state for state in typing.get_args(ListState) if state]


@click.command("list", cls=ServerCommand)
@click.option("--state", type=click.Choice(STATES), help="Only requests in this state.")
@click.option(
    "--waiting", is_flag=True, help="Only those in line or on a waiting list, and for what."
)
@click.option("--everyone", is_flag=True, help="All users' requests; needs the scope audit.")
@click.option("--count", default=100, show_default=True, type=click.IntRange(1, 10_000),
              help="At most so many.")  # fmt: skip
@click.option("--before", default="", metavar="ID", help="Only older ones: for the next page.")
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
            raise click.UsageError("--waiting stands alone: it lists all of yours that wait.")
        with settings.connect() as client:
            views = client.waiting_list()
        _output.answer(settings, "requests", views, lambda: _words.waiting_listing(views, zone))
        return
    with settings.connect() as client:
        older_than = full_id(client, before) if before else ""
        views = client.list(state=state or "", everyone=everyone, count=count, before=older_than)
    _output.answer(settings, "requests", views, lambda: _words.listing(views, zone))
