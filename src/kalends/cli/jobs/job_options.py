"""Options of a job on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import click

from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.jobs.in_step import is_request
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource

F = TypeVar("F", bound=Callable[..., Any])


def job_options(function: F) -> F:
    """Add the options of every job."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def machine_argument(function: F) -> F:
    """Add the argument MACHINE, with the user's default machine."""
    return click.argument("machine", required=False, default="", callback=_machine)(function)


def machine_or_wish(function: F) -> F:
    """Add MACHINE, and the options by which a broker chooses one if it is left out."""
    for option in reversed(_WISHES):
        function = option(function)
    return click.argument("machine", required=False, default="", callback=_machine_or_wish)(
        function
    )


def step_options(function: F) -> F:
    """Add the options of jobs on several machines."""
    for option in reversed(_STEPS):
        function = option(function)
    return function


class Wish(NamedTuple):
    """The options of a job without a machine: arguments of `Client.place_job`."""

    on: str = ""
    end_by: str | None = None
    prefer: Mapping[str, str] = MappingProxyType({})
    homes: tuple[str, ...] = ()
    at_most_once: bool = False
    redundant: bool = False
    by_limits: bool = False


def wish_of(machine: str, reservation: str, options: dict[str, Any]) -> Wish:
    """Take the options of a job without a machine out of `options`.

    Raises `InvalidInput` for such an option with a machine, and for a reservation without a machine.
    """
    names = ("on", "end_by", "prefer", "home", "at_most_once", "redundant", "by_limits")
    given = {name: options.pop(name, False) for name in names}
    named = [name for name, value in given.items() if value]
    if machine and named:
        raise InvalidInput(
            f"cannot be used with MACHINE ({machine})",
            where=f"--{named[0].replace('_', '-')}",
            remedy="leave out one of them",
        )
    if not machine and reservation:
        raise InvalidInput(
            "--reservation needs MACHINE",
            where="MACHINE",
            remedy="name the machine whose nodes are reserved",
        )
    prefer: dict[str, str] = {}
    if given["prefer"]:
        from kalends.client.inputs.place_builder import (
            preference_named,
        )  # Most commands do not need it.

        prefer = dict(preference_named(each) for each in given["prefer"])
    return Wish(
        given["on"], given["end_by"] or None, prefer, given["home"],
        given["at_most_once"], given["redundant"], given["by_limits"],
    )  # fmt: skip


def _machine_or_wish(ctx: click.Context, parameter: click.Parameter, machine: str) -> str:
    """Return the machine, or the default one unless the command asks a broker to choose."""
    if not machine and (ctx.params.get("on") or ctx.params.get("end_by")):
        return ""
    named = machine or _usual(ctx)
    if machine and os.path.isfile(machine):
        raise InvalidInput(
            f"{machine!r} is a file, not a machine",
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
            f"{machine!r} is not a machine" if machine else "the machine is missing",
            where="MACHINE",
            remedy=f"write kalends {ctx.info_name} sdsc/sp2 ..., or set KALENDS_MACHINE",
        ) from error
    return machine


_WISHES = (
    click.option("--on", default="", is_eager=True, metavar="ATTRIBUTES",
                 help="Required attributes, e.g. 'memory>=64, site=sdsc' (without MACHINE)."),
    click.option("--end-by", default="", is_eager=True, metavar="TIME",
                 help="Latest end, e.g. 'tomorrow 9:00' (without MACHINE, or with several)."),
    click.option("--prefer", multiple=True, metavar="ATTRIBUTES:DURATION",
                 help="Attributes of better machines, and the delay they are worth, e.g. site=sdsc:30m."),
    click.option("--home", multiple=True, metavar="SITE",
                 help="Site, or virtual site, that is always asked for a bid; may be repeated "
                      "(without MACHINE)."),
    click.option("--at-most-once", is_flag=True,
                 help="Register the start at the broker before the job starts (without MACHINE)."),
    click.option("--by-limits", is_flag=True,
                 help="Compare bids by the time limit, not by earlier run times (without MACHINE)."),
)  # fmt: skip

_STEPS = (
    click.option("--part", "parts", multiple=True, metavar="'MACHINE=COMMAND'",
                 help="Command on one of several machines; may be repeated."),
    click.option("--wait-for-parts", default="", metavar="DURATION",
                 help="Longest wait for the nodes of several machines, e.g. 5m.  [default: 2m]"),
    click.option("--keep-slots", is_flag=True,
                 help="Keep the slots of several machines when all parts have ended."),
)  # fmt: skip

_OPTIONS = (
    click.option("-n", "--nodes", type=WholeNumber(1), metavar="N",
                 help="Number of nodes.  [default: 1, or the first of --sizes]"),
    click.option("--for", "limit", metavar="DURATION",
                 help="Time limit, e.g. 1h30m; with --sizes one for each, e.g. 4h,2h,1h."),
    click.option("--name", default="", metavar="TEXT", help="Name of the job, e.g. solver."),
    click.option("--project", default="", metavar="NAME", help="Project to charge."),
    click.option("--priority", default="", metavar="CLASS",
                 help="Priority class of the machine, e.g. high."),
    click.option("--shape", default="", metavar="AxB",
                 help="Extent on a machine with a topology, e.g. 4x8."),
    click.option("--sizes", default="", metavar="N,N,...",
                 help="Numbers of nodes that the job can use, e.g. 2,4,8."),
    click.option("--malleable", is_flag=True, help="Allow changes of size while the job runs."),
    click.option("--change", default="", metavar="DURATION",
                 help="Expected time of a change of size, e.g. 2s."),
    click.option("--directory", default="", metavar="PATH",
                 help="Working directory on the machine.  [default: your home there]"),
    click.option("--env", "environment", multiple=True, metavar="NAME=VALUE",
                 help="Environment variable; may be repeated."),
    click.option("--reservation", default="", metavar="ID",
                 help="Your reservation whose nodes and time to use."),
    click.option("--at", default="", metavar="TIME",
                 help="Exact start, on nodes booked for the job, e.g. 'tomorrow 9:00'."),
    click.option("--begin", default="", metavar="TIME", help="Earliest start, e.g. 'today 18:00'."),
    click.option("--after", multiple=True, metavar="JOB[:WHEN]",
                 help="Job that must have succeeded, or WHEN (started, ended, failed); may be repeated."),
    click.option("--held", is_flag=True, help="Submit the job held; kalends job JOB --release starts it."),
    click.option("--rerun", is_flag=True,
                 help="Allow repeated runs, after a node has failed or at another site."),
    click.option("--notify", default="", metavar="WHEN,...",
                 help="Events to report, e.g. begin,end,fail; with each, for each "
                      "job of an array."),
    click.option("--notify-to", default="", metavar="ADDRESS",
                 help="Mail address or webhook URL, as the site allows.  [default: your own]"),
    click.option("--warn", default="", metavar="SIGNAL@DURATION",
                 help="Signal before the time limit, e.g. USR1@60s."),
)  # fmt: skip
