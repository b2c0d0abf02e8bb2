"""``kalends book``: all of a request, or nothing."""

from __future__ import annotations

from typing import Unpack

import click

from kalends.client.cli import _agent_options, _asking
from kalends.client.cli._settings import ServerCommand, Settings, pass_settings


@click.command("book", cls=ServerCommand)
@click.argument("request")
@_asking.when_options
@_agent_options.agent_options
@_asking.booking_options
@pass_settings
def command(
    settings: Settings,
    request: str,
    agent: str | None,
    argument: tuple[str, ...],
    note: str,
    key: str,
    wait: str,
    **when: Unpack[_asking.When],
) -> None:
    """Book all of a request, or nothing.

    What was understood is said first, with the key of this call. When the answer is lost, `kalends
    show --key KEY` tells what became of it; the same command with `--key KEY` never books twice.
    An agent prefers among the slots that there are; when it fails, sites choose the earliest.
    """
    wait_s = _asking.wait_s(wait)
    chooser = _agent_options.agent_named(agent)
    with settings.connect() as client:
        wanted = _asking.understand(client, request, when, note, chooser, argument)
        key = key or client.new_key()
        _asking.echo(settings, wanted, when, key)
        view = client.book(wanted, agent=chooser, key=key, wait_s=wait_s)
        visits = _asking.visits(settings, client, view)
    _asking.answer(settings, view, visits)
