"""``kalends why``: explain what happened to a request."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, problems
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.cli.requests import words
from kalends.contract.calls import Story


@click.command(
    "why",
    cls=ServerCommand,
    examples=("kalends why 5d0c1f2e", "kalends why 5d0c1f2e --json"),
)
@click.argument("id")
@pass_settings
def command(settings: Settings, id: str) -> None:
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
    told = words.request_lines(story.request, zone)
    if story.events:
        told.append(f"TIME ({zone.key})")
    for event in story.events:
        at = short_time(event.at_ms // 1000, zone)
        told.append(f"{at}  {event.kind}  {event.detail}".rstrip())
        told += [f"  {line}" for line in problems.refusal_lines(event.refusals)]
    return told
