"""The options and steps that `find`, `book` and `hold` share: a request, its length and its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, TypeVar

import click

from kalends.cli.console import output
from kalends.cli.console.help_form import section
from kalends.cli.console.settings import Settings
from kalends.cli.requests import next_steps, words
from kalends.client.inputs.request_builder import Window
from kalends.client.sync import SyncClient
from kalends.contract.calls import RequestView
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.language.preferences import Preference, parse_preference
from kalends.core.requests import Request

F = TypeVar("F", bound=Callable[..., Any])

WAIT_S_MAX = 120
WAIT_DEFAULT = "30s"

_time = section("Time")


class When(TypedDict):
    """The time options, as they were typed."""

    duration: str
    at: str | None
    after: str | None
    before: str | None


def when_options(function: F) -> F:
    """Add ``--for``, and ``--at`` or ``--after`` and ``--before``."""
    for decorate in (
        _time("--before", metavar="TIME", help="Latest end.  [default: none]"),
        _time("--after", metavar="TIME", help="Earliest start.  [default: now]"),
        _time(
            "--at",
            metavar="TIME",
            help="Exact start, e.g. 'fri 09:00'; now and now+2h on the next full minute.",
        ),
        _time(
            "--for", "duration", metavar="DURATION", required=True, help="Length, e.g. 2h or 45m."
        ),
    ):
        function = decorate(function)
    return function


prefer_option = _time(
    "--prefer",
    multiple=True,
    metavar="'WHEN [+-WEIGHT]'",
    help="Preferred time, e.g. mornings, 'mon-thu 09:00-12:00' or 'fri -2'; may be repeated.",
)

wait_option = click.option(
    "--wait",
    default=WAIT_DEFAULT,
    show_default=True,
    metavar="DURATION",
    help="Time to wait for the outcome, at most 2m; the call continues after it.",
)


def wait_s(text: str) -> int:
    """Return ``--wait`` in seconds; raises `InvalidInput`."""
    return parse_duration(text, where="--wait", longest_s=WAIT_S_MAX)


def understand(
    client: SyncClient, text: str, when: When, preferences: Sequence[Preference] = ()
) -> Request:
    """Return the request as it will be sent; raises `InvalidInput`."""
    return client.request(
        text, duration=when["duration"], at=when["at"], window=window(when), prefer=preferences
    )


def preferred(settings: Settings, client: SyncClient, said: Iterable[str]) -> list[Preference]:
    """Parse each ``--prefer``; raises `InvalidInput`."""
    now_s, zone = client.time_s("now"), settings.time_zone()
    return [parse_preference(each, now_s=now_s, zone=zone, where="--prefer") for each in said]


def window(when: When) -> Window:
    """Return ``--after`` and ``--before``; raises `InvalidInput` if ``--at`` is given, too."""
    if when["at"] and (when["after"] or when["before"]):
        raise InvalidInput(
            "--at fixes the start and excludes --after and --before",
            where="--at",
            remedy="use --at alone, or --after and --before",
        )
    return when["after"], when["before"]


def echo(
    settings: Settings, request: Request, when: When, said: words.Said = words.NOTHING_SAID
) -> None:
    """Print the request as understood on standard error, before anything is sent."""
    exact = when["at"] is not None
    for line in words.understood(request, settings.time_zone(), said, exact=exact):
        output.say(line, error=True)


def answer(settings: Settings, view: RequestView, visits: Iterable[str] = ()) -> None:
    """Print the request after a call, its agent's `visits`, and the possible next steps."""
    zone = settings.time_zone()
    output.answer(
        settings, "request", view,
        lambda: [*words.request_lines(view, zone), *(f"  {'visit':8} {line}" for line in visits)],
    )  # fmt: skip
    for line in next_steps.what_next(view, zone):
        output.say(line, error=True)


def visits(settings: Settings, client: SyncClient, view: RequestView) -> list[str]:
    """Describe the outcomes of the agent's visits; empty with ``--json`` or if they cannot be read."""
    if settings.json or not view.agent:
        return []
    try:
        events = client.why(view.id).events
    except KalendsError:
        return []
    return [event.detail for event in events if event.kind == "agent"]
