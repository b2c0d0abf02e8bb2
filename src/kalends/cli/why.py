"""``kalends why``: what happened to a request, and who refused it by which rule."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli import _output, _problems, _words
from kalends.cli._identify import full_id
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.contract.calls import Story


@click.command("why", cls=ServerCommand)
@click.argument("id")
@pass_settings
def command(settings: Settings, id: str) -> None:
    """Tell what happened to a request, and who refused it.

    Refusals name the resource and the owner's rule, never whose booking is in the way.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        story = client.why(full_id(client, id))
    _output.answer(settings, "story", story, lambda: story_lines(story, zone))


def story_lines(story: Story, zone: ZoneInfo) -> list[str]:
    """A request, and what happened to it, one event a line with its refusals below it."""
    told = _words.request_lines(story.request, zone)
    for event in story.events:
        at = _words.short_time(event.at_ms // 1000, zone)
        told.append(f"{at}  {event.kind}  {event.detail}".rstrip())
        told += [f"  {line}" for line in _problems.refusal_lines(event.refusals)]
    return told
