"""The options and steps that commands of requests share: a request, its time, the wait for its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypedDict

import click

from kalends.cli.console import output
from kalends.cli.console.commands import all_of, section
from kalends.cli.console.groups import EXIT_INTERRUPTED
from kalends.cli.console.progress import LiveLine
from kalends.cli.requests import request_texts, waiting_texts
from kalends.core import limits
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput, KalendsError, Unavailable
from kalends.core.language.preferences import Preference, parse_preference

if TYPE_CHECKING:
    from rich.console import Console

    from kalends.cli.console.settings import Settings
    from kalends.client.inputs.request_builder import Window
    from kalends.client.sync import SyncClient
    from kalends.contract.calls import Patience, RequestView
    from kalends.core.requests import Request


WAIT_S_MAX = 120
WAIT_DEFAULT = "30s"

_time = section("Time")

PRICE: Final = "price"
"""The ``--prefer`` for what is cheap."""

LEFT: Final = "the request is still waiting"

_waiting = section("Waiting")


class When(TypedDict):
    """The time options, as they were typed."""

    duration: str
    at: str | None
    after: str | None
    before: str | None


when_options = all_of(
    _time("--for", "duration", metavar="DURATION", required=True, help="Length, e.g. 2h or 45m."),
    _time(
        "--at",
        metavar="TIME",
        help="Exact start, e.g. 'fri 09:00'; now and now+2h on the next full minute.",
    ),
    _time("--after", metavar="TIME", help="Earliest start.  [default: now]"),
    _time("--before", metavar="TIME", help="Latest end.  [default: none]"),
)
"""``--for``, and ``--at`` or ``--after`` and ``--before``."""


prefer_option = _time(
    "--prefer",
    multiple=True,
    metavar="'WHEN [+-WEIGHT]'",
    help="Preferred time, e.g. mornings, 'mon-thu 09:00-12:00' or 'fri -2', or price; may be repeated.",
)

_prices = section("Prices")


class PriceOptions(TypedDict):
    """The options about prices, as they were typed."""

    at_most: str
    rate: str


price_options = all_of(
    _prices(
        "--at-most",
        default="",
        metavar="CREDITS",
        help="Budget: 40, or one for each site, e.g. sdsc=40,caltech=10.",
    ),
    _prices(
        "--rate",
        default="",
        metavar="SITE=N,...",
        help="The worth of a credit of each site to you, to compare prices, e.g. sdsc=1,caltech=20.",
    ),
)
"""``--at-most`` and ``--rate``; ``--prefer price`` is a preference."""

traffic_option = click.option(
    "--traffic",
    default="",
    metavar="SIZE",
    help="Data that each node exchanges with the others in a second, where a virtual site splits the "
    "request, e.g. 20MB.  [default: none]",
)

wait_option = click.option(
    "--wait",
    default=WAIT_DEFAULT,
    show_default=True,
    metavar="DURATION",
    help="Time to wait for the outcome, or until owners are asked to approve, at most 2m; the call continues "
    "after it.",
)


def wait_s(text: str) -> int:
    """Return ``--wait`` in seconds; raises `InvalidInput`."""
    return parse_duration(text, where="--wait", longest_s=WAIT_S_MAX)


def preferred(settings: Settings, client: SyncClient, said: Iterable[str]) -> list[Preference]:
    """Parse each ``--prefer`` but ``price``; raises `InvalidInput`."""
    now_s, zone = client.time_s("now"), settings.time_zone()
    return [
        parse_preference(each, now_s=now_s, zone=zone, where="--prefer")
        for each in said
        if each != PRICE
    ]


def with_price(preferences: Sequence[Preference], said: Iterable[str]) -> list[str | Preference]:
    """Return `preferences`, and the word ``price`` if a ``--prefer`` gives it."""
    return [*preferences, *(each for each in said if each == PRICE)]


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
    settings: Settings,
    client: SyncClient,
    request: Request,
    when: When,
    said: request_texts.Said = request_texts.NOTHING_SAID,
) -> None:
    """Print the request as understood on standard error, before anything is sent."""
    exact = when["at"] is not None
    zone, now_s = settings.time_zone(), client.time_s("now")
    for line in request_texts.understood(request, zone, said, exact=exact, now_s=now_s):
        output.say(line, error=True)


def answer(settings: Settings, view: RequestView, visits: Iterable[str] = ()) -> None:
    """Print the request after a call, its agent's `visits`, and the possible next steps."""
    zone = settings.time_zone()
    output.answer(
        settings, "request", view,
        lambda: [*request_texts.request_lines(view, zone), *(f"  {'visit':8} {line}" for line in visits)],
    )  # fmt: skip
    for line in waiting_texts.what_next(view, zone):
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


class WaitOptions(TypedDict):
    """The wait options, as they were typed."""

    wait: str | None
    no_wait: bool
    when_free: bool
    until: str | None


class Waits(NamedTuple):
    """The limits of a wait; `wait_s` None waits until settled, or with `until_listed` until listed.

    With `until_asked` it also ends once owners are asked to approve the held slots.
    """

    patience: Patience = "held"
    wait_s: float | None = None
    until_listed: bool = False
    until_asked: bool = False


wait_options = all_of(
    _waiting(
        "--no-wait",
        is_flag=True,
        help="Fail at once if slots are taken or a site does not answer, and show free starts.",
    ),
    _waiting("--when-free", is_flag=True, help="Join the waiting lists of slots that are locked."),
    _waiting("--until", metavar="TIME", help="Deadline of the wait, e.g. 'fri 18:00'."),
    _waiting(
        "--wait",
        metavar="DURATION",
        help="Time that this command waits, e.g. 10m, also for owners' approvals. The request continues "
        "after it.  [default: until settled or owners are asked; with --when-free, until on waiting lists]",
    ),
)


def waits(options: WaitOptions) -> Waits:
    """Combine the options; raises a usage error if they contradict one another."""
    if options["no_wait"] and (options["when_free"] or options["until"] or options["wait"]):
        raise click.UsageError("--no-wait excludes --when-free, --until and --wait.")
    wait_s = None
    if options["wait"] is not None:
        wait_s = parse_duration(options["wait"], where="--wait", longest_s=limits.WINDOW_S_MAX)
    if options["no_wait"]:
        return Waits("none", until_asked=True)
    if options["when_free"]:
        return Waits("taken", wait_s, until_listed=wait_s is None, until_asked=wait_s is None)
    return Waits("held", wait_s, until_asked=wait_s is None)


def settled(
    settings: Settings,
    client: SyncClient,
    waits: Waits,
    key: str,
    ask: Callable[[float], RequestView],
) -> RequestView:
    """Call `ask` with the time to wait for a first answer, then wait on as `waits` says.

    Progress goes to standard error. Ctrl-C leaves the request waiting, prints how to find it (by `key`
    if it has no id yet), and ends the program. A broker that stays away raises `Unavailable`, which says
    how to find the request.
    """
    # Imported here because a script that is tried here waits for no outcome.
    from kalends.client.methods.request_calls import PROMPT_S

    first_s = PROMPT_S if waits.wait_s is None else min(waits.wait_s, PROMPT_S)
    left_s = None if waits.wait_s is None else waits.wait_s - first_s
    view = None
    try:
        view = ask(first_s)
        asked = waits.until_asked and view.waiting is not None and view.waiting.approval
        if view.state != "open" or left_s == 0 or asked:
            return view
        with Progress(settings) as progress:
            return client.wait(
                waiting_texts.id_to_ask_by(view), wait_s=left_s, until_listed=waits.until_listed,
                until_asked=waits.until_asked, on_progress=progress,
            )  # fmt: skip
    except Unavailable as away:
        if view is not None:
            named = waiting_texts.id_to_type(view)
            away.remedy = f"the request continues; wait on later: kalends show {named} --follow"
        raise
    except KeyboardInterrupt as interrupt:
        for line in _left_lines(view, key):
            output.say(line, error=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from interrupt


def _left_lines(view: RequestView | None, key: str) -> list[str]:
    if view is None:
        return [f"kalends: interrupted; {LEFT}", f"  look: kalends show --key {quote(key)}"]
    named = waiting_texts.id_to_type(view)
    return [
        f"kalends: interrupted; {LEFT}",
        f"  look:      kalends show {named}",
        f"  wait on:   kalends show {named} --follow",
        f"  give up:   kalends cancel {named}",
    ]


class Progress:
    """The progress of a waiting request: one changing line on a terminal, else a line for each change.

    With ``--json`` nothing is printed. `terminal` is the console to print on; None for standard error.
    """

    def __init__(self, settings: Settings, terminal: Console | None = None) -> None:
        self._zone = settings.time_zone()
        self._line = LiveLine(silent=settings.json, terminal=terminal)

    def __enter__(self) -> Self:
        self._line.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._line.__exit__(*raised)

    def __call__(self, view: RequestView) -> None:
        self._line.show(waiting_texts.waiting_text(view, self._zone))
