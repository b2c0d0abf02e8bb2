"""Options of a job on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource

from kalends.cli._jobs import job_named
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource
from kalends.core.jobs import (
    WARNING_SIGNALS,
    After,
    Dependency,
    JobRequest,
    LimitWarning,
    Notify,
    Occasion,
)
from kalends.core.limits import JOB_INDICES_MAX

F = TypeVar("F", bound=Callable[..., Any])


def job_options(function: F) -> F:
    """Add the options that every job has."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def machine_argument(function: F) -> F:
    """Add the machine that a command is about: that of KALENDS_MACHINE where none is named."""
    return click.argument(
        "machine", required=False, default="", envvar="KALENDS_MACHINE", callback=_checked
    )(function)


def machine_or_wish(function: F) -> F:
    """Add the machine, and what is wished of one where none is named: then a broker finds it."""
    for option in reversed(_WISHES):
        function = option(function)
    return click.argument(
        "machine", required=False, default="", envvar="KALENDS_MACHINE", callback=_checked_if_named
    )(function)


def check_wish(machine: str, on: str, end_by: str, reservation: str) -> None:
    """Raise `InvalidInput` for a machine, and wishes of one; and for a reservation of no machine."""
    if machine and (on or end_by):
        raise InvalidInput(
            f"it says what machine to look for, and {machine} is named",
            where="--on" if on else "--end-by",
            remedy="leave out either",
        )
    if not machine and reservation:
        raise InvalidInput(
            "a reservation, and no machine",
            where="MACHINE",
            remedy="name the machine whose nodes are reserved",
        )


def _checked_if_named(ctx: click.Context, parameter: click.Parameter, machine: str) -> str:
    return _checked(ctx, parameter, machine) if machine else ""


def _checked(ctx: click.Context, parameter: click.Parameter, machine: str) -> str:
    try:
        split_resource(machine)
    except InvalidInput as error:
        raise InvalidInput(
            f"{machine!r} is not a machine" if machine else "no machine is named",
            where="MACHINE",
            remedy=f"write kalends {ctx.info_name} sdsc/sp2 ..., or set KALENDS_MACHINE",
        ) from error
    return machine


def _not_empty(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """An option that is given with nothing is a mistake: a variable of the shell that is not set, say."""
    if not value and ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
        raise InvalidInput(
            "nothing is given",
            where=parameter.opts[0],
            remedy="leave the option out, or look whether a variable of your shell is not set",
        )
    return value


_WISHES = (
    click.option("--on", default="", callback=_not_empty, metavar="ATTRIBUTES",
                 help="Without a machine: what it must have, e.g. 'memory>=64, site=sdsc'."),
    click.option("--end-by", default="", callback=_not_empty, metavar="TIME",
                 help="Without a machine: latest end, e.g. 'tomorrow 9:00'."),
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
    click.option("--shape", default="", callback=_not_empty, metavar="AxB",
                 help="Extent on a machine with a topology, e.g. 4x8."),
    click.option("--sizes", default="", callback=_not_empty, metavar="N,N,...",
                 help="Numbers of nodes that it can run on, e.g. 2,4,8."),
    click.option("--malleable", is_flag=True, help="It can change its size while it runs."),
    click.option("--change", default="", callback=_not_empty, metavar="DURATION",
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
    click.option("--rerun", is_flag=True, help="Run it again if a node fails: twice does no harm."),
    click.option("--notify", default="", callback=_not_empty, metavar="WHEN,...",
                 help="Mail to you when it begins, ends or fails, e.g. begin,end,fail; with each, for each "
                      "job of an array."),
    click.option("--notify-to", default="", callback=_not_empty, metavar="ADDRESS",
                 help="Mail address, or URL of a webhook, that the site allows.  [default: your own]"),
    click.option("--warn", default="", callback=_not_empty, metavar="SIGNAL@DURATION",
                 help="Send a signal before its time is over, e.g. USR1@60s."),
)  # fmt: skip


def job_from(
    machine: str, command: Sequence[str], *, not_before: int, script: str, limit: str | None,
    options: dict[str, Any], at: int = 0, terminal: bool = False, piped: bool = False,
) -> JobRequest:  # fmt: skip
    """Return the job that the options describe; raises `InvalidInput`."""
    reservation = options.get("reservation", "")
    if limit is None and not reservation:
        raise InvalidInput(
            "no time is given", where="--for", remedy="say how long it may run, e.g. --for 1h"
        )
    lengths = limit.split(",") if limit is not None else ()
    limits_s = tuple(parse_duration(each, where="--for") for each in lengths)
    sizes = _numbers(options["sizes"], ",", "--sizes")
    if len(limits_s) > 1 and len(limits_s) != len(sizes):
        raise InvalidInput(
            f"{len(limits_s)} times for {len(sizes) or 'no'} sizes",
            where="--for",
            remedy="give one time, or one for each of --sizes",
        )
    if options["change"] and not options["malleable"]:
        raise InvalidInput(
            "it says what a change of size takes, and this job makes none",
            where="--change",
            remedy="add --malleable, or leave --change out",
        )
    job = JobRequest(
        machine=machine,
        limit_s=max(limits_s, default=0),
        nodes=options["nodes"] or (sizes[0] if sizes else 1),
        sizes=sizes,
        limits_s=limits_s if len(limits_s) > 1 else (),
        malleable=options["malleable"],
        change_s=parse_duration(options["change"], where="--change") if options["change"] else 0,
        shape=_numbers(options["shape"], "x", "--shape"),
        command=tuple(command),
        script=script,
        name=options["name"],
        project=options["project"],
        priority=options["priority"],
        directory=options["directory"],
        environment=dict(_variable(each) for each in options["environment"]),
        input=options.get("input", ""),
        output=options.get("output", ""),
        error=options.get("error", ""),
        terminal=terminal,
        piped=piped,
        indices=indices_in(options.get("array", "")),
        after=tuple(_after(each, machine) for each in options["after"]),
        not_before=not_before,
        at=at,
        reservation=reservation,
        held=options["held"],
        rerun=options["rerun"],
        warning=_warning(options["warn"]),
        notify=_notify(options["notify"], options["notify_to"]),
    )
    job.check()
    return job


def indices_in(text: str) -> tuple[int, ...]:
    """Read ``1-10,20``; raises `InvalidInput` for anything else."""
    found: list[int] = []
    for part in text.split(",") if text else []:
        first, dash, last = part.partition("-")
        first, last = first.strip(), last.strip() if dash else first.strip()
        if not all(
            each.isascii() and each.isdecimal() and len(each) < 10 for each in (first, last)
        ):
            raise InvalidInput(f"{text!r} is not indices", where="--array", remedy="write 1-10,20")
        if int(last) < int(first):
            raise InvalidInput(
                f"{part.strip()!r} has its end before its begin",
                where="--array",
                remedy=f"write {last}-{first}",
            )
        if int(last) - int(first) >= JOB_INDICES_MAX:
            raise InvalidInput(
                f"more than {JOB_INDICES_MAX} jobs", where="--array", remedy="submit several arrays"
            )
        found += range(int(first), int(last) + 1)
    return tuple(found)


def _numbers(text: str, separator: str, where: str) -> tuple[int, ...]:
    parts = text.split(separator) if text else []
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise InvalidInput(
            f"{text!r} is not numbers with {separator} between them",
            where=where,
            remedy=f"write 2{separator}4{separator}8" if separator == "," else "write 4x8",
        )
    numbers = tuple(map(int, parts))
    if 0 in numbers:
        raise InvalidInput(f"a 0 in {text!r}", where=where, remedy="let each number be 1 or more")
    return numbers


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInput(f"{text!r} is no variable", where="--env", remedy="write NAME=VALUE")
    return name, value


def _after(text: str, machine: str) -> After:
    name, colon, happened = text.partition(":")
    job = job_named(name if "/" in name else f"{machine}/{name}")
    if job.machine != machine:
        raise InvalidInput(
            f"{name} is a job of another machine",
            where="--after",
            remedy=f"wait for jobs of {machine}",
        )
    known = get_args(Dependency)
    if colon and happened not in known:
        raise InvalidInput(
            f"{happened!r} is nothing to wait for",
            where="--after",
            remedy=f"write {', '.join(known)}",
        )
    return After(job=job.number, happened=happened or "succeeded")  # type: ignore[arg-type]  # checked


def _notify(text: str, to: str) -> Notify | None:
    words = [word.strip() for word in text.split(",")] if text else []
    known = get_args(Occasion)
    for word in words:
        if word not in (*known, "each"):
            raise InvalidInput(
                f"{word!r} is nothing to be told of",
                where="--notify",
                remedy=f"write {','.join(known)}, or some of them",
            )
    when = tuple(each for each in known if each in words)
    if not when and (words or to):
        raise InvalidInput(
            "it is not said when to tell you",
            where="--notify",
            remedy=f"write --notify {','.join(known)}, or some of them",
        )
    return Notify(when=when, to=to, each="each" in words) if when else None


def _warning(text: str) -> LimitWarning | None:
    if not text:
        return None
    signal, at, before = text.partition("@")
    if not at:
        raise InvalidInput(f"{text!r} has no time", where="--warn", remedy="write USR1@60s")
    name = signal.upper().removeprefix("SIG")
    if name not in WARNING_SIGNALS:
        raise InvalidInput(
            f"{signal!r} is no signal that warns a program",
            where="--warn",
            remedy=f"send one of {', '.join(WARNING_SIGNALS)}",
        )
    return LimitWarning(before_s=parse_duration(before, where="--warn"), signal=name)  # type: ignore[arg-type]  # one of them
