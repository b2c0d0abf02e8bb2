"""``kalends show``: one request, by id or by the key of the call that made it."""

from __future__ import annotations

import click

from kalends.cli import _request_options, _wait_options
from kalends.cli._identify import full_id
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("show", cls=ServerCommand)
@click.argument("id", required=False)
@click.option("--key", metavar="KEY", help="The key that the booking was made with.")
@click.option(
    "--follow", is_flag=True, help="Wait until it is settled, and tell what it waits for."
)
@pass_settings
def command(settings: Settings, id: str | None, key: str | None, follow: bool) -> None:
    """Show one request, by id or by its key.

    By key it settles an unknown outcome: where nothing is found, the booking never arrived, and it
    is safe to make it again.
    """
    if (id is None) == (key is None):
        raise click.UsageError("Give an ID, or --key KEY.")
    with settings.connect() as client:
        view = client.resolve(key) if key is not None else client.show(full_id(client, str(id)))
        if follow:
            view = _wait_options.settled(
                settings, client, _wait_options.Waits(), "", lambda _: view
            )
        visits = _request_options.visits(settings, client, view)
    _request_options.answer(settings, view, visits)
