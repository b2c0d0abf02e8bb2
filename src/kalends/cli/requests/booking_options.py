"""The common part of `book` and `hold`: options, the echo of the request, the answer to a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import structs

from kalends.cli.console import output, problems
from kalends.cli.console.help_form import section
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import agent_options, request_options, wait_options, words
from kalends.client.inputs.scripts import Agent
from kalends.client.sync import SyncClient
from kalends.contract.calls import Patience, RequestView
from kalends.core.errors import KalendsError, LostRace, NoCommonTime, RefusalCode
from kalends.core.requests import Request

F = TypeVar("F", bound=Callable[..., Any])

ALTERNATIVES = 3
"""The number of free starts that are shown if nothing could be booked at once."""

WAIT_LONGER = "add --when-free to wait until the request can be booked"

MENDED_BY_TIME = frozenset({RefusalCode.BUSY, RefusalCode.HELD})
"""Refusals that a cancellation can cure; waiting lists help against no others."""

_call = section("Call")


class BookingOptions(request_options.When, wait_options.WaitOptions):
    """The options of `book` and `hold`, as they were typed."""

    agent: str | None
    argument: tuple[str, ...]
    agent_must_run: bool
    prefer: tuple[str, ...]
    priority: int
    note: str
    key: str


class Asked:
    """A request as it will be sent, echoed on standard error. Raises `InvalidInput`."""

    def __init__(
        self,
        settings: Settings,
        client: SyncClient,
        text: str,
        options: BookingOptions,
        copies: int = 1,
    ) -> None:
        self.client = client
        self.waits = wait_options.waits(options)
        self.agent: Agent = agent_options.agent_named(options["agent"])
        preferences = request_options.preferred(settings, client, options["prefer"])
        self.wanted = client.request(
            text, duration=options["duration"], at=options["at"], window=request_options.window(options),
            note=options["note"], priority=options["priority"], prefer=preferences,
            agent=self.agent, arguments=agent_options.argument_values(options["argument"]),
            agent_must_run=options["agent_must_run"],
        )  # fmt: skip
        self.give_up_at = (
            client.time_s(options["until"], where="--until") if options["until"] else None
        )
        self.key = options["key"] or client.new_key()
        said = words.Said(
            key=self.key, preferences=preferences, patience=self.waits.patience,
            give_up_at=self.give_up_at, copies=copies,
        )  # fmt: skip
        request_options.echo(settings, self.wanted, options, said)

    @property
    def patience(self) -> Patience:
        return self.waits.patience


def options(function: F) -> F:
    """Add the options of `BookingOptions`, except for the time."""
    for decorate in (
        _call(
            "--key",
            default="",
            metavar="KEY",
            help="Idempotency key: a repeated call with the same key books once.  [default: a new one]",
        ),
        _call("--note", default="", metavar="TEXT", help="Note for yourself, e.g. 'run 7'."),
        _call(
            "--priority",
            type=WholeNumber(-100, 100),
            default=0,
            show_default=True,
            metavar="N",
            help="Head start in wait queues, as far as the broker allows it.",
        ),
        wait_options.options,
        agent_options.agent_options,
        request_options.prefer_option,
    ):
        function = decorate(function)
    return function


def run(
    settings: Settings,
    text: str,
    options: BookingOptions,
    send: Callable[[Asked, float], RequestView],
) -> int:
    """Echo the request, `send` it, wait for it as `options` say, and print the answer."""
    with settings.connect() as client:
        asked = Asked(settings, client, text, options)
        try:
            view = wait_options.settled(
                settings, client, asked.waits, asked.key, lambda wait_s: send(asked, wait_s)
            )
        except (NoCommonTime, LostRace) as error:
            if settings.json or asked.patience == "taken":
                raise
            if asked.patience == "none":
                return tell_alternatives(settings, client, asked.wanted, error)
            return tell_refusal(error, fixed=options["at"] is not None)
        visits = request_options.visits(settings, client, view)
    if view.priority is not None and view.priority < asked.wanted.priority:
        granted = (
            f"kalends: the broker grants you priority {view.priority}, not {asked.wanted.priority}"
        )
        output.say(granted, error=True)
    request_options.answer(settings, view, visits)
    return 0


def tell_refusal(error: KalendsError, *, fixed: bool) -> int:
    """Report the refusals, and whether a waiting list would help; return the exit code of `error`.

    With a `fixed` start each site reports what is taken there; in a window an access rule may also be
    why nothing is free.
    """
    told = problems.lines(error)
    if fixed and error.refusals and all(each.code in MENDED_BY_TIME for each in error.refusals):
        told.append(WAIT_LONGER)
    for line in told:
        output.say(line, error=True)
    return error.exit_code


def tell_alternatives(
    settings: Settings, client: SyncClient, wanted: Request, error: KalendsError
) -> int:
    """Report the refusals and the later starts that are free; return the exit code of `error`."""
    told = problems.lines(error)
    wider = structs.replace(wanted, not_after=0, agent="", arguments={}, agent_must_run=False)
    try:
        free = client.find(wider, count=ALTERNATIVES).candidates
    except KalendsError:
        free = ()
    if free:
        told += [
            "free now, at or after that start:",
            *words.candidate_lines(free, settings.time_zone()),
        ]
    told.append(WAIT_LONGER)
    for line in told:
        output.say(line, error=True)
    return error.exit_code
