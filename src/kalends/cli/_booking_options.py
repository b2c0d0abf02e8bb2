"""What `book` and `hold` share: their options, what they say first, and what they do when refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import structs

from kalends.cli import _agent_options, _output, _problems, _request_options, _wait_options, _words
from kalends.cli._settings import Settings
from kalends.client.scripts import Agent
from kalends.client.sync import SyncClient
from kalends.contract.calls import Patience, RequestView
from kalends.core.errors import KalendsError, LostRace, NoCommonTime, RefusalCode
from kalends.core.requests import Request

F = TypeVar("F", bound=Callable[..., Any])

ALTERNATIVES = 3
"""Other starts that are shown where nothing could be had at once."""

WAIT_LONGER = "add --when-free to wait until what you asked for is free"

MENDED_BY_TIME = frozenset({RefusalCode.BUSY, RefusalCode.HELD})
"""What comes free when somebody cancels; no waiting list helps against anything else."""


class Options(_request_options.When, _wait_options.Options):
    """The options of `book` and `hold`; passed on as they were typed."""

    agent: str | None
    argument: tuple[str, ...]
    prefer: tuple[str, ...]
    priority: int
    note: str
    key: str


class Asked:
    """A request as it will be sent, and how. Says it on standard error; raises `InvalidInput`."""

    def __init__(
        self, settings: Settings, client: SyncClient, text: str, options: Options, copies: int = 1
    ) -> None:
        self.client = client
        self.waits = _wait_options.waits(options)
        self.agent: Agent = _agent_options.agent_named(options["agent"])
        preferences = _request_options.preferred(settings, client, options["prefer"])
        self.wanted = client.request(
            text, duration=options["duration"], at=options["at"], window=_request_options.window(options),
            note=options["note"], priority=options["priority"], prefer=preferences,
            agent=self.agent, arguments=_agent_options.argument_values(options["argument"]),
        )  # fmt: skip
        self.give_up_at = client.time_s(options["until"]) if options["until"] else None
        self.key = options["key"] or client.new_key()
        said = _words.Said(
            key=self.key, preferences=preferences, patience=self.waits.patience,
            give_up_at=self.give_up_at, copies=copies,
        )  # fmt: skip
        _request_options.echo(settings, self.wanted, options, said)

    @property
    def patience(self) -> Patience:
        return self.waits.patience


def options(function: F) -> F:
    """The options of `Options` but those that say when."""
    for decorate in (
        _wait_options.options,
        click.option(
            "--key",
            default="",
            metavar="KEY",
            help="Your own key for this call: repeating it with the same key books once.",
        ),
        click.option("--note", default="", metavar="TEXT", help="A note, for yourself."),
        click.option(
            "--priority",
            type=click.IntRange(-100, 100),
            default=0,
            metavar="N",
            help="A head start in lines, as far as the broker allows you one.",
        ),
        _agent_options.agent_options,
        _request_options.prefer_option,
    ):
        function = decorate(function)
    return function


def run(
    settings: Settings,
    text: str,
    options: Options,
    send: Callable[[Asked, float], RequestView],
) -> int:
    """Say what is asked, `send` it with the time to wait, wait on as `options` say, print the answer."""
    with settings.connect() as client:
        asked = Asked(settings, client, text, options)
        try:
            view = _wait_options.settled(
                settings, client, asked.waits, asked.key, lambda wait_s: send(asked, wait_s)
            )
        except (NoCommonTime, LostRace) as error:
            if settings.json or asked.patience == "taken":
                raise
            if asked.patience == "none":
                return tell_alternatives(settings, client, asked.wanted, error)
            return tell_refusal(error, fixed=options["at"] is not None)
        visits = _request_options.visits(settings, client, view)
    _request_options.answer(settings, view, visits)
    return 0


def tell_refusal(error: KalendsError, *, fixed: bool) -> int:
    """Say what stood in the way, and whether a waiting list would help; the exit code of `error`.

    Of a `fixed` start each site has said itself what is taken; in a window an access rule may also
    be why nothing is free.
    """
    told = _problems.lines(error)
    if fixed and error.refusals and all(each.code in MENDED_BY_TIME for each in error.refusals):
        told.append(WAIT_LONGER)
    for line in told:
        _output.say(line, error=True)
    return error.exit_code


def tell_alternatives(
    settings: Settings, client: SyncClient, wanted: Request, error: KalendsError
) -> int:
    """Say what stood in the way, and which later starts are free now; the exit code of `error`."""
    told = _problems.lines(error)
    wider = structs.replace(wanted, not_after=0, agent="", arguments={})
    try:
        free = client.find(wider, count=ALTERNATIVES).candidates
    except KalendsError:
        free = ()
    if free:
        told += ["free now, from then on:", *_words.candidate_lines(free, settings.time_zone())]
    told.append(WAIT_LONGER)
    for line in told:
        _output.say(line, error=True)
    return error.exit_code
