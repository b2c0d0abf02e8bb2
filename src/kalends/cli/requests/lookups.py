"""Requests looked up: ``kalends list``, ``show``, ``why`` and ``watch``."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, problems
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import (
    calendar_files,
    request_options,
    request_texts,
    series,
    waiting_texts,
)
from kalends.cli.requests.waiting_texts import waiting_listing
from kalends.client.methods.listing_calls import ListState
from kalends.client.sync import SyncClient
from kalends.contract.calls import Event, RequestView, Story
from kalends.core.errors import error_from_problem
from kalends.core.identifiers import short_id

PAGE_MAX = 1_000

STATES = [state for state in typing.get_args(ListState) if state]


@server_command("list", "kalends list --state reserved", "kalends list --waiting")
@click.option(
    "--state", type=click.Choice(STATES), help="State of the requests.  [default: all but failed]"
)
@click.option("--all", "failed", is_flag=True, help="Also list requests that have failed.")
@click.option(
    "--waiting", is_flag=True, help="List only waiting requests, and the slots that they wait for."
)
@click.option(
    "--everyone", is_flag=True, help="List the requests of all users; needs the scope audit."
)
@click.option("--ics", is_flag=True, help="Print the reservations and holds as a calendar file.")
@click.option("--count", default=100, show_default=True, type=WholeNumber(1, 10_000),
              metavar="N", help="Maximum number of rows.")  # fmt: skip
@click.option("--before", default="", metavar="ID", help="Last request of the previous page.")
@click.option("--unfold", is_flag=True, help="List each occurrence of a series by itself.")
def list_requests(
    settings: Settings,
    state: ListState | None,
    failed: bool,
    waiting: bool,
    everyone: bool,
    ics: bool,
    count: int,
    before: str,
    unfold: bool,
) -> None:
    """List your requests, newest first.

    A series is one row, with its next occurrence. Failed requests are left out. If there are more, the last
    line shows how to list them.
    """
    zone = settings.time_zone()
    if waiting and ics:
        raise click.UsageError("--waiting excludes --ics: a waiting request has no time yet.")
    if waiting:
        if state or failed or everyone or before:
            raise click.UsageError("--waiting excludes --state, --all, --everyone and --before.")
        with settings.connect() as client:
            views = client.waiting_list()
        output.answer(
            settings,
            "requests",
            views,
            lambda: waiting_listing(views, zone) if views else ["no request of yours waits"],
        )
        return
    with settings.connect() as client:
        pages = _pages(client, state or "", everyone, before, min(count + 1, PAGE_MAX))
        wanted = (view for view in pages if state or failed or view.state != "failed")
        found = list(islice(wanted, count + 1))
        shown = found[:count]
        text = client.ics(shown) if ics else ""
        now_s = client.time_s("now")
    if ics:
        calendar_files.say_calendar(settings, text)
    else:
        rows = shown if unfold else series.folded(shown, now_s)
        output.answer(settings, "requests", shown, lambda: request_texts.listing(rows, zone))
    if len(found) > count:
        last = short_id(shown[-1].id)
        output.say(f"there are more: kalends list --before {last}", error=True)


def _pages(
    client: SyncClient, state: ListState, everyone: bool, before: str, size: int
) -> Iterator[RequestView]:
    """Yield requests, newest first, a page of `size` at a time."""
    while True:
        page = client.list(state=state, everyone=everyone, count=size, before=before)
        yield from page
        if len(page) < size:
            return
        before = page[-1].id


@server_command(
    "show",
    "kalends show 5d0c1f2e --follow",
    "kalends show --key 673ba8f8-d9a3-48be-9394-4080cc7feafa",
)
@click.argument("id", required=False)
@click.option("--key", metavar="KEY", help="Key of the call that made the request.")
@click.option("--follow", is_flag=True, help="Show the progress until the request is settled.")
def show(settings: Settings, id: str | None, key: str | None, follow: bool) -> None:
    """Show one request, by id or by key, or a series.

    A key resolves an unknown outcome: if it is not found, the call never arrived and can be repeated
    safely. SERIES@2027-03-09 is the occurrence of a series on that day.
    """
    if (id is None) == (key is None):
        raise click.UsageError("Give an ID or --key KEY.")
    whole, _, day = (id or "").partition("@")
    with settings.connect() as client:
        if day:
            id = series.occurrence_of(client.series(whole), day).id
        elif series.is_series(whole):
            found = client.series(whole)
            zone = settings.time_zone()
            output.answer(settings, "series", found, lambda: series.series_lines(found, zone))
            return
        view = client.resolve(key) if key is not None else client.show(str(id))
        if follow and view.problem is not None:
            raise error_from_problem(view.problem)
        if follow:
            view = request_options.settled(
                settings, client, request_options.Waits(), "", lambda _: view
            )
        visits = request_options.visits(settings, client, view)
    request_options.answer(settings, view, visits)


@server_command("why", "kalends why 5d0c1f2e", "kalends why 5d0c1f2e --json")
@click.argument("id")
def why(settings: Settings, id: str) -> None:
    """Explain what happened to a request.

    Lists its events. Refusals name the resource and the owner's rule, but never the holder of a booking
    in the way.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        story = client.why(id)
    output.answer(settings, "story", story, lambda: story_lines(story, zone))


def story_lines(story: Story, zone: ZoneInfo) -> list[str]:
    """Return the lines of a request and its events, each event with its refusals below it."""
    told = request_texts.request_lines(story.request, zone)
    if story.events:
        told.append(f"TIME ({zone.key})")
    for event in story.events:
        at = short_time(event.at_ms // 1000, zone)
        told.append(f"{at}  {event.kind}  {event.detail}".rstrip())
        told += [f"  {line}" for line in problems.refusal_lines(event.refusals)]
    return told


@server_command("watch", "kalends watch", "kalends watch 5d0c1f2e --after 0 --count 1")
@click.argument("id", required=False)
@click.option("--after", type=WholeNumber(-1), default=-1, metavar="N",
              help="Number of the last event already seen; 0: all since the "
              "start of the broker.  [default: events from now on]")  # fmt: skip
@click.option(
    "--count",
    type=WholeNumber(1),
    metavar="N",
    help="Number of events to print.  [default: no limit]",
)
def watch(settings: Settings, id: str | None, after: int, count: int | None) -> None:
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
    at = datetime.fromtimestamp(event.at_ms // 1000, zone)
    output.say(
        f"{at:%a %Y-%m-%d %H:%M:%S}  {short_id(event.id)}  {event.kind}  {event.detail}".rstrip()
    )
    for line in problems.refusal_lines(event.refusals):
        output.say(line)
    if event.kind == "recalled":
        view = client.show(event.id)
        if view.state == "held":
            output.say_loudly(f"  ! {waiting_texts.recalled_text(view, zone)}")
