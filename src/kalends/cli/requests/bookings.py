"""Booking a request: ``kalends book`` and ``kalends hold``, with their options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypedDict, Unpack

import click
from msgspec import structs

from kalends.cli.console import output, problems
from kalends.cli.console.commands import all_of, section, server_command
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import (
    agent_options,
    find,
    request_options,
    request_texts,
    series,
    waiting_texts,
)
from kalends.client.inputs.scripts import Agent
from kalends.client.methods.request_calls import COPIES_MAX, PROMPT_S
from kalends.client.sync import SyncClient
from kalends.contract.calls import Patience, RequestView
from kalends.core.errors import (
    KalendsError,
    LostRace,
    NoCommonTime,
    RefusalCode,
    error_from_problem,
)
from kalends.core.requests import Request

ALTERNATIVES = 3
"""The number of free starts that are shown if nothing could be booked at once."""

WAIT_LONGER = "add --when-free to wait until the request can be booked"

MENDED_BY_TIME = frozenset({RefusalCode.BUSY, RefusalCode.HELD})
"""Refusals that a cancellation can cure; waiting lists help against no others."""

_call = section("Call")


class BookingOptions(
    request_options.When, request_options.WaitOptions, request_options.PriceOptions
):
    """The options of `book` and `hold`, as they were typed."""

    agent: str | None
    argument: tuple[str, ...]
    agent_must_run: bool
    prefer: tuple[str, ...]
    priority: int
    note: str
    project: str
    on_behalf_of: str
    traffic: str
    key: str


class BookingTerms(TypedDict):
    """Arguments of all calls that book or hold."""

    agent: Agent
    patience: Patience
    give_up_at: int | None
    key: str
    on_behalf_of: str


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
        self.waits = request_options.waits(options)
        agent = agent_options.agent_named(options["agent"])
        preferences = request_options.preferred(settings, client, options["prefer"])
        self.wanted = client.request(
            text, duration=options["duration"], at=options["at"], window=request_options.window(options),
            note=options["note"], priority=options["priority"],
            prefer=request_options.with_price(preferences, options["prefer"]),
            at_most=options["at_most"], rates=options["rate"], project=options["project"],
            agent=agent, arguments=agent_options.argument_values(options["argument"]),
            agent_must_run=options["agent_must_run"], traffic=options["traffic"],
        )  # fmt: skip
        until, key = options["until"], options["key"] or client.new_key()
        give_up_at = client.time_s(until, where="--until") if until else None
        self.terms = BookingTerms(
            agent=agent, patience=self.waits.patience, give_up_at=give_up_at, key=key,
            on_behalf_of=options["on_behalf_of"],
        )  # fmt: skip
        said = request_texts.Said(key, preferences, self.waits.patience, give_up_at, copies)
        request_options.echo(settings, client, self.wanted, options, said)


booking_options = all_of(
    request_options.prefer_option,
    request_options.price_options,
    request_options.traffic_option,
    agent_options.agent_options,
    request_options.wait_options,
    _call(
        "--priority",
        type=WholeNumber(-100, 100),
        default=0,
        show_default=True,
        metavar="N",
        help="Head start in wait queues, as far as the broker allows it.",
    ),
    _call(
        "--project",
        default="",
        metavar="NAME",
        help="Project that pays, or one for each site, e.g. sdsc=dna.  [default: yourself]",
    ),
    _call(
        "--on-behalf-of",
        default="",
        metavar="USER",
        help="User in whose name to book, if the broker's operator lets you.",
    ),
    _call("--note", default="", metavar="TEXT", help="Note for yourself, e.g. 'run 7'."),
    _call(
        "--key",
        default="",
        metavar="KEY",
        help="Idempotency key: a repeated call with the same key books once.  [default: a new one]",
    ),
)
"""The options of `BookingOptions`, except for the time."""


def _run(
    settings: Settings, text: str, options: BookingOptions, send: Callable[..., RequestView]
) -> int:
    """Echo the request, `send` it by a method of the client, wait as `options` say, and print the answer."""
    with settings.connect() as client:
        asked = Asked(settings, client, text, options)
        try:
            view = request_options.settled(
                settings, client, asked.waits, asked.terms["key"],
                lambda wait_s: send(client, asked.wanted, **asked.terms, wait_s=wait_s),
            )  # fmt: skip
        except (NoCommonTime, LostRace) as error:
            if settings.json or asked.waits.patience == "taken":
                raise
            if asked.waits.patience == "none":
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
            *find.candidate_lines(free, settings.time_zone()),
        ]
    told.append(WAIT_LONGER)
    for line in told:
        output.say(line, error=True)
    return error.exit_code


def _book_copies(settings: Settings, text: str, options: BookingOptions, copies: int) -> int:
    """Book them all, print each, and return the exit code of the first that failed, or 0."""
    with settings.connect() as client:
        asked = Asked(settings, client, text, options, copies)
        views = client.book_copies(asked.wanted, copies, **asked.terms, wait_s=PROMPT_S)
        views = [_settled_copy(settings, client, asked, view) for view in views]
    zone = settings.time_zone()
    output.answer(
        settings, "requests", views,
        lambda: [line for view in views for line in request_texts.request_lines(view, zone)],
    )  # fmt: skip
    for view in views:
        for line in waiting_texts.what_next(view, zone):
            output.say(line, error=True)
    failed = [view.problem for view in views if view.problem is not None]
    return error_from_problem(failed[0]).exit_code if failed else 0


def _settled_copy(
    settings: Settings, client: SyncClient, asked: Asked, view: RequestView
) -> RequestView:
    """Return a copy once it is settled; a failed copy is shown, because the others remain booked."""
    if view.state != "open":
        return view
    try:
        return request_options.settled(
            settings, client, asked.waits, asked.terms["key"], lambda _: view
        )
    except KalendsError:
        return client.show(view.id)


def _book_series(
    settings: Settings, text: str, options: BookingOptions, said: series.SeriesOptions
) -> int:
    if (
        options["at"] is None
        or options["no_wait"]
        or options["when_free"]
        or options["agent"]
        or options["on_behalf_of"]
    ):
        raise click.UsageError(
            "A series needs --at, and excludes --no-wait, --when-free, --agent and --on-behalf-of."
        )
    rule = series.rule_of(said, options["until"])
    options["until"] = None
    with settings.connect() as client:
        asked = Asked(settings, client, text, options)
        wait = options["wait"] or request_options.WAIT_DEFAULT
        return series.book_series(
            settings, client, asked.wanted, asked.terms["key"], rule, said, wait
        )


@server_command(
    "book",
    "kalends book 'sdsc/sp2:64 + ncsa/cave' --for 2h --at 'tomorrow 09:00'",
    "kalends book ncsa/cave --for 2h --at 'tue 14:00' --every week --times 15",
)
@click.argument("request")
@request_options.when_options
@booking_options
@_call("--copies", type=WholeNumber(1, COPIES_MAX), default=1, show_default=True, metavar="N",
       help="Number of copies, booked one by one under the keys KEY-1 to KEY-N.")  # fmt: skip
@series.series_options
def book(
    settings: Settings,
    request: str,
    copies: int,
    every: str | None,
    times: int | None,
    rrule: str | None,
    skip: tuple[str, ...],
    as_many: bool,
    give: str | None,
    keep_going: bool,
    **options: Unpack[BookingOptions],
) -> int:
    """Book every part of a request, or nothing.

    Waits up to a minute for slots that others hold; Ctrl-C leaves the request waiting. The request as
    understood and the key of the call are printed first. If the answer is lost, `kalends show --key
    KEY` reports the outcome, and the same command with `--key KEY` never books twice. If an agent
    fails, its site chooses the earliest slots.

    With --every or --rrule, books a series of occurrences from --at on, each at the same local hour. It ends
    after --times, or with the day --until.
    """
    said = series.SeriesOptions(every, times, rrule, skip, as_many, give, keep_going)
    if said.wanted:
        return _book_series(settings, request, options, said)
    if times or skip or as_many or give or keep_going:
        raise click.UsageError("The options of a series need --every or --rrule.")
    if copies > 1:
        return _book_copies(settings, request, options, copies)
    return _run(settings, request, options, SyncClient.book)


@server_command(
    "hold",
    "kalends hold 'sdsc/sp2:64 + ncsa/cave' --for 2h --keep 30m",
    "kalends hold 'ncsa/cave' --for 1h --when-free --before 'now+2d'",
)
@click.argument("request")
@request_options.when_options
@section("Time")(
    "--keep", default="15m", show_default=True, metavar="DURATION", help="Lifetime of the hold."
)
@booking_options
def hold(settings: Settings, request: str, keep: str, **options: Unpack[BookingOptions]) -> int:
    """Hold slots until they are locked or released.

    A hold expires automatically after --keep. An older request may recall it sooner, which `kalends watch`
    reports. With --when-free, slots that are taken now are held when they come free.
    """
    return _run(settings, request, options, partial(SyncClient.hold, keep=keep))
