"""Options of a job: on one machine, on one that a broker chooses, or on several that start together."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from msgspec import structs

from kalends.cli.console.commands import all_of
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.client.inputs.job_texts import job_from
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource
from kalends.core.jobs import JobRequest
from kalends.core.steps import Step

if TYPE_CHECKING:
    from kalends.client.inputs.request_builder import Time, Window
    from kalends.client.sync import SyncClient


class Wish(NamedTuple):
    """The options of a job without a machine: arguments of `Client.place_job`."""

    on: str = ""
    end_by: str | None = None
    prefer: Mapping[str, str] = MappingProxyType({})
    homes: tuple[str, ...] = ()
    at_most_once: bool = False
    redundant: bool = False
    by_limits: bool = False
    data: tuple[str, ...] = ()


def wish_of(machine: str, options: dict[str, Any]) -> Wish:
    """Take the options of a job without a machine out of `options`.

    Raises `InvalidInput` for such an option with a machine, and for a reservation without a machine.
    """
    names = ("on", "end_by", "prefer", "home", "at_most_once", "redundant", "by_limits", "data")
    given = {name: options.pop(name, False) for name in names}
    named = [name for name, value in given.items() if value]
    if named:
        refuse_with_machine(machine, f"--{named[0].replace('_', '-')}")
    if not machine and options["reservation"]:
        raise InvalidInput(
            "--reservation needs MACHINE",
            where="MACHINE",
            remedy="name the machine whose nodes are reserved",
        )
    prefer: dict[str, str] = {}
    if given["prefer"]:
        # Imported here because most commands do not need it.
        from kalends.client.inputs.machine_requirements import preference_named

        prefer = dict(preference_named(each) for each in given["prefer"])
    return Wish(
        given["on"], given["end_by"] or None, prefer, given["home"],
        given["at_most_once"], given["redundant"], given["by_limits"], given["data"] or (),
    )  # fmt: skip


def refuse_with_machine(machine: str, option: str) -> None:
    """Raise `InvalidInput` if there is a `machine`: `option` works only without."""
    if machine:
        raise InvalidInput(
            f"cannot be used with MACHINE ({machine})", where=option, remedy="leave out one of them"
        )


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
    if ctx.params.get("charges"):
        return ""
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


machine_argument = click.argument("machine", required=False, default="", callback=_machine)
"""MACHINE, with the user's default machine."""

machine_or_wish = all_of(
    click.argument("machine", required=False, default="", callback=_machine_or_wish),
    click.option("--on", default="", is_eager=True, metavar="ATTRIBUTES",
                 help="Required attributes, e.g. 'memory>=64, site=sdsc' (without MACHINE)."),
    click.option("--end-by", default="", is_eager=True, metavar="TIME",
                 help="Latest end, e.g. 'tomorrow 9:00' (without MACHINE, or with several)."),
    click.option("--prefer", multiple=True, metavar="ATTRIBUTES:DURATION",
                 help="Attributes of better machines, and the delay they are worth, e.g. site=sdsc:30m."),
    click.option("--home", multiple=True, metavar="SITE",
                 help="Site, or virtual site, that is always asked for a bid; may be repeated "
                      "(without MACHINE)."),
    click.option("--data", multiple=True, metavar="SITE:SIZE",
                 help="Input at a site, whose transport counts, e.g. sdsc:20GB; may be repeated "
                      "(without MACHINE)."),
    click.option("--at-most-once", is_flag=True,
                 help="Register the start at the broker before the job starts (without MACHINE)."),
    click.option("--by-limits", is_flag=True,
                 help="Compare bids by the time limit, not by earlier run times (without MACHINE)."),
)  # fmt: skip

step_options = all_of(
    click.option("--part", "parts", multiple=True, metavar="'MACHINE=COMMAND'",
                 help="Command on one of several machines; may be repeated."),
    click.option("--wait-for-parts", default="", metavar="DURATION",
                 help="Longest wait for the nodes of several machines, e.g. 5m.  [default: 2m]"),
    click.option("--traffic", default="", metavar="SIZE",
                 help="Data that each node exchanges with the others in a second, where a virtual site "
                      "splits the job, e.g. 20MB.  [default: none]"),
    click.option("--keep-slots", is_flag=True,
                 help="Keep the slots of several machines when all parts have ended."),
)  # fmt: skip

job_options = all_of(
    click.option("-n", "--nodes", type=WholeNumber(1), metavar="N",
                 help="Number of nodes.  [default: 1, or the first of --sizes]"),
    click.option("--for", "limit", metavar="DURATION",
                 help="Time limit, e.g. 1h30m; with --sizes one for each, e.g. 4h,2h,1h."),
    click.option("--name", default="", metavar="TEXT", help="Name of the job, e.g. solver."),
    click.option("--project", default="", metavar="NAME", help="Project to charge."),
    click.option("--at-most", default="", metavar="CREDITS",
                 help="Budget, e.g. 40: a job that may cost more by its limit is refused."),
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


OTHER_WORDS: Final = {
    "nodes": "--nodes", "sizes": "--sizes", "shape": "--shape", "malleable": "--malleable",
    "reservation": "--reservation", "after": "--after", "held": "--held", "rerun": "--rerun",
    "array": "--array", "on": "--on", "prefer": "--prefer", "home": "--home", "data": "--data",
    "at_most_once": "--at-most-once", "redundant": "--redundant",
    "implementations": "--implementations", "pick": "--pick", "rank": "--rank",
}  # fmt: skip
"""Options of a job on one machine, or on one that a broker chooses."""

STEP_WORDS: Final = {
    "parts": "--part", "wait_for_parts": "--wait-for-parts", "keep_slots": "--keep-slots",
    "traffic": "--traffic",
}  # fmt: skip
"""Options of a job on several machines."""


class PartsTimes(NamedTuple):
    """The time, traffic and budget of a job in step, as for `Client.submit_in_step`, and the call's key."""

    at: Time | None
    window: Window
    traffic: str
    at_most: str
    key: str


def is_request(machine: str) -> bool:
    """Return whether `machine` is a request, e.g. names several machines, or a number of nodes."""
    return any(sign in machine for sign in "+|:{ ")


def booking(options: Mapping[str, Any], key: str = "") -> PartsTimes:
    """Return the time, traffic and budget of a job in step from its options."""
    begin, at, end_by = (options[name] or None for name in ("begin", "at", "end_by"))
    return PartsTimes(at, (begin, end_by), options["traffic"], options["at_most"], key)


def job_alone(
    client: SyncClient, machine: str, program: Sequence[str], options: Mapping[str, Any], *,
    script: str = "", terminal: bool = False, piped: bool = False,
) -> JobRequest:  # fmt: skip
    """Return the job that the options describe, with their times in the zone of `client`."""
    begin, at = options["begin"], options["at"]
    return job_from(
        machine, program, script=script, limit=options["limit"], options=options,
        not_before=client.time_s(begin, where="--begin") if begin else 0,
        at=client.start_s(at, where="--at") if at else 0,
        terminal=terminal, piped=piped,
    )  # fmt: skip


def step_from(
    request: str, program: Sequence[str], *, script: str, options: Mapping[str, Any]
) -> Step:
    """Return the parts to run on the machines of `request`, from the options; raises `InvalidInput`."""
    for name, option in OTHER_WORDS.items():
        if options.get(name):
            raise InvalidInput(
                f"cannot be used with a request ({request}), whose parts start together",
                where=option,
                remedy="leave out either",
            )
    commands = dict(_command(each) for each in options["parts"])
    first = program or next(iter(commands.values()), ())
    options = {**options, "nodes": 1, "at_most": ""}
    common = job_from(
        "", first, not_before=0, script=script, limit=options["limit"], options=options
    )
    jobs = {
        machine: structs.replace(common, command=command, script="")
        for machine, command in commands.items()
    }
    return Step(job=common if program or script else None, jobs=jobs)


def refuse_alone(command: str, options: dict[str, Any]) -> None:
    """Take out the options of parts; raises `InvalidInput` if the job is not on several machines."""
    for name, option in STEP_WORDS.items():
        if options.pop(name):
            raise InvalidInput(
                "works only with several machines",
                where=option,
                remedy=f"name them: kalends {command} 'sdsc/sp2:8 + ctc/onyx:4' ...",
            )


def _command(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``sdsc/onyx=./show --fast``; raises `InvalidInput`."""
    machine, sign, command = text.partition("=")
    try:
        split_resource(machine.strip())
        words = tuple(shlex.split(command))
    except (InvalidInput, ValueError):
        words = ()
    if not (sign and words):
        raise InvalidInput(
            f"{text!r} is not MACHINE=COMMAND",
            where="--part",
            remedy="write a machine and its command, e.g. --part 'sdsc/onyx=./show --fast'",
        )
    return machine.strip(), words


def check_broker(client: SyncClient, command: str) -> None:
    """Raise `InvalidInput` if the server is a site: only brokers choose a machine."""
    if client.health().role == "site":
        raise InvalidInput(
            "the machine is missing",
            where="MACHINE",
            remedy=f"write kalends {command} sdsc/sp2 ..., or set KALENDS_MACHINE; without a machine, call a "
            "broker, not a site",
        )
