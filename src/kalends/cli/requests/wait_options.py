"""Waiting for an outcome at the terminal: its limits, its progress display and its interruption."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypedDict, TypeVar

import click

from kalends.cli.console import output
from kalends.cli.console.groups import EXIT_INTERRUPTED
from kalends.cli.console.help_form import section
from kalends.cli.console.live_line import LiveLine
from kalends.cli.console.settings import Settings
from kalends.cli.requests import next_steps
from kalends.cli.requests.waiting_words import waiting_words
from kalends.client.methods.request_calls import PROMPT_S
from kalends.client.sync import SyncClient
from kalends.contract.calls import Patience, RequestView
from kalends.core import limits
from kalends.core.durations import parse_duration
from kalends.core.identifiers import short_id

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

LEFT: Final = "the request is still waiting"

_waiting = section("Waiting")


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


def options(function: F) -> F:
    """Add ``--no-wait``, ``--when-free``, ``--until``, ``--wait``."""
    for decorate in (
        _waiting(
            "--wait",
            metavar="DURATION",
            help="Time that this command waits, e.g. 10m; the request continues after it.  "
            "[default: until settled; with --when-free, until on waiting lists]",
        ),
        _waiting("--until", metavar="TIME", help="Deadline of the wait, e.g. 'fri 18:00'."),
        _waiting(
            "--when-free", is_flag=True, help="Join the waiting lists of slots that are locked."
        ),
        _waiting(
            "--no-wait",
            is_flag=True,
            help="Fail at once if slots are taken or a site does not answer, and show free starts.",
        ),
    ):
        function = decorate(function)
    return function


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
    if it has no id yet), and ends the program.
    """
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
                next_steps.id_to_ask_by(view), wait_s=left_s, until_listed=waits.until_listed,
                until_asked=waits.until_asked, on_progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt as interrupt:
        for line in _left_lines(view, key):
            output.say(line, error=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from interrupt


def _left_lines(view: RequestView | None, key: str) -> list[str]:
    if view is None:
        return [f"kalends: interrupted; {LEFT}", f"  look: kalends show --key {quote(key)}"]
    named = short_id(next_steps.id_to_ask_by(view))
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
        self._line.show(waiting_words(view, self._zone))
