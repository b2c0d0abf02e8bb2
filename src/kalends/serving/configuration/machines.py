"""Where jobs run: machines of this host, and batch systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from kalends.core import identifiers, limits
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole
from kalends.core.resources import AttributeValue
from kalends.serving.configuration.checks import check_unique
from kalends.serving.configuration.rules import ResourceConfiguration
from kalends.serving.configuration.sections import (
    DurationOrNoneS,
    DurationS,
    Name,
    Queue,
    QueueIfAny,
    Section,
)


class BatchSystemConfiguration(Section, frozen=True, kw_only=True):
    """A batch system behind resources of the site; `users` says what each of our users is called there.

    `configuration` is Slurm's own, or, of the others, a shell file that is read before each command, such as
    the ``settings.sh`` of a cell of Grid Engine; without one the commands find theirs themselves.
    """

    name: Name
    kind: Literal["slurm", "gridengine", "oar", "psij"] = "slurm"
    configuration: Path | None = None
    queue: QueueIfAny = ""
    """Of Grid Engine: the one whose hosts are the nodes, ``all.q`` by default. Of PSI/J: for all jobs."""
    parallel_environment: Queue = "kalends"
    """Of Grid Engine: one of that queue which fills up its hosts."""
    users: Annotated[dict[str, str], Meta(max_length=100_000)] = {}
    answer_s_max: Annotated[float, Meta(gt=0, le=limits.VOTE_MS_MAX / 1000)] = 8.0
    """What has not been answered by then is taken to have no answer."""
    look_every_s: DurationS = field(name="look_every", default=DurationS(10))
    """What it has is compared so often with what was promised."""
    warn_s: DurationOrNoneS = field(name="warn", default=DurationOrNoneS(60))
    """Jobs in a slot are asked to end (SIGTERM) so long before its end; 0s: they are not."""
    kill_s: DurationOrNoneS = field(name="kill", default=DurationOrNoneS(10))
    """Jobs in a slot are killed so long before its end; 0s: that is left to the batch system."""
    repair_s: DurationS = field(name="repair", default=DurationS(86_400))
    """A node that is down counts as taken for so long."""
    give_up_after_s: DurationS = field(name="give_up_after", default=DurationS(1_800))
    """What it cannot keep is moved to another time after so long, or cancelled."""
    executor: QueueIfAny = ""
    """Of PSI/J: the name of its executor."""
    project: QueueIfAny = ""
    """Of PSI/J: all jobs are charged to it there."""
    attributes: Annotated[dict[str, AttributeValue], Meta(max_length=32)] = {}
    """Of PSI/J: custom attributes of all jobs, as ``"pbs.l"``."""
    environment: Annotated[dict[str, str], Meta(max_length=32)] = {}
    """Where jobs are handed over: what the system's commands need besides a usual environment."""
    usage_every_s: DurationS = field(name="usage_every", default=DurationS(600))
    """What jobs used in slots is read from its accounting so often."""


class JobLimitsConfiguration(Section, frozen=True, kw_only=True):
    """What one user, or one project, may have on a machine; 0: as much as they like.

    `jobs` are those that have not ended, `running` those that may run at once, on `nodes` nodes, each for
    at most `longest_s`; `node_hours` are used in one period.
    """

    jobs: Annotated[int, Meta(ge=0, le=limits.JOBS_MAX)] = 0
    running: Annotated[int, Meta(ge=0, le=limits.JOBS_MAX)] = 0
    nodes: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    longest_s: DurationS = field(name="longest", default=DurationS(0))
    node_hours: Annotated[float, Meta(ge=0, le=1e12)] = 0.0


class FairShareConfiguration(Section, frozen=True, kw_only=True):
    """Between whom the policy ``fair-share`` shares a machine out; who is not named has one share."""

    by: Literal["user", "project"] = "user"
    shares: Annotated[
        dict[str, Annotated[int, Meta(ge=1, le=999_999)]], Meta(max_length=10_000)
    ] = {}


class MachineConfiguration(Section, frozen=True, kw_only=True):
    """Jobs run on this host, as its own processes, on the units of `resource`.

    `shape` is the machine as `kalends.machines` knows it ("": any nodes will do). A node is `cores_each` of
    this host's cores, or a mere slot if that is 0. `directory` keeps records and output of jobs. Where the
    site runs as root, a job runs as the Unix user that `users` names for its user, else the one of the same
    name; elsewhere all run as the site's own user.

    Each job gets a control group of its own below `control_group` (cgroups(7), version 2), where the owner
    names one that the site may use. A job has at most so much memory and so many processes then; without
    control groups each of its processes has so much memory, and its Unix user so many processes.
    """

    resource: Name
    shape: Annotated[str, Meta(max_length=200)] = ""
    policy: Annotated[str, Meta(max_length=200)] = "easy-priority"
    policy_ms_max: Annotated[int, Meta(ge=1, le=60_000)] = 1_000
    """For one decision of a policy of the owner's own: one that takes longer is put aside."""
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
    """Who may name a class. A class that is not named here: everybody, if it is not above the default class;
    else no user.
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
    """Who may have jobs counted for a project, and charged to it. Where any is named, there are no others."""
    period_s: DurationS = field(name="period", default=DurationS(30 * 86_400))
    fair_share: FairShareConfiguration = FairShareConfiguration()
    tariff: Annotated[dict[Name, Annotated[int, Meta(ge=0, le=10_000)]], Meta(max_length=32)] = {}
    """Credits for a node-hour, by priority class; nothing for those that are not named."""
    reserved_credits: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Credits for a node-hour that is reserved."""
    grace_s: DurationS = field(name="grace", default=DurationS(10))
    """Between asking a job to end and killing it."""
    clearing_s: DurationS = field(name="clearing", default=DurationS(5))
    """Within so long all of a killed job is gone, and its nodes are free: promised starts count on it."""
    attach_s: DurationS = field(name="attach", default=DurationS(600))
    """An interactive job to whose keys nobody has come this long after its start ends."""
    change_s_max: DurationS = field(name="change_max", default=DurationS(60))
    """How long a program may take to answer when it is asked to change its size."""
    users: Annotated[dict[str, str], Meta(max_length=100_000)] = {}
    memory_mb_max: Annotated[int, Meta(ge=0)] = 0
    processes_max: Annotated[int, Meta(ge=0)] = 0
    output_mb_max: Annotated[int, Meta(ge=0)] = 1_024
    """How much of a job's output the machine keeps if the user named no file; 0: all of it."""
    file_mb_max: Annotated[int, Meta(ge=0)] = 0
    """Size limit of every file that a program writes (RLIMIT_FSIZE); 0: none."""
    core_mb_max: Annotated[int, Meta(ge=0)] = 0
    """Size limit of core dumps; 0: programs dump none unless they raise their own limit."""
    umask: Annotated[str, Meta(pattern=whole(identifiers.UMASK_PATTERN))] = "022"
    """Permissions that new files of jobs do not get, in octal."""
    environment: Annotated[
        dict[
            Annotated[str, Meta(pattern=whole(identifiers.VARIABLE_PATTERN))],
            Annotated[str, Meta(max_length=limits.JOB_TEXT_MAX, pattern=whole(r"[^\x00]*"))],
        ],
        Meta(max_length=limits.JOB_ENVIRONMENT_MAX),
    ] = {}
    """Environment variables of all jobs, e.g. PATH; those that a job sets itself win."""
    may_delay: Literal["none", "waiting-room", "all"] = "waiting-room"
    """Which waiting jobs a new reservation may delay: none, those without a planned start, or all."""
    bids: bool = True
    """Whether brokers may ask for places in its queue, for jobs whose users name no machine."""
    repair_s: DurationS = field(name="repair", default=DurationS(86_400))
    """A node out of service counts as taken for so long, renewed for as long as it lasts."""
    undecided_s: DurationS = field(name="undecided", default=DurationS(900))
    """Nodes are kept idle for so long at most for a place that a broker was promised, and does not decide
    on; 0: until it does.
    """
    no_show_s: DurationS = field(name="no_show", default=DurationS(0))
    """The nodes of a reservation go back to the queue when nobody has used them for so long; 0: never."""
    keep_output_s: DurationS = field(name="keep_output", default=DurationS(30 * 86_400))
    """What jobs have written is kept for so long after their end, where their users named no file."""
    control_group: Path | None = None
    address: Annotated[
        str, Meta(pattern=whole(identifiers.perhaps(identifiers.HOST_NAME_PATTERN)))
    ] = ""
    """What parts of jobs in step on other machines call this host; "": its own name."""
    batch_system: str = ""
    """Jobs run through this one, and not on this host, on `nodes` that its owner has handed over.

    It is left out for a resource that a batch system stands behind: there they run in reservations.
    """
    nodes: Annotated[str, Meta(max_length=10_000)] = ""
    """One for each unit of the resource, as ``n[1-8]``."""
    allocation_options: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.OPTION_PATTERN))], ...],
        Meta(max_length=32),
    ] = ()
    """What else the batch system is told for each job, as ``--partition=kalends``."""


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
