"""A job in the form in which a batch system takes it, and the script that runs it there."""

from __future__ import annotations

import os
from shlex import quote
from typing import Any, Final, Protocol

import msgspec

from kalends.backends.command_runner import CLEAN

FOLDER: Final = ".kalends/handed-over"
"""In the home of each user; the nodes see it."""

SCRIPT, RUN = "script", "run"

CANNOT_ENTER: Final = "cannot enter"
"""The beginning of the reason if a job was not started because its directory does not exist."""

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
"""A second or late copy ends at once. The script survives the signals that ask a job to end."""

_PLAIN: Final = "".join(
    f'[ "${{{name}-}}" != {value} ] || unset {name}\n'
    for name, value in CLEAN.items()
    if name != "PATH"
)
"""Programs do not get the locale and the time zone of the commands that submitted their job."""


_MEANS: Final = '\\"$`\n'
"""Characters that a shell does not interpret between double quotes."""


class NotTaken(Exception):
    """The system refused the request, with its message."""


class NoAnswer(NotTaken):
    """The system may have carried out the request, or may do so later; the request may be repeated."""


class HandedOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program, its number of nodes and its time limit. Paths are relative to the user's home."""

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


class QueueAccess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner's settings for the queue of a batch system; `look_s` is the pause between two looks."""

    kind: str
    """The kind of batch system, as in the configuration of the site."""
    reached_by: str
    """What the site submits with, for people."""
    system: str
    """The owner's name of the batch system."""
    site: str
    machine: str
    look_s: int
    foresees: bool = False
    """Whether it predicts starts."""
    settings: dict[str, Any] = {}
    """The settings of the kind, as JSON has them."""
    options: tuple[str, ...] = ()
    """Options of the command that submits, added for every job."""
    answer_s_max: float = 6.0
    """Time after which a command counts as unanswered."""
    keep_s: int = 30 * 86_400
    """How long folders of ended attempts are kept."""


class JobLaunch(Protocol):
    """The requests of a desk to a batch system, however it is reached. Thread-safe."""

    @property
    def version(self) -> str:
        """Return the version by which it is reached, for people; raises `NotTaken` if that does not work."""

    @property
    def numbers_processes(self) -> bool:
        """Whether the number of a job is that of a process on this host."""

    def submit(self, attempt: str, name: str, program: str, job: HandedOver) -> str:
        """Submit `program` as the job `name`; return its number. Raises `NotTaken`, `NoAnswer` among them."""

    def foresee(self, nodes: int, limit_s: int) -> int:
        """Return when such a job would start (seconds UTC), which holds nothing; raises as `submit`."""

    def attach(self, attempt: str, native: str) -> None:
        """Watch a job by its number."""

    def gone(self, attempt: str) -> str | None:
        """Return the message about a job that has vanished; None if it exists, or its state is unknown."""

    def cancel(self, attempt: str, name: str, native: str) -> None:
        """End a job; its number may be "" (unknown). Raises `NotTaken`."""

    def forget(self, attempt: str) -> None:
        """Stop watching it."""


def run_text(job: HandedOver, folder: str, home: str, *, local: bool) -> str:
    """Return the script of an attempt; each text of the user is quoted as one word in it."""
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
