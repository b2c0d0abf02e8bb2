"""Jobs: a user's requests to a machine that runs programs.

A job asks for nodes and a time to have them, and names no start: the machine's queue finds it. Everything
is a plain immutable value. `JobRequest.check` raises for a job that can never be right, whatever its origin;
the queue decides whether the machine could ever run it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.conversion import convert
from kalends.core.errors import InvalidInput
from kalends.core.features import PRICES, since
from kalends.core.job_paths import check_other_path, check_output_path
from kalends.core.money import COST_MAX, NO_CAP

JobNumber = Annotated[int, Meta(ge=1, le=1 << 53)]
"""The number of a job, given by its machine; never used again."""

JobText = Annotated[str, Meta(max_length=limits.JOB_TEXT_MAX)]
Dependency = Literal["started", "ended", "succeeded", "failed"]
Occasion = Literal["begin", "end", "fail"]

WARNING_SIGNALS: Final = ("HUP", "INT", "TERM", "USR1", "USR2", "CONT")
"""The signals that can warn a program: all can be caught."""


class _JobPart(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of the parts of a job request: immutable values, unknown fields refused."""


class After(_JobPart, frozen=True, kw_only=True):
    """A wait for another job of the same machine, until `happened`."""

    job: JobNumber
    happened: Dependency = "succeeded"


class LimitWarning(_JobPart, frozen=True, kw_only=True):
    """The signal that the program gets `before_s` seconds before its time limit."""

    before_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]
    signal: Literal["HUP", "INT", "TERM", "USR1", "USR2", "CONT"] = "TERM"


class Notify(_JobPart, frozen=True, kw_only=True):
    """Notices to the job's user, by mail or webhook, when the job begins, ends or fails.

    A job fails if it does not end with exit status 0; one notice covers both end and failure. `to` is a mail
    address, or the URL of a webhook, that the site's owner allows; "" is the mail address that the owner
    knows. There is one notice for a whole array, or with `each` for every job of it.
    """

    when: Annotated[tuple[Occasion, ...], Meta(min_length=1, max_length=3)]
    to: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.ADDRESS_PATTERN)))] = ""
    each: bool = False


OWN_VARIABLES: Final = "KALENDS_"
"""Prefix of the variables with facts about a program's job."""

RESTARTS: Final = "KALENDS_RESTARTS"
"""The variable that a broker sets: the number of earlier starts at other places."""


class JobRequest(_JobPart, frozen=True, kw_only=True):
    """One job, or with `indices` an array of jobs that differ in their index alone.

    `nodes` are wanted for at most `limit_s` seconds. With `sizes` (ascending, `nodes` one of them) the
    program can run on any of them, and changes while it runs if it is `malleable`; `limits_s` are its limits
    on each of them (the longest is `limit_s`), and `change_s` is the expected time of a change, until one
    was measured. `shape` is the extent on a machine with a topology. Either `command` (a program with its
    arguments, found on the machine's PATH) or `script` (text that begins with ``#!``) runs, in `directory`
    ("": the user's home there), with `environment` in addition to the machine's variables.

    `output` and `error` are paths for the standard streams, in which the signs of `job_paths.SIGNS` are
    replaced, e.g. ``%j`` by the job's number; "" keeps them at the machine, for ``kalends log``. `error` ""
    joins `output`. With `terminal` the job has a terminal instead, to which its user attaches. With `piped`
    as well, it has pipes instead of the terminal: bytes pass unchanged, and input has an end.

    With `reservation` (the id of one of the user's own, with nodes of the machine) the job runs on these
    nodes and in that time; `limit_s` may then be 0: until the reservation ends. With `at` it starts at that
    time, on nodes that are booked for it.

    `rerun` means that repeated starts do no harm: after a failed node the job is queued again, and its broker
    may start it again at another site. With `at_most_once` its broker stores the place before the start. With
    both, the job may start again, but only when its earlier start is known to have ended. `key` is chosen by
    the caller, and makes the submission repeatable (see the call).

    A part of a job in step waits on its nodes for the others for `parts_wait_s` (0: two minutes). With
    `keep_slot` the slots of all parts stay reserved until their ends, even if all parts have ended.
    """

    machine: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.RESOURCE_PATTERN)))]
    """The machine; "" leaves the choice to the broker."""
    limit_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)]
    nodes: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)] = 1
    sizes: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)], ...],
        Meta(max_length=limits.JOB_SIZES_MAX),
    ] = ()
    limits_s: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)], ...],
        Meta(max_length=limits.JOB_SIZES_MAX),
    ] = ()
    malleable: bool = False
    change_s: Annotated[int, Meta(ge=0, le=86_400)] = 0
    shape: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)], ...],
        Meta(max_length=limits.JOB_SHAPE_MAX),
    ] = ()
    command: Annotated[tuple[JobText, ...], Meta(max_length=limits.JOB_ARGUMENTS_MAX)] = ()
    script: Annotated[str, Meta(max_length=limits.JOB_SCRIPT_BYTES_MAX)] = ""
    name: Annotated[str, Meta(max_length=128)] = ""
    implementation: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.NAME_PATTERN)))] = ""
    """The name of the implementation that runs; "" if there is only one."""
    project: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.NAME_PATTERN)))] = ""
    priority: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.NAME_PATTERN)))] = ""
    """The name of one of the owner's priority classes; "" for the default."""
    directory: JobText = ""
    environment: Annotated[
        dict[Annotated[str, Meta(pattern=ids.whole(ids.VARIABLE_PATTERN))], JobText],
        Meta(max_length=limits.JOB_ENVIRONMENT_MAX),
    ] = {}
    input: JobText = ""
    output: JobText = ""
    error: JobText = ""
    terminal: bool = False
    piped: bool = False
    indices: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=10**9)], ...], Meta(max_length=limits.JOB_INDICES_MAX)
    ] = ()
    after: Annotated[tuple[After, ...], Meta(max_length=limits.JOB_DEPENDENCIES_MAX)] = ()
    not_before: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    """The earliest start in seconds UTC; 0: as soon as possible."""
    at: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    """The fixed start in seconds UTC; 0: none."""
    reservation: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.REQUEST_ID_PATTERN)))] = ""
    held: bool = False
    """Submit the job held: it waits until its user releases it."""
    rerun: bool = False
    at_most_once: bool = False
    parts_wait_s: Annotated[int, Meta(ge=0, le=limits.PARTS_WAIT_S_MAX)] = 0
    keep_slot: bool = False
    at_most: Annotated[int, Meta(ge=NO_CAP, le=COST_MAX), since(PRICES)] = NO_CAP
    """The budget in parts of a credit: it is refused where it may cost more, up to its limit."""
    warning: LimitWarning | None = None
    notify: Notify | None = None

    def limit_on(self, nodes: int) -> int:
        """Return the time limit on `nodes` nodes, in seconds."""
        return self.limits_s[self.sizes.index(nodes)] if self.limits_s else self.limit_s

    def check_offered(self) -> None:
        """Raise `InvalidInput` unless the job waits only for nodes, because sites bid only for such jobs."""
        if self.indices or self.after or self.reservation or self.at or self.held:
            raise InvalidInput(
                "a broker can place only a job that waits for nothing but nodes",
                where="job",
                remedy="leave out arrays, dependencies, holds, reservations and fixed starts",
            )
        self.check_alone()

    def check_alone(self) -> None:
        """Raise `InvalidInput` for options that only parts of a job in step can have."""
        for name in ("parts_wait_s", "keep_slot"):
            if getattr(self, name):
                raise InvalidInput(
                    "works only with several machines",
                    where=f"job.{name}",
                    remedy="leave it out; or submit a job on several machines to a broker: submit_in_step",
                )

    def check(self, *, from_wire: bool = False) -> None:
        """Raise `InvalidInput` for a job that can never be right; `where` is the field."""
        if not from_wire:
            convert(msgspec.to_builtins(self), JobRequest)
        _check_program(self)
        _check_sizes(self)
        if len(set(self.indices)) < len(self.indices):
            raise InvalidInput(
                "an index is given twice", where="indices", remedy="give each index once"
            )
        shortest_s = min(self.limits_s, default=self.limit_s)
        if not self.limit_s and not self.reservation:
            raise InvalidInput(
                "the time limit is missing", where="limit_s", remedy="give the longest run time"
            )
        if self.warning is not None and self.limit_s and self.warning.before_s >= shortest_s:
            raise InvalidInput(
                f"a warning {self.warning.before_s} s before the end of a job of {shortest_s} s",
                where="warning.before_s",
                remedy="give a warning that comes after the start",
            )
        if self.at and (
            self.reservation or self.not_before or self.after or self.held or self.indices
        ):
            raise InvalidInput(
                "a fixed start cannot be combined with other conditions of the start, or an array",
                where="at",
                remedy="leave out reservation, not_before, after, held and indices",
            )
        for name in self.environment:
            if name.startswith(OWN_VARIABLES) and name != RESTARTS:
                raise InvalidInput(
                    f"variables that begin with {OWN_VARIABLES} are set by the machine",
                    where=f"environment.{name}",
                    remedy="choose another name",
                )
        for where, text in _texts(self):
            if "\0" in text:
                raise InvalidInput("a null character", where=where, remedy="leave it out")
        for where in ("output", "error"):
            check_output_path(getattr(self, where), where, is_array=bool(self.indices))
        for where in ("directory", "input"):
            check_other_path(getattr(self, where), where)


def _check_program(request: JobRequest) -> None:
    if bool(request.command) == bool(request.script):
        raise InvalidInput(
            "both a command and a script" if request.command else "neither a command nor a script",
            where="command",
            remedy="give either a command with its arguments, or a script",
        )
    if request.command and not request.command[0]:
        raise InvalidInput(
            "the command is empty", where="command[0]", remedy="give the name of a program"
        )
    if request.script and not request.script.startswith("#!"):
        raise InvalidInput(
            "the script does not begin with #!",
            where="script",
            remedy="write #!/bin/sh, or another interpreter, in the first line",
        )
    if request.script.partition("\n")[0].endswith("\r"):
        raise InvalidInput(
            "the script has Windows line ends, so its interpreter would not be found",
            where="script",
            remedy="write it with Unix line ends, e.g. by dos2unix",
        )
    if len(request.script.encode()) > limits.JOB_SCRIPT_BYTES_MAX:
        raise InvalidInput(
            f"the script has more than {limits.JOB_SCRIPT_BYTES_MAX} bytes",
            where="script",
            remedy="keep it in a file on the machine, and run that",
        )
    if request.terminal and (request.input or request.output or request.error):
        raise InvalidInput(
            "a job with a terminal cannot have input, output or error files",
            where="terminal",
            remedy="leave out input, output and error",
        )
    if request.piped and not request.terminal:
        raise InvalidInput(
            "pipes need a terminal",
            where="piped",
            remedy="set terminal as well; or leave piped out, and name files",
        )


def _check_sizes(request: JobRequest) -> None:
    sizes = request.sizes
    if any(before >= after for before, after in pairwise(sizes)):
        raise InvalidInput(
            "the sizes are not in ascending order", where="sizes", remedy="write 1,2,4,8"
        )
    if sizes and request.nodes not in sizes:
        raise InvalidInput(
            f"{request.nodes} nodes are not among the sizes",
            where="sizes",
            remedy="set nodes to one of the sizes",
        )
    if request.limits_s and len(request.limits_s) != len(sizes):
        raise InvalidInput(
            f"{len(request.limits_s)} limits for {len(sizes) or 'no'} sizes",
            where="limits_s",
            remedy="give one limit, or one for each size",
        )
    if request.limits_s and max(request.limits_s) != request.limit_s:
        raise InvalidInput(
            f"the longest limit is not limit_s, which is {request.limit_s}",
            where="limits_s",
            remedy="set limit_s to the longest limit",
        )
    if request.malleable and len(sizes) < 2:
        raise InvalidInput(
            "a malleable job needs more than one size",
            where="malleable",
            remedy="give the sizes that the job can change between",
        )


def _texts(request: JobRequest) -> list[tuple[str, str]]:
    texts = [(f"command[{number}]", each) for number, each in enumerate(request.command)]
    texts += [(f"environment.{name}", each) for name, each in request.environment.items()]
    for name in ("script", "name", "directory", "input", "output", "error"):
        texts.append((name, getattr(request, name)))
    return texts
