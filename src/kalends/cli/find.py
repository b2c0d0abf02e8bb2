"""``kalends find``: when could it start?"""

from __future__ import annotations

from typing import Unpack

import click

from kalends.cli import _output, _problems, _request_options, _words
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.core.errors import NoCommonTime


@click.command("find", cls=ServerCommand)
@click.argument("request")
@_request_options.when_options
@_request_options.prefer_option
@click.option(
    "--count", default=5, show_default=True, type=click.IntRange(1, 100), help="How many."
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also say what each start costs others, and which bookings are in the way.",
)
@pass_settings
def command(
    settings: Settings,
    request: str,
    prefer: tuple[str, ...],
    count: int,
    explain: bool,
    **when: Unpack[_request_options.When],
) -> int:
    """Find when a request could start; books nothing.

    Prints the best starts there are now, with what their preferences are worth; others may book
    meanwhile. When there is none, says who stands in the way, and ends with exit code 5.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        preferences = _request_options.preferred(settings, client, prefer)
        wanted = _request_options.understand(client, request, when, preferences)
        _request_options.echo(settings, wanted, when, _words.Said(preferences=preferences))
        found = client.find(wanted, count=count, explain=explain)
    if found.candidates or settings.json:
        _output.answer(settings, "found", found, lambda: _words.found_lines(found, zone))
        return 0 if found.candidates else NoCommonTime.exit_code
    _output.say("kalends: there is no common time in this window", error=True)
    for line in (*_problems.refusal_lines(found.refusals), *_words.obstacle_lines(found, zone)):
        _output.say(line, error=True)
    return NoCommonTime.exit_code
