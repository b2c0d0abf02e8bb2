"""``kalends cancel``: cancel a reservation at all its sites."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options
from kalends.core.identifiers import short_id


@click.command(
    "cancel",
    cls=ServerCommand,
    examples=("kalends cancel 5d0c1f2e", "kalends cancel 5d0c1f2e --wait 2m"),
)
@click.argument("id")
@request_options.wait_option
@pass_settings
def command(settings: Settings, id: str, wait: str) -> None:
    """Cancel a reservation at all its sites.

    Also ends requests that hold slots or still wait. With the id of a change that is still being decided,
    cancels only the change. A repeated call does no harm.
    """
    wait_s = request_options.wait_s(wait)
    with settings.connect() as client:
        id = client.full_id(id)
        view = client.cancel(id, wait_s=wait_s)
        if view.id != id:
            standing = client.show(view.id)
            if standing.state == "reserved":
                output.say(
                    f"the change {short_id(id)} is cancelled; this reservation stays", error=True
                )
                view = standing
    request_options.answer(settings, view)
