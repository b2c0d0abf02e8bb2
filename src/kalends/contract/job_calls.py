"""The calls about jobs on a machine, and the answers of the site's queue.

A job is named by its machine and its number there. Users may change their own jobs; an operator (scope
``admin``) may change all.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Key, MachineName, TimeS
from kalends.contract.history_calls import SlotsUsed
from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.errors import Problem
from kalends.core.jobs import JobNumber, JobRequest, Notify
from kalends.core.limits import JOBS_AT_ONCE_MAX

NodeNumbers = Annotated[
    tuple[Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)], ...],
    Meta(min_length=1, max_length=limits.LISTING_MAX),
]


class SubmitJob(Body, frozen=True, kw_only=True):
    """Put `job` into its machine's queue; the answer comes once that is durable.

    `key` makes the call repeatable: the same key and job give the same number, the same key with another
    job is refused (`KeyReused`).
    """

    key: Key
    job: JobRequest


class PredictedStart(Answer, frozen=True, kw_only=True):
    """The expected start of a waiting job, in seconds UTC, as of `made_at`.

    `latest`: if all jobs run to their limits, and none overtakes; `firm`: other jobs cannot change that.
    `expected`: if all run as long as similar jobs did. Half of these started by `p50`, 90 % by `p90`.
    """

    made_at: int
    latest: int
    expected: int
    p50: int
    p90: int
    firm: bool = False

    def not_before(self, now: int) -> PredictedStart:
        """Return the prediction for `now`: predicted times before it have not come true."""
        return PredictedStart(
            made_at=self.made_at,
            latest=max(self.latest, now),
            expected=max(self.expected, now),
            p50=max(self.p50, now),
            p90=max(self.p90, now),
        )


class JobView(Answer, frozen=True, kw_only=True):
    """A job as its user and operators see it; other users see no command, paths or environment.

    `phase` is that of the machine's table; `reasons` are why it waits, in words. `until` is the end of its
    requested time while it has nodes. A `limit_s` of 0 is the end of its reservation. `node_seconds` are
    used up to now, or charged after its end.
    """

    job: int
    machine: str
    user: str
    phase: str
    nodes: int
    limit_s: int
    submitted: int
    sizes: tuple[int, ...] = ()
    """Numbers of nodes that the job can use, if there are several."""
    malleable: bool = False
    name: str = ""
    project: str = ""
    priority: str = ""
    index: int | None = None
    array: int = 0
    command: tuple[str, ...] = ()
    terminal: bool = False
    piped: bool = False
    notify: Notify | None = None
    """The notices to the job's user."""
    reservation: str = ""
    """The reservation in which the job runs; "" for none."""
    at: int = 0
    """The fixed start; 0: none."""
    reasons: tuple[str, ...] = ()
    ahead: int = 0
    """Number of waiting jobs that were submitted earlier."""
    predicted: PredictedStart | None = None
    started: int = 0
    until: int = 0
    over: int = 0
    attempt: int = 0
    node_numbers: tuple[int, ...] = ()
    end: str = ""
    """How the job ended: exit, limit, killed, node-failed, not-started, lost, withdrawn; "" before."""
    status: int = 0
    detail: str = ""
    ran_s: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    node_seconds: int = 0
    credit_seconds: int = 0
    """Credit-seconds charged after the end; 3,600 are a credit."""
    payer: str = ""
    """The account that pays for the job, and where `cost_max` parts of a credit are reserved for it."""
    cost_max: int = 0
    stood_s: int = 0
    """Seconds that the job was stopped for more urgent jobs; its limit does not count them."""
    changing_to: int = 0
    """The size that the program was asked for at `changing_since`, without an answer yet; 0: none."""
    changing_since: int = 0
    refused: str = ""
    """Why the last refused change of size was not made, reported at `refused_at`."""
    refused_at: int = 0


def end_text(job: JobView) -> str:
    """Return how a job ended, in a few words; "" before."""
    if not job.end:
        return ""
    how = job.end if job.end != "exit" or job.status == 0 else f"exit {job.status}"
    return f"{how}: {job.detail}" if job.detail else how


class Submitted(Answer, frozen=True, kw_only=True):
    """The jobs that were made: `count` of them, the first of which is `job`."""

    job: JobView
    count: int = 1


class ListJobs(Body, frozen=True, kw_only=True):
    """List jobs of `machine` ("": of all machines here): waiting and running ones in the order of the queue,
    ended ones newest first. Without `everyone`, the caller's own.
    """

    machine: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.RESOURCE_PATTERN)))] = ""
    state: Literal["", "waiting", "running", "over"] = ""
    """"": waiting and running."""
    everyone: bool = False
    count: Annotated[int, Meta(ge=1, le=limits.LISTING_MAX)] = 1_000
    before: Annotated[int, Meta(ge=0)] = 0
    """For ended jobs: only those with a lower number, for the next page; 0: all."""


class NodesOut(Answer, frozen=True, kw_only=True):
    """Nodes out of service, and the operator's reason; they are back by themselves at `until` (0: no end)."""

    nodes: tuple[int, ...]
    reason: str
    until: int = 0


class MachineLoad(Answer, frozen=True, kw_only=True):
    """A machine at a glance; `nodes` are all that it has, `out` those out of service: `out_numbers`.

    `out_reasons` has those of them for which the operator has given a reason. `policy` decides;
    `configured_policy` is that of the owner's configuration, from which an operator may have switched.
    `policy_disabled` is the error of the owner's own policy, if it was disabled.
    """

    machine: str
    description: str
    nodes: int
    free: int
    out: int
    reserved: int
    policy: str
    waiting: int
    running: int
    out_numbers: tuple[int, ...] = ()
    out_reasons: tuple[NodesOut, ...] = ()
    policy_disabled: str = ""
    configured_policy: str = ""
    decides: str = ""
    """The batch system that schedules the jobs alone, with nodes that are not known here; "": none."""
    aside: str = ""
    """The host to which the machine belongs, if its site runs on another one: what runs is not known then."""


class Jobs(Answer, frozen=True, kw_only=True):
    jobs: tuple[JobView, ...]
    machines: tuple[MachineLoad, ...] = ()
    more: bool = False


class JobRef(Body, frozen=True, kw_only=True):
    machine: MachineName
    job: JobNumber


class WatchJob(Body, frozen=True, kw_only=True):
    """Wait for a change of a job, for at most `wait_ms`.

    A change is a difference from the caller's `phase`, `attempt`, or `expected` start (0: none). A start that
    moves by no more than a minute, or by no more than a tenth of the wait, is not a change.
    """

    machine: MachineName
    job: JobNumber
    phase: Annotated[str, Meta(max_length=20)] = ""
    attempt: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    expected: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=120_000)] = 0


class JobNews(Answer, frozen=True, kw_only=True):
    """A job as it is now, and whether it has changed."""

    job: JobView
    is_news: bool


class ChangeJob(Body, frozen=True, kw_only=True):
    """Hold or release a waiting job, or end it: one that waits is withdrawn, one that runs is killed.

    With `array`, all jobs of its array that can be held, released or ended. Repeating does no harm.
    """

    machine: MachineName
    job: JobNumber
    what: Literal["hold", "release", "kill"]
    array: bool = False


class ServeNodes(Body, frozen=True, kw_only=True):
    """Drain nodes (running jobs continue, no new ones start), fail them (running jobs are ended, and may
    run again elsewhere), or put them back into service. A drain may have an end: `until` (0: none).
    """

    machine: MachineName
    what: Literal["drain", "fail", "resume"]
    nodes: NodeNumbers
    detail: Annotated[str, Meta(max_length=200)] = ""
    until: TimeS = 0


class SetPolicy(Body, frozen=True, kw_only=True):
    """Switch the machine to another policy; its jobs stay, in their order."""

    machine: MachineName
    policy: Annotated[str, Meta(max_length=200)]


class ShowPlan(Body, frozen=True, kw_only=True):
    """Show the schedule of `machine` from now on, as far as it is known."""

    machine: MachineName


class ScheduledJob(Answer, frozen=True, kw_only=True):
    """A job in the schedule: one that has nodes until its limit, or one that waits, at its latest start.

    `nodes` are all that it takes: whole units of a machine that has such. `expected` is the start that is
    expected of a waiting job, 0 of others.
    """

    job: int
    user: str
    phase: str
    nodes: int
    start: int
    end: int
    expected: int = 0
    name: str = ""
    node_numbers: tuple[int, ...] = ()


class ReservedNodes(Answer, frozen=True, kw_only=True):
    """Nodes that no job gets during ``[start, end)``; `holder` is "" for callers who may not see it."""

    nodes: int
    start: int
    end: int
    holder: str = ""


class MachinePlan(Answer, frozen=True, kw_only=True):
    """The schedule of a machine at `now`; waiting jobs stand where they stood at `made_at`.

    `free` says how many nodes are free from each time on: ``(time, nodes)``, the last one for good. `more`:
    there are jobs that are not listed; the free nodes do count them. `unplanned` jobs wait for nodes of the
    machine and have no place in the schedule: they are held, or it has not been worked out yet.
    """

    machine: MachineLoad
    now: int
    made_at: int
    jobs: tuple[ScheduledJob, ...]
    reservations: tuple[ReservedNodes, ...]
    free: tuple[tuple[int, int], ...]
    more: bool = False
    unplanned: int = 0


class FindGaps(Body, frozen=True, kw_only=True):
    """Find the gaps in which a job would start on `machine` at once."""

    machine: MachineName


class NodeGap(Answer, frozen=True, kw_only=True):
    """A job of `nodes` nodes starts now if it ends by `until`; 0: however long it runs."""

    nodes: int
    until: int


class MachineGaps(Answer, frozen=True, kw_only=True):
    """The gaps in which the policy starts a job at once, as of `made_at`; the widest comes first."""

    machine: MachineLoad
    made_at: int
    gaps: tuple[NodeGap, ...]


class LoseHost(Body, frozen=True, kw_only=True):
    """Give up the host `host` (its name, or its id), with `machine` alone or ("") with all its machines.

    What ran there ends as lost, or runs again. Nothing of it may still run there.
    """

    host: Annotated[str, Meta(min_length=1, max_length=limits.HOST_NAME_MAX)]
    machine: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.RESOURCE_PATTERN)))] = ""


class MovedMachine(Answer, frozen=True, kw_only=True):
    """A machine that belongs to the site's present host now; of its jobs, `ended` were lost for good, and
    `again` may run again.
    """

    machine: str
    ended: int
    again: int


class LostHost(Answer, frozen=True, kw_only=True):
    host: str
    machines: tuple[MovedMachine, ...]


class Replan(Body, frozen=True, kw_only=True):
    """Recompute the plan of a queue, as if all waiting jobs came now, in their order of submission."""

    machine: MachineName


class MovedPromise(Answer, frozen=True, kw_only=True):
    """A job whose promised start was `before`, and is now `after` (0: it starts now, or has no promise)."""

    job: int
    before: int
    after: int


class NewPlan(Answer, frozen=True, kw_only=True):
    """A machine with a recomputed plan, and the promises that no longer hold."""

    machine: MachineLoad
    moved: tuple[MovedPromise, ...]
    more: bool = False


class ShowUsage(Body, frozen=True, kw_only=True):
    """Sum up node-seconds used in ``[start, end)`` on `machine`, by user and project."""

    machine: MachineName
    start: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    end: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    everyone: bool = False


class UsageRow(Answer, frozen=True, kw_only=True):
    user: str
    project: str
    jobs: int
    node_seconds: int
    cpu_s: float
    credit_seconds: int = 0
    """Credit-seconds charged for these jobs by the owner's tariff; 3,600 are a credit."""


class ReservedRow(Answer, frozen=True, kw_only=True):
    """Reservations of a user, used or not."""

    user: str
    reservations: int
    node_seconds: int
    credit_seconds: int


class UsageView(Answer, frozen=True, kw_only=True):
    machine: str
    start: int
    end: int
    rows: tuple[UsageRow, ...]
    reserved: tuple[ReservedRow, ...] = ()
    """Reservations that ended in ``[start, end)``."""
    slots: SlotsUsed | None = None
    """Reservations in the batch system behind the resource, if there is one, and their use by jobs."""


class FindDelays(Body, frozen=True, kw_only=True):
    """Which waiting jobs a reservation of `nodes` nodes for `length_s` would delay, at each of `starts`."""

    machine: MachineName
    nodes: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)]
    length_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]
    starts: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)], ...],
        Meta(min_length=1, max_length=limits.PRICED_STARTS_MAX),
    ]


class DelayedJob(Answer, frozen=True, kw_only=True):
    """A job of the caller's own that would start `later_s` later."""

    job: int
    later_s: int


class StartDelays(Answer, frozen=True, kw_only=True):
    """The delays by a reservation at `start`: the number of `jobs`, and the longest delay, `longest_s`.

    -1 jobs: the reservation does not fit there. `own` are the caller's jobs.
    """

    start: int
    jobs: int = 0
    longest_s: int = 0
    own: tuple[DelayedJob, ...] = ()


class MachineDelays(Answer, frozen=True, kw_only=True):
    """Delays as of `made_at`, if all jobs run to their limits and no more are submitted."""

    made_at: int
    starts: tuple[StartDelays, ...]


class SubmitJobs(Body, frozen=True, kw_only=True):
    """Put `jobs` into the queue of `machine`, in this order; answered once they are durable.

    Stops at the first job that is refused; the jobs before it are submitted. If the call is repeated with the
    same `key`, jobs are looked up by their places, and not submitted again. `first` is the place of the first
    job, if the call continues a longer list.
    """

    key: Key
    machine: MachineName
    first: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    jobs: Annotated[tuple[JobRequest, ...], Meta(min_length=1, max_length=JOBS_AT_ONCE_MAX)]


class MadeJob(Answer, frozen=True, kw_only=True):
    """A submitted job; for an array of `count` jobs it is the first."""

    machine: str
    job: int
    count: int = 1


class SubmittedJobs(Answer, frozen=True, kw_only=True):
    """The submitted jobs, `made`, in order; `refused` is why the next was not submitted (None: all were)."""

    made: tuple[MadeJob, ...]
    refused: Problem | None = None


class WatchJobs(Body, frozen=True, kw_only=True):
    """Wait for a change of any of the caller's jobs on `machine`, for at most `wait_ms`.

    `life` and `after` come from the previous answer. Without them, or if the site no longer knows the changes
    since, the answer comes at once, with `skipped`.
    """

    machine: MachineName
    life: Annotated[str, Meta(max_length=64)] = ""
    after: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=120_000)] = 0


class MovedJobs(Answer, frozen=True, kw_only=True):
    """The caller's changed jobs, each once and as it is now, in order of their last changes; no predictions.

    `skipped`: others may also have changed, so list all jobs; later changes follow from `life` and `after`.
    """

    machine: str
    life: str
    after: int
    jobs: tuple[JobView, ...] = ()
    skipped: bool = False


OUTPUT_BYTES_MAX: Final = 256 * 1024
"""Maximum bytes of output in one answer; longer output is read in pieces."""


class ReadOutput(Body, frozen=True, kw_only=True):
    """Read the output of a job from byte `offset` on; wait up to `wait_ms` for more while it runs.

    `attempt` is the number of an attempt; 0: the last.
    """

    machine: MachineName
    job: JobNumber
    stream: Literal["output", "error"] = "output"
    offset: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=120_000)] = 0
    attempt: Annotated[int, Meta(ge=0, le=1 << 53)] = 0


class JobOutput(Answer, frozen=True, kw_only=True):
    """A piece of output: `data` begins at `offset`. `ended`: there will be no more.

    `attempt` is the attempt that wrote it; 0 if all attempts write to one file of the user.
    """

    data: bytes
    offset: int
    ended: bool = False
    attempt: int = 0
