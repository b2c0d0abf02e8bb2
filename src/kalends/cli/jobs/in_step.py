"""Jobs in step on the command line: one job on several machines, whose parts start together."""

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
"""Options of a job on one machine, or on one that a broker chooses."""

STEP_WORDS: Final = {
    "parts": "--part", "wait_for_parts": "--wait-for-parts", "keep_slots": "--keep-slots",
}  # fmt: skip
"""Options of a job on several machines."""


class PartsTimes(NamedTuple):
    """The time of a job in step, as for `Client.submit_in_step`, and the key of the call."""

    at: Time | None
    window: Window
    key: str


def is_request(machine: str) -> bool:
    """Return whether `text` is a request, e.g. names several machines, or a number of nodes."""
    return any(sign in machine for sign in "+|:{ ")


def submit(settings: Settings, request: str, step: Step, booking: PartsTimes) -> None:
    """Start a job on all machines of `request` together, and print the jobs of its parts."""
    with settings.connect() as client:
        view = client.submit_in_step(request, step.job, step.jobs, **booking._asdict())
    from kalends.cli.requests import (
        request_options,  # It reads requests; most commands do not need it.
    )

    request_options.answer(settings, view)


def booking(begin: str, at: str, end_by: str, key: str = "") -> PartsTimes:
    """Return the time of a job in step from its options."""
    return PartsTimes(at or None, (begin or None, end_by or None), key)


def step_from(
    request: str, program: Sequence[str], *, script: str, limit: str | None, options: dict[str, Any]
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
    options = {**options, "nodes": 1}
    common = job_from("", first, not_before=0, script=script, limit=limit, options=options)
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
