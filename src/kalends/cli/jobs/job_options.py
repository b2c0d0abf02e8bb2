"""Options of a job on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import click

from kalends.cli.console.settings import Settings
from kalends.cli.jobs.in_step import is_request
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource

F = TypeVar("F", bound=Callable[..., Any])


def job_options(function: F) -> F:
    """Add the options that every job has."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def machine_argument(function: F) -> F:
    """Add the machine that a command is about: the user's usual one where none is named."""
    return click.argument("machine", required=False, default="", callback=_machine)(function)


def machine_or_wish(function: F) -> F:
    """Add the machine, and what is wished of one where none is named: then a broker finds it."""
    for option in reversed(_WISHES):
        function = option(function)
    return click.argument("machine", required=False, default="", callback=_machine_or_wish)(
        function
    )


def step_options(function: F) -> F:
    """Add what is said of the parts of a job on several machines."""
    for option in reversed(_STEPS):
        function = option(function)
    return function


class Wish(NamedTuple):
    """What is wished of a machine where none is named: arguments of `Client.place_job`."""

    on: str = ""
    end_by: str | None = None
    prefer: Mapping[str, str] = MappingProxyType({})
    homes: tuple[str, ...] = ()
    at_most_once: bool = False
    redundant: bool = False
    by_limits: bool = False


def wish_of(machine: str, reservation: str, options: dict[str, Any]) -> Wish:
    """Take out of `options` what is wished of a machine.

    Raises `InvalidInput` for a machine, and wishes of one; and for a reservation of no machine.
    """
    names = ("on", "end_by", "prefer", "home", "at_most_once", "redundant", "by_limits")
    given = {name: options.pop(name, False) for name in names}
    named = [name for name, value in given.items() if value]
    if machine and named:
        raise InvalidInput(
            f"it is for jobs that are left to a broker, and {machine} is named",
            where=f"--{named[0].replace('_', '-')}",
            remedy="leave out either",
        )
    if not machine and reservation:
        raise InvalidInput(
            "a reservation, and no machine",
            where="MACHINE",
            remedy="name the machine whose nodes are reserved",
        )
    prefer: dict[str, str] = {}
    if given["prefer"]:
        from kalends.client.inputs.place_builder import preference_named  # Others start without it.

        prefer = dict(preference_named(each) for each in given["prefer"])
    return Wish(
        given["on"], given["end_by"] or None, prefer, given["home"],
        given["at_most_once"], given["redundant"], given["by_limits"],
    )  # fmt: skip


def _machine_or_wish(ctx: click.Context, parameter: click.Parameter, machine: str) -> str:
    """The usual machine is a habit, which a wish in the command itself puts aside."""
    if not machine and (ctx.params.get("on") or ctx.params.get("end_by")):
        return ""
    named = machine or _usual(ctx)
    if machine and os.path.isfile(machine):
        raise InvalidInput(
            f"{machine!r} is a file, and not a machine",
            where="MACHINE",
            remedy=f"kalends {ctx.info_name} --script {quote(machine)}",
        )
    return named if not named or is_request(named) else _checked(ctx, named)


def _machine(ctx: click.Context, parameter: click.Parameter, machine: str) -> str:
    return _checked(ctx, machine or _usual(ctx))


def _usual(ctx: click.Context) -> str:
    """Return the machine of the environment, or of the user's profile."""
    settings = ctx.ensure_object(Settings)
    settings.settle()
    return settings.machine


def _checked(ctx: click.Context, machine: str) -> str:
    try:
        split_resource(machine)
    except InvalidInput as error:
        raise InvalidInput(
            f"{machine!r} is not a machine" if machine else "no machine is named",
            where="MACHINE",
            remedy=f"write kalends {ctx.info_name} sdsc/sp2 ..., or set KALENDS_MACHINE",
        ) from error
    return machine


_WISHES = (
    click.option("--on", default="", is_eager=True, metavar="ATTRIBUTES",
                 help="Without a machine: what it must have, e.g. 'memory>=64, site=sdsc'."),
    click.option("--end-by", default="", is_eager=True, metavar="TIME",
                 help="Without a machine, or with several: latest end, e.g. 'tomorrow 9:00'."),
    click.option("--prefer", multiple=True, metavar="ATTRIBUTES:DURATION",
                 help="Without a machine: what may end so much later, e.g. site=sdsc:30m; may be repeated."),
    click.option("--home", multiple=True, metavar="SITE",
                 help="Without a machine: site that is always asked, or virtual site of which one is; may be "
                      "repeated."),
    click.option("--at-most-once", is_flag=True,
                 help="Without a machine: note at the broker where it starts, before it does."),
    click.option("--by-limits", is_flag=True,
                 help="Without a machine: compare bids as if it ran to its limit, unlike earlier jobs."),
)  # fmt: skip

_STEPS = (
    click.option("--part", "parts", multiple=True, metavar="'MACHINE=COMMAND'",
                 help="With several machines: what runs on one of them; may be repeated."),
    click.option("--wait-for-parts", default="", metavar="DURATION",
                 help="With several machines: longest wait for the nodes of all, e.g. 5m.  [default: 2m]"),
    click.option("--keep-slots", is_flag=True,
                 help="With several machines: keep their slots when all parts have ended."),
)  # fmt: skip

_OPTIONS = (
    click.option("-n", "--nodes", type=click.IntRange(1), metavar="N",
                 help="Number of nodes.  [default: 1, or the first of --sizes]"),
    click.option("--for", "limit", metavar="DURATION",
                 help="Longest time that it may run, e.g. 1h30m; with --sizes one for each, e.g. 4h,2h,1h."),
    click.option("--name", default="", metavar="TEXT", help="Name to find it by."),
    click.option("--project", default="", metavar="NAME", help="Project that it is charged to."),
    click.option("--priority", default="", metavar="CLASS",
                 help="Priority class of the machine, e.g. high."),
    click.option("--shape", default="", metavar="AxB",
                 help="Extent on a machine with a topology, e.g. 4x8."),
    click.option("--sizes", default="", metavar="N,N,...",
                 help="Numbers of nodes that it can run on, e.g. 2,4,8."),
    click.option("--malleable", is_flag=True, help="It can change its size while it runs."),
    click.option("--change", default="", metavar="DURATION",
                 help="Time that one change of size is expected to take, e.g. 2s."),
    click.option("--directory", default="", metavar="PATH",
                 help="Working directory on the machine.  [default: your home there]"),
    click.option("--env", "environment", multiple=True, metavar="NAME=VALUE",
                 help="Variable of its environment; may be repeated."),
    click.option("--reservation", default="", metavar="ID",
                 help="Run on the nodes and in the time of your own reservation."),
    click.option("--at", default="", metavar="TIME",
                 help="Start then, on nodes that are booked for it, e.g. 'tomorrow 9:00'."),
    click.option("--begin", default="", metavar="TIME", help="Earliest start, e.g. 'today 18:00'."),
    click.option("--after", multiple=True, metavar="JOB[:WHEN]",
                 help="Wait until JOB has succeeded, or started, ended, failed; may be repeated."),
    click.option("--held", is_flag=True, help="Submit it held; kalends job JOB --release starts it."),
    click.option("--rerun", is_flag=True,
                 help="Run it again if a node fails, or at another site: twice does no harm."),
    click.option("--notify", default="", metavar="WHEN,...",
                 help="Mail to you when it begins, ends or fails, e.g. begin,end,fail; with each, for each "
                      "job of an array."),
    click.option("--notify-to", default="", metavar="ADDRESS",
                 help="Mail address, or URL of a webhook, that the site allows.  [default: your own]"),
    click.option("--warn", default="", metavar="SIGNAL@DURATION",
                 help="Send a signal before its time is over, e.g. USR1@60s."),
)  # fmt: skip
