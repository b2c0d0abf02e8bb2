"""Jobs in step on the command line: one for several machines, which start together."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from kalends.cli._settings import Settings
from kalends.client.job_texts import job_from
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource

OTHER_WORDS: Final = {
    "nodes": "--nodes", "sizes": "--sizes", "shape": "--shape", "malleable": "--malleable",
    "reservation": "--reservation", "after": "--after", "held": "--held", "rerun": "--rerun",
    "array": "--array", "on": "--on", "prefer": "--prefer", "home": "--home",
    "at_most_once": "--at-most-once", "redundant": "--redundant",
    "implementations": "--implementations", "pick": "--pick",
}  # fmt: skip
"""Options of a job that has one machine, or is left to a broker."""


def is_request(machine: str) -> bool:
    """Return whether several machines are named, or how many nodes of one: as in requests."""
    return any(sign in machine for sign in "+|:{ ")


def submit(
    settings: Settings, request: str, program: Sequence[str], parts: Sequence[str], *,
    script: str, limit: str | None, begin: str, at: str, key: str, options: dict[str, Any],
) -> None:  # fmt: skip
    """Have a job start on all machines of `request` together, and tell which jobs its parts are."""
    refuse(request, options, OTHER_WORDS)
    commands = dict(_command(each) for each in parts)
    first = program or next(iter(commands.values()), ())
    options = {**options, "nodes": 1}
    common = job_from("", first, not_before=0, script=script, limit=limit, options=options)
    job = common if program or script else None
    jobs = {
        machine: structs.replace(common, command=command, script="")
        for machine, command in commands.items()
    }
    with settings.connect() as client:
        view = client.submit_in_step(
            request, job, jobs, duration=common.limit_s, at=at or None,
            window=(begin or None, options["end_by"] or None), key=key,
        )  # fmt: skip
    from kalends.cli import _request_options  # It reads requests, and other commands start without.

    _request_options.answer(settings, view)


def refuse(request: str, options: Mapping[str, Any], words: Mapping[str, str]) -> None:
    """Raise `InvalidInput` for an option that says nothing of parts on several machines."""
    for name, option in words.items():
        if options.get(name):
            raise InvalidInput(
                f"it is for jobs of one machine, and {request} asks for parts that start together",
                where=option,
                remedy="leave out either",
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
