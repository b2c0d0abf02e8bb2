"""A job from texts, as the command line and plug-ins for other programs read it.

Errors name the options of `kalends submit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, get_args

from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource
from kalends.core.jobs import (
    OWN_VARIABLES,
    WARNING_SIGNALS,
    After,
    Dependency,
    JobRequest,
    LimitWarning,
    Notify,
    Occasion,
)
from kalends.core.limits import JOB_INDICES_MAX
from kalends.core.money import NO_CAP, parse_credits
from kalends.core.number_ranges import numbers_in


class JobName(NamedTuple):
    """The name of a job: its machine, and its number there."""

    machine: str
    number: int


def job_from(
    machine: str, command: Sequence[str], *, not_before: int, script: str, limit: str | None,
    options: Mapping[str, Any], at: int = 0, terminal: bool = False, piped: bool = False,
) -> JobRequest:  # fmt: skip
    """Return the job that the options describe; raises `InvalidInput`."""
    reservation = options.get("reservation", "")
    sizes = _numbers(options["sizes"], ",", "--sizes")
    limits_s = _limits_s(limit, sizes, reservation)
    if options["change"] and not options["malleable"]:
        raise InvalidInput(
            "works only with --malleable",
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
        change_s=_seconds(options["change"], "--change"),
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
        parts_wait_s=_seconds(options.get("wait_for_parts", ""), "--wait-for-parts"),
        keep_slot=options.get("keep_slots", False),
        at_most=parse_credits(amount, "--at-most")
        if (amount := options.get("at_most"))
        else NO_CAP,
    )
    job.check()
    return job


def _limits_s(limit: str | None, sizes: Sequence[int], reservation: str) -> tuple[int, ...]:
    """Return the limits that ``--for`` gives; none if the job may run until its reservation ends."""
    if limit is None and not reservation:
        raise InvalidInput(
            "the time limit is missing",
            where="--for",
            remedy="give the longest run time, e.g. --for 1h",
        )
    lengths = limit.split(",") if limit is not None else ()
    limits_s = tuple(parse_duration(each, where="--for") for each in lengths)
    if len(limits_s) > 1 and len(limits_s) != len(sizes):
        raise InvalidInput(
            f"{len(limits_s)} limits for {len(sizes) or 'no'} sizes",
            where="--for",
            remedy="give one limit, or one for each of --sizes",
        )
    return limits_s


def job_named(text: str) -> JobName:
    """Read ``sdsc/sp2/17``; raises `InvalidInput` for anything else."""
    machine, _, number = text.rpartition("/")
    if not (machine and number.isascii() and number.isdecimal() and 0 < int(number[:17]) < 1 << 53):
        raise InvalidInput(
            f"{text!r} is not a job",
            where="JOB",
            remedy="write its machine and number, e.g. sdsc/sp2/17; kalends queue lists jobs",
        )
    split_resource(machine)
    return JobName(machine, int(number))


def indices_in(text: str) -> tuple[int, ...]:
    """Read ``1-10,20``; raises `InvalidInput` for anything else."""
    if not text:
        return ()
    read = numbers_in(text, where="--array", what="indices", example="1-10,20")
    found = tuple(islice(read, JOB_INDICES_MAX + 1))
    if len(found) > JOB_INDICES_MAX:
        raise InvalidInput(
            f"more than {JOB_INDICES_MAX} jobs", where="--array", remedy="submit several arrays"
        )
    return found


def _seconds(text: str, where: str) -> int:
    return parse_duration(text, where=where) if text else 0


def _numbers(text: str, separator: str, where: str) -> tuple[int, ...]:
    parts = text.split(separator) if text else []
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise InvalidInput(
            f"{text!r} is not a list of numbers with {separator} between them",
            where=where,
            remedy=f"write 2{separator}4{separator}8" if separator == "," else "write 4x8",
        )
    numbers = tuple(map(int, parts))
    if 0 in numbers:
        raise InvalidInput(f"a 0 in {text!r}", where=where, remedy="write numbers of 1 or more")
    return numbers


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInput(f"{text!r} is not a variable", where="--env", remedy="write NAME=VALUE")
    if name.startswith(OWN_VARIABLES):
        raise InvalidInput(
            f"variables that begin with {OWN_VARIABLES} are set by the machine, as {name}",
            where="--env",
            remedy="choose another name",
        )
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
            f"{happened!r} is not a condition to wait for",
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
                f"{word!r} is not an event to report",
                where="--notify",
                remedy=f"write {','.join(known)}, or some of these words",
            )
    when = tuple(each for each in known if each in words)
    if not when and (words or to):
        raise InvalidInput(
            "works only with --notify",
            where="--notify",
            remedy=f"add --notify {','.join(known)}, or some of these words",
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
            f"{signal!r} is not a signal that can warn a program",
            where="--warn",
            remedy=f"use one of {', '.join(WARNING_SIGNALS)}",
        )
    return LimitWarning(before_s=parse_duration(before, where="--warn"), signal=name)  # type: ignore[arg-type]  # one of them
