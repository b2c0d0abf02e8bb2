"""``kalends notify test``: send yourself a test notice."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "test",
    cls=ServerCommand,
    examples=("kalends notify test", "kalends notify test https://hooks.example.org/kalends"),
)
@click.argument("to", default="", metavar="[ADDRESS|URL]")
@pass_settings
def command(settings: Settings, to: str) -> None:
    """Send yourself a test notice.

    Like all notices, it arrives within some seconds if the receiver answers.
    """
    with settings.connect() as client:
        view = client.test_notice_address(to)
    output.answer(settings, "notice", view, lambda: [f"sending a test notice to {view.to}"])
