"""``kalends watch``: follow the events of requests."""

from __future__ import annotations

import sys
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, problems
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import words
from kalends.client.sync import SyncClient
from kalends.contract.calls import Event
from kalends.core.identifiers import short_id


@click.command(
    "watch",
    cls=ServerCommand,
    examples=("kalends watch", "kalends watch 5d0c1f2e --after 0 --count 1"),
)
@click.argument("id", required=False)
@click.option("--after", type=WholeNumber(-1), default=-1, metavar="N",
              help="Number of the last event already seen.  [default: events from now on]")  # fmt: skip
@click.option(
    "--count",
    type=WholeNumber(1),
    metavar="N",
    help="Number of events to print.  [default: no limit]",
)
@pass_settings
def command(settings: Settings, id: str | None, after: int, count: int | None) -> None:
    """Follow the events of your requests.

    With an ID, follows that request only. When an older request recalls a hold, prints the time by
    which to lock it. Ctrl-C stops. With --json each event is one line.

    To follow a job, use kalends job JOB --watch; for all your jobs, kalends queue --watch.
    """
    zone = settings.time_zone()
    if sys.stderr.isatty():
        output.say("watching; Ctrl-C stops", error=True)
    with settings.connect() as client:
        events = client.watch(id or "", after=after)
        for seen, event in enumerate(events, start=1):
            if settings.json:
                output.print_json("event", event, one_line=True)
            else:
                _tell(client, event, zone)
            if seen == count:
                return


def _tell(client: SyncClient, event: Event, zone: ZoneInfo) -> None:
    at = short_time(event.at_ms // 1000, zone)
    output.say(f"{at}  {short_id(event.id)}  {event.kind}  {event.detail}".rstrip())
    for line in problems.refusal_lines(event.refusals):
        output.say(line)
    if event.kind == "recalled":
        view = client.show(event.id)
        if view.state == "held":
            output.say_loudly(f"  ! {words.recalled_words(view, zone)}")
