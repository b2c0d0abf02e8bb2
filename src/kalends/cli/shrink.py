"""``kalends shrink``: a reservation shorter or smaller."""

from __future__ import annotations

import click

from kalends.cli import _request_options
from kalends.cli._change import change_options, length_words, send, units_kept
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("shrink", cls=ServerCommand)
@click.argument("id")
@click.option("--by", metavar="DURATION", help="How much shorter.")
@click.option("--for", "duration", metavar="DURATION", help="How long in all.")
@click.option("--units", "units", metavar="RES=N", multiple=True,
              help="Keep only N units of a resource; may be repeated.")  # fmt: skip
@change_options
@pass_settings
def command(
    settings: Settings,
    id: str,
    by: str | None,
    duration: str | None,
    units: tuple[str, ...],
    key: str,
    wait: str,
) -> None:
    """Make a reservation shorter or smaller.

    It keeps its start.
    """
    wait_s = _request_options.wait_s(wait)
    kept = units_kept(units)
    asked = [length_words("shorter", by, duration)] if by or duration or not kept else []
    asked += [f"to {count} units of {resource}" for resource, count in kept.items()]
    with settings.connect() as client:
        send(
            settings, client, id, key, ", ".join(asked),
            lambda full, key: client.shrink(
                full, by=by, duration=duration, units=kept, key=key, wait_s=wait_s
            ),
        )  # fmt: skip
