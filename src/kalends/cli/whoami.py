"""``kalends whoami``: show the caller's identity at the server."""

from __future__ import annotations

import os

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.output import plain
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.logins import whoami_lines
from kalends.client.logins.profiles import config_path


@click.command("whoami", cls=ServerCommand, examples=("kalends whoami", "kalends whoami --json"))
@pass_settings
def command(settings: Settings) -> None:
    """Show your identity at the server.

    Prints your name, realm and groups there, and the rights and the end of your token. Also shows where the
    token comes from: an option, an environment variable or a profile.
    """
    with settings.connect() as client:
        view = client.whoami()
    config = str(config_path(os.environ))
    told = {
        "address": settings.broker,
        "profile": settings.profile,
        "config": config if settings.profile else "",
        "sources": dict(settings.sources),
        "renewed": settings.login is not None and settings.login.can_renew(),
    }
    data = {**told, "caller": plain(view)}
    output.answer(settings, "caller", data, lambda: whoami_lines.lines(view, settings, config))
