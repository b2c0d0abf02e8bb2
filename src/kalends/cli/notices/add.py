"""``kalends notify add``: add an address for notices."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import notice_words


@click.command(
    "add",
    cls=ServerCommand,
    examples=("kalends notify add", "kalends notify add https://hooks.example.org/kalends"),
)
@click.argument("to", default="", metavar="[ADDRESS|URL]")
@pass_settings
def command(settings: Settings, to: str) -> None:
    """Add a mail address or a webhook for notices.

    You get a notice if an owner or operator moves, shortens or cancels your reservation or job, if a hold is
    recalled, if a request leaves its waiting lists, and if a job must leave its site. Without ADDRESS, mail
    goes to the address that the broker's operator has for you. For a webhook, prints once the secret that
    signs its calls.
    """
    with settings.connect() as client:
        view = client.add_notice_address(to, zone=settings.time_zone())
    output.answer(settings, "notice", view, lambda: notice_words.added_lines(view))
