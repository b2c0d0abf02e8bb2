"""Jobs in step on the command line: one for several machines, which start together."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from kalends.cli.console.settings import Settings
from kalends.client.inputs.job_texts import job_from
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource
from kalends.core.steps import Step

if TYPE_CHECKING:
    from kalends.client.inputs.request_builder import Time, Window

OTHER_WORDS: Final = {
    "nodes": "--nodes", "sizes": "--sizes", "shape": "--shape", "malleable": "--malleable",
    "reservation": "--reservation", "after": "--after", "held": "--held", "rerun": "--rerun",
    "array": "--array", "on": "--on", "prefer": "--prefer", "home": "--home",
    "at_most_once": "--at-most-once", "redundant": "--redundant",
    "implementations": "--implementations", "pick": "--pick",
}  # fmt: skip
"""Options of a job that has one machine, or is left to a broker."""

STEP_WORDS: Final = {
    "parts": "--part", "wait_for_parts": "--wait-for-parts", "keep_slots": "--keep-slots",
}  # fmt: skip
"""Options of a job that has several."""


class PartsTimes(NamedTuple):
    """When a job in step may run, as `Client.submit_in_step` takes it, and the key of the call."""

    at: Time | None
    window: Window
    key: str


def is_request(machine: str) -> bool:
    """Return whether several machines are named, or how many nodes of one: as in requests."""
    return any(sign in machine for sign in "+|:{ ")


def submit(settings: Settings, request: str, step: Step, booking: PartsTimes) -> None:
    """Have a job start on all machines of `request` together, and tell which jobs its parts are."""
    with settings.connect() as client:
        view = client.submit_in_step(request, step.job, step.jobs, **booking._asdict())
    from kalends.cli.requests import (
        request_options,  # It reads requests, and other commands start without.
    )

    request_options.answer(settings, view)


def booking(begin: str, at: str, end_by: str, key: str = "") -> PartsTimes:
    """Return when a job in step may run, as options say it."""
    return PartsTimes(at or None, (begin or None, end_by or None), key)


def step_from(
    request: str, program: Sequence[str], *, script: str, limit: str | None, options: dict[str, Any]
) -> Step:
    """Return what the options have run on the machines of `request`; raises `InvalidInput`."""
    for name, option in OTHER_WORDS.items():
        if options.get(name):
            raise InvalidInput(
                f"it is for jobs of one machine, and {request} asks for parts that start together",
                where=option,
                remedy="leave out either",
            )
    commands = dict(_command(each) for each in options["parts"])
    first = program or next(iter(commands.values()), ())
    options = {**options, "nodes": 1}
    common = job_from("", first, not_before=0, script=script, limit=limit, options=options)
    jobs = {
        machine: structs.replace(common, command=command, script="")
        for machine, command in commands.items()
    }
    return Step(job=common if program or script else None, jobs=jobs)


def refuse_alone(command: str, options: dict[str, Any]) -> None:
    """Take out what is said of parts; raises `InvalidInput` where it is said of a job on one machine."""
    for name, option in STEP_WORDS.items():
        if options.pop(name):
            raise InvalidInput(
                "it is for parts on several machines, and one is named, or none",
                where=option,
                remedy=f"name their machines: kalends {command} 'sdsc/sp2:8 + ctc/onyx:4' ...",
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
            f"{text!r} does not say what runs where",
            where="--part",
            remedy="write a machine and its command, as --part 'sdsc/onyx=./show --fast'",
        )
    return machine.strip(), words
