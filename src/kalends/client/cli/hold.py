"""``kalends hold``: all of a request for a while, to lock or release."""

from __future__ import annotations

from typing import Unpack

import click

from kalends.client.cli import _agent_options, _asking
from kalends.client.cli._settings import ServerCommand, Settings, pass_settings


@click.command("hold", cls=ServerCommand)
@click.argument("request")
@_asking.when_options
@click.option(
    "--keep", default="15m", show_default=True, metavar="DURATION", help="How long the hold lives."
)
@_agent_options.agent_options
@_asking.booking_options
@pass_settings
def command(
    settings: Settings,
    request: str,
    keep: str,
    agent: str | None,
    argument: tuple[str, ...],
    note: str,
    key: str,
    wait: str,
    **when: Unpack[_asking.When],
) -> None:
    """Hold all of a request for a while, to lock or release.

    A hold that is neither locked nor released expires by itself.
    """
    wait_s = _asking.wait_s(wait)
    chooser = _agent_options.agent_named(agent)
    with settings.connect() as client:
        wanted = _asking.understand(client, request, when, note, chooser, argument)
        key = key or client.new_key()
        _asking.echo(settings, wanted, when, key)
        view = client.hold(wanted, agent=chooser, keep=keep, key=key, wait_s=wait_s)
        visits = _asking.visits(settings, client, view)
    _asking.answer(settings, view, visits)
