"""Machines that run jobs: on this host, and through batch systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from kalends.core import identifiers, limits
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole
from kalends.federation.schedules import Aim
from kalends.serving.configuration.rules import ResourceConfiguration
from kalends.serving.configuration.sections import (
    DurationOrNoneS,
    DurationS,
    Name,
    Section,
    check_unique,
)


class BatchSystemConfiguration(Section, frozen=True, kw_only=True):
    """A batch system behind resources of the site; `users` has the Unix user of each kalends user.

    `configuration` is Slurm's own file. For other systems it is a shell file that is read before each
    command. Without it, the commands find their own. `settings` are those that only its kind has: in the file
    they are fields like the others.
    """

    name: Name
    kind: Annotated[str, Meta(max_length=64)] = "slurm"
    configuration: Path | None = None
    settings: Any = None
    """A value of `kalends.backends.kinds.SystemKind.settings`."""
    users: Annotated[dict[str, str], Meta(max_length=100_000)] = {}
    answer_s_max: Annotated[float, Meta(gt=0, le=limits.VOTE_MS_MAX / 1000)] = 8.0
    """Time limit of a command; later its outcome counts as unknown."""
    look_every_s: DurationS = field(name="look_every", default=DurationS(10))
    """Interval between comparisons of the batch system with the promises."""
    warn_s: DurationOrNoneS = field(name="warn", default=DurationOrNoneS(60))
    """Time before the end of a slot at which its jobs get SIGTERM; 0s: never."""
    kill_s: DurationOrNoneS = field(name="kill", default=DurationOrNoneS(10))
    """Time before the end of a slot at which its jobs are killed; 0s: the batch system ends them."""
    repair_s: DurationS = field(name="repair", default=DurationS(86_400))
    """Time for which a node that is down counts as taken."""
    give_up_after_s: DurationS = field(name="give_up_after", default=DurationS(1_800))
    """Time after which a promise that it cannot keep is moved to another time, or cancelled."""
    environment: Annotated[dict[str, str], Meta(max_length=32)] = {}
    """Environment variables that the system's commands need in addition, if jobs are handed over."""
    usage_every_s: DurationS = field(name="usage_every", default=DurationS(600))
    """Interval between readings of the use of slots from its accounting."""


class JobLimitsConfiguration(Section, frozen=True, kw_only=True):
    """Limits of one user, or one project, on a machine; 0: no limit.

    `jobs` have not ended, `running` may run at once, on `nodes` nodes, each for
    at most `longest_s`; `node_hours` are used in one period.
    """

    jobs: Annotated[int, Meta(ge=0, le=limits.JOBS_MAX)] = 0
    running: Annotated[int, Meta(ge=0, le=limits.JOBS_MAX)] = 0
    nodes: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    longest_s: DurationS = field(name="longest", default=DurationS(0))
    node_hours: Annotated[float, Meta(ge=0, le=1e12)] = 0.0


class FairShareConfiguration(Section, frozen=True, kw_only=True):
    """Shares of users or projects under the policy ``fair-share``; those not named have one share."""

    by: Literal["user", "project"] = "user"
    shares: Annotated[
        dict[str, Annotated[int, Meta(ge=1, le=999_999)]], Meta(max_length=10_000)
    ] = {}


class MachineConfiguration(Section, frozen=True, kw_only=True):
    """A machine that runs jobs on this host, as its processes, on the units of `resource`.

    `shape` is a topology of `kalends.machines` ("": any nodes will do). A node has `cores_each` of this
    host's cores; 0: it is a slot without cores of its own. `directory` has records and output of jobs. If
    the site runs as root, a job runs as the Unix user that `users` names for its user, or as the one of the
    same name; otherwise all jobs run as the site's user.

    With `control_group`, a group that the site may use (cgroups(7), version 2), each job gets a group below
    it. Then the limits of memory and processes apply to the job. Without control groups the limit of memory
    applies to each process, and the limit of processes to its Unix user.
    """

    resource: Name
    shape: Annotated[str, Meta(max_length=200)] = ""
    policy: Annotated[str, Meta(max_length=200)] = "easy-priority"
    policy_ms_max: Annotated[int, Meta(ge=1, le=60_000)] = 1_000
    """Time for one decision of the owner's own policy, which is disabled if it takes longer."""
    cores_each: Annotated[int, Meta(ge=0, le=4096)] = 0
    directory: Path | None = None
    classes: Annotated[dict[Name, int], Meta(max_length=32)] = msgspec.field(
        default_factory=lambda: {"low": 1, "normal": 2, "high": 3}
    )
    default_class: Name = "normal"
    class_members: Annotated[
        dict[Name, tuple[Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))], ...]],
        Meta(max_length=32),
    ] = {}
    """Users who may name a class. A class that is not listed here may be named by all users, if it is not
    above the default class; else by none.
    """
    user: JobLimitsConfiguration = JobLimitsConfiguration()
    project: JobLimitsConfiguration = JobLimitsConfiguration()
    members: Annotated[
        dict[
            Annotated[str, Meta(max_length=64)],
            tuple[Annotated[str, Meta(pattern=whole(identifiers.WHO_PATTERN))], ...],
        ],
        Meta(max_length=10_000),
    ] = {}
    """Users who may charge jobs to a project. If any project is listed, there are no others."""
    period_s: DurationS = field(name="period", default=DurationS(30 * 86_400))
    fair_share: FairShareConfiguration = FairShareConfiguration()
    tariff: Annotated[dict[Name, Annotated[int, Meta(ge=0, le=10_000)]], Meta(max_length=32)] = {}
    """Credits for a node-hour, by priority class; none for classes that are not listed."""
    reserved_credits: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Credits for a reserved node-hour."""
    grace_s: DurationS = field(name="grace", default=DurationS(10))
    """Time between asking a job to end and killing it."""
    clearing_s: DurationS = field(name="clearing", default=DurationS(5))
    """Time in which a killed job ends, and its nodes are free; promised starts count on it."""
    attach_s: DurationS = field(name="attach", default=DurationS(600))
    """Time after its start at which an interactive job ends if no terminal has attached."""
    change_s_max: DurationS = field(name="change_max", default=DurationS(60))
    """Time for a program to answer a request to change its size."""
    users: Annotated[dict[str, str], Meta(max_length=100_000)] = {}
    memory_mb_max: Annotated[int, Meta(ge=0)] = 0
    processes_max: Annotated[int, Meta(ge=0)] = 0
    output_mb_max: Annotated[int, Meta(ge=0)] = 1_024
    """Maximum output that the machine keeps of a job without an output file; 0: all of it."""
    file_mb_max: Annotated[int, Meta(ge=0)] = 0
    """Size limit of every file that a program writes (RLIMIT_FSIZE); 0: none."""
    core_mb_max: Annotated[int, Meta(ge=0)] = 0
    """Size limit of core dumps; 0: programs dump none unless they raise their own limit."""
    umask: Annotated[str, Meta(pattern=whole(identifiers.UMASK_PATTERN))] = "022"
    """Permissions that new files of jobs do not get, in octal."""
    environment: Annotated[
        dict[
            Annotated[str, Meta(pattern=whole(identifiers.VARIABLE_PATTERN))],
            Annotated[
                str, Meta(max_length=limits.JOB_TEXT_MAX, pattern=whole(identifiers.LINE_PATTERN))
            ],
        ],
        Meta(max_length=limits.JOB_ENVIRONMENT_MAX),
    ] = {}
    """Environment variables of all jobs, e.g. PATH; a job's own variables override them."""
    may_delay: Literal["none", "waiting-room", "all"] = "waiting-room"
    """Which waiting jobs a new reservation may delay: none, those without a planned start, or all."""
    bids: bool = True
    """Whether brokers may ask for places in its queue, for jobs without a named machine."""
    aim: Aim = ""
    """The aim of its bids: which of the ways to run a job it offers; "": the first of the broker."""
    shared: bool = False
    """Whether a job may share its nodes with others, as in a batch system that shares them; bids say so."""
    disclosed: bool = True
    """Whether sites that lose a job to this machine hear its site, the start and the expected run time."""
    repair_s: DurationS = field(name="repair", default=DurationS(86_400))
    """Time for which a node out of service counts as taken, renewed until it is back."""
    undecided_s: DurationS = field(name="undecided", default=DurationS(900))
    """Maximum time for which nodes are kept idle for a promised place that a broker does not decide on; 0:
    until it decides.
    """
    no_show_s: DurationS = field(name="no_show", default=DurationS(0))
    """Time after which unused nodes of a reservation go back to the queue; 0: never."""
    keep_output_s: DurationS = field(name="keep_output", default=DurationS(30 * 86_400))
    """Time after a job's end for which its output is kept, if its user named no file."""
    control_group: Path | None = None
    address: Annotated[
        str, Meta(pattern=whole(identifiers.perhaps(identifiers.HOST_NAME_PATTERN)))
    ] = ""
    """Name of this host for parts of jobs in step on other machines; "": its own name."""
    batch_system: str = ""
    """The batch system that runs the jobs, on `nodes` that its owner has handed over, instead of this host.

    It is left out for a resource backed by a batch system, whose jobs run in reservations.
    """
    nodes: Annotated[str, Meta(max_length=10_000)] = ""
    """Nodes, one for each unit of the resource, e.g. ``n[1-8]``."""
    allocation_options: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.OPTION_PATTERN))], ...],
        Meta(max_length=32),
    ] = ()
    """Further options for each job in the batch system, e.g. ``--partition=kalends``."""


def check_machines(
    machines: Sequence[MachineConfiguration], resources: Sequence[ResourceConfiguration]
) -> None:
    check_unique([machine.resource for machine in machines], "site.machines")
    known = {resource.name for resource in resources}
    for index, machine in enumerate(machines):
        if machine.resource not in known:
            raise InvalidInput(
                f"there is no resource {machine.resource}",
                where=f"site.machines[{index}].resource",
                remedy="name one of site.resources",
            )
        if len(machine.resource) > limits.MACHINE_NAME_MAX:
            raise InvalidInput(
                f"a name of {len(machine.resource)} characters is too long",
                where=f"site.machines[{index}].resource",
                remedy=f"give the resource a name of at most {limits.MACHINE_NAME_MAX}",
            )
        if machine.default_class not in machine.classes:
            raise InvalidInput(
                f"there is no class {machine.default_class}",
                where=f"site.machines[{index}].default_class",
                remedy=f"name one of {', '.join(machine.classes)}",
            )
