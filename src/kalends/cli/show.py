"""``kalends show``: show one request, by id or by the key of its call."""

from __future__ import annotations

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options, wait_options
from kalends.core.errors import error_from_problem


@click.command(
    "show",
    cls=ServerCommand,
    examples=(
        "kalends show 5d0c1f2e --follow",
        "kalends show --key 673ba8f8-d9a3-48be-9394-4080cc7feafa",
    ),
)
@click.argument("id", required=False)
@click.option("--key", metavar="KEY", help="Key of the call that made the request.")
@click.option("--follow", is_flag=True, help="Show the progress until the request is settled.")
@pass_settings
def command(settings: Settings, id: str | None, key: str | None, follow: bool) -> None:
    """Show one request, by id or by key.

    A key resolves an unknown outcome: if it is not found, the call never arrived and can be repeated
    safely.
    """
    if (id is None) == (key is None):
        raise click.UsageError("Give an ID or --key KEY.")
    with settings.connect() as client:
        view = client.resolve(key) if key is not None else client.show(str(id))
        if follow and view.problem is not None:
            raise error_from_problem(view.problem)
        if follow:
            view = wait_options.settled(settings, client, wait_options.Waits(), "", lambda _: view)
        visits = request_options.visits(settings, client, view)
    request_options.answer(settings, view, visits)
