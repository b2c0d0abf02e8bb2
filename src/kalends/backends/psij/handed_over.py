"""A job as it is handed over to a batch system, and the script by which it runs there."""

from __future__ import annotations

import os
from shlex import quote
from typing import Final, Protocol

import msgspec

from kalends.backends.command_runner import CLEAN

FOLDER: Final = ".kalends/handed-over"
"""In the home of each user; the nodes see it."""

SCRIPT, RUN = "script", "run"
BY_COMMANDS: Final = "slurm's commands"

CANNOT_ENTER: Final = "cannot enter"
"""So begins why a job was not started that names a directory which is not there."""

_NATIVE: Final = "".join(
    f"${{{name}:-"
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID", "FLUX_JOB_ID")
)
_RUN: Final = """#!/bin/sh
cd {folder} || exit 0
echo "begun {native}" > turn.$$
ln turn.$$ turn 2>/dev/null; ours=$?; rm -f turn.$$
[ $ours = 0 ] || exit 0
over() {{ echo "$1" > ended.$$; ln ended.$$ ended 2>/dev/null; rm -f ended.$$; }}
trap : HUP INT TERM USR1 USR2 XCPU
( cd {directory} ) || {{ over "not-started {cannot} {named}"; exit 127; }}
(
cd {directory} || exit 127
umask {umask}
{plain}{exports}exec {words} <{input} >>{output} 2>>{error}
)
code=$?
over "exit $code"
exit $code
"""
"""Whoever comes second, or too late, goes away. It outlives the signals by which systems ask a job to end."""

_PLAIN: Final = "".join(
    f'[ "${{{name}-}}" != {value} ] || unset {name}\n'
    for name, value in CLEAN.items()
    if name != "PATH"
)
"""Programs do not get the locale and the time zone of the commands that submitted their job."""


_MEANS: Final = '\\"$`\n'
"""What a shell would not take for itself between double quotes."""


class NotTaken(Exception):
    """The system did not do what was asked, in its words."""


class NoAnswer(NotTaken):
    """Nobody knows whether it has done it, or will yet; what was asked for may be asked for again."""


class HandedOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to run, on how many nodes and for how long. Paths are relative to the user's home."""

    argv: tuple[str, ...]
    """The program and its arguments; with `script` its arguments alone."""
    nodes: int
    limit_s: int
    script: str = ""
    environment: dict[str, str] = {}
    umask: str = "022"
    directory: str = ""
    input: str = ""
    output: str = ""
    """"" keeps it in the attempt's folder; an `error` of "" goes where `output` goes."""
    error: str = ""


class Executor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the batch system is reached, as the owner says; `look_s` is the pause between two looks."""

    name: str
    """PSI/J's for the system; or `BY_COMMANDS`: a Slurm is reached by its own commands."""
    system: str
    """What its owner calls the batch system."""
    site: str
    machine: str
    look_s: int
    queue: str = ""
    project: str = ""
    attributes: dict[str, str | int | float | bool] = {}
    options: tuple[str, ...] = ()
    """Options of ``sbatch``, added for every job."""
    answer_s_max: float = 6.0
    """A command of Slurm's that has not ended by then has no answer."""
    keep_s: int = 30 * 86_400
    """Folders of attempts that are over are kept for so long."""


class JobLaunch(Protocol):
    """What a desk asks of a batch system, by whatever it is reached. Several threads call it."""

    @property
    def version(self) -> str:
        """Return what it is reached by, for people; raises `NotTaken` where that does not work."""
        ...

    def submit(self, attempt: str, name: str, program: str, job: HandedOver) -> str:
        """Submit `program` as the job `name`; return its number. Raises `NotTaken`, `NoAnswer` among them."""
        ...

    def foresee(self, nodes: int, limit_s: int) -> int:
        """Return when such a job would start (seconds UTC), which holds nothing; raises as `submit`."""
        ...

    def attach(self, attempt: str, native: str) -> None:
        """Watch a job by its number."""
        ...

    def gone(self, attempt: str) -> str | None:
        """Return what is said of a job that is there no more; None: it is there, or nobody knows."""
        ...

    def cancel(self, attempt: str, name: str, native: str) -> None:
        """End a job, whose number "" is not known. Raises `NotTaken`."""
        ...

    def forget(self, attempt: str) -> None:
        """Watch it no more."""
        ...


def run_text(job: HandedOver, folder: str, home: str, *, local: bool) -> str:
    """Return the script of an attempt; no text of the user's is anything but one word in it."""
    directory = os.path.join(home, job.directory)

    def there(path: str, default: str) -> str:
        return quote(os.path.join(directory, path) if path else default)

    kept = f"{folder}/output"
    output = there(job.output, kept)
    program = [f"{folder}/{SCRIPT}", *job.argv] if job.script else list(job.argv)
    exports = "".join(f"export {name}={quote(value)}\n" for name, value in job.environment.items())
    native = _NATIVE + ("$$" if local else "") + "}" * _NATIVE.count("${")
    return _RUN.format(
        folder=quote(folder),
        native=native,
        directory=quote(directory),
        named="".join(each if each not in _MEANS else "?" for each in directory),
        cannot=CANNOT_ENTER,
        umask=job.umask,
        plain=_PLAIN,
        exports=exports,
        words=" ".join(map(quote, program)),
        input=there(job.input, "/dev/null"),
        output=output,
        error=there(job.error, "") if job.error else output,
    )
