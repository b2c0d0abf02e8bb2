"""``kalends notify add``: be told by mail or by a webhook."""

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
    """Be told by mail or by a webhook.

    You are told when an owner or operator moves, shortens or cancels what is yours, when a hold is recalled,
    and what becomes of a request on waiting lists, and of a job that has to leave its site. Without ADDRESS,
    mail goes to the address that the broker's operator has for you. For a webhook, the secret that signs its
    calls is printed once.
    """
    with settings.connect() as client:
        view = client.add_notice_address(to, zone=settings.time_zone())
    output.answer(settings, "notice", view, lambda: notice_words.added_lines(view))
