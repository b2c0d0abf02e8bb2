"""``kalends find``: find possible starts; book nothing."""

from __future__ import annotations

from typing import Unpack

import click
from msgspec import structs

from kalends.cli.console import output, problems
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import delayed_jobs, request_options, words
from kalends.core.errors import NoCommonTime
from kalends.core.refusals import error_of


@click.command(
    "find",
    cls=ServerCommand,
    examples=(
        "kalends find 'sdsc/sp2:64 + ncsa/cave' --for 2h",
        "kalends find 'ncsa/cave' --for 1h --after 'tomorrow 08:00' --explain",
    ),
)
@click.argument("request")
@request_options.when_options
@request_options.prefer_option
@click.option(
    "--count",
    default=5,
    show_default=True,
    type=WholeNumber(1, 100),
    metavar="N",
    help="Number of starts.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also show the bookings in the way, and the delays of other requests and jobs.",
)
@pass_settings
def command(
    settings: Settings,
    request: str,
    prefer: tuple[str, ...],
    count: int,
    explain: bool,
    **when: Unpack[request_options.When],
) -> int:
    """Find possible starts; book nothing.

    Prints the best starts at present, with the weights of your preferences. If there is none, prints
    the refusals. The exit code is then that of `kalends book`: 5, or 75 if a site does not answer.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        preferences = request_options.preferred(settings, client, prefer)
        wanted = request_options.understand(client, request, when, preferences)
        request_options.echo(settings, wanted, when, words.Said(preferences=preferences))
        found = client.find(wanted, count=count, explain=explain)
    silent: list[str] = []
    if explain:
        candidates, silent = delayed_jobs.priced(settings, found.candidates)
        found = structs.replace(found, candidates=candidates)
    if found.candidates or settings.json:
        output.answer(settings, "found", found, lambda: words.found_lines(found, zone))
        for each in silent:
            output.say(f"kalends: jobs that would be delayed are not known: {each}", error=True)
        return 0 if found.candidates else error_of(found.refusals).exit_code
    error = error_of(found.refusals)
    if isinstance(error, NoCommonTime):
        error.detail, error.remedy = "there is no common time in this window", ""
    for line in (*problems.lines(error), *words.obstacle_lines(found, zone)):
        output.say(line, error=True)
    return error.exit_code
