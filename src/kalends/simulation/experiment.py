"""One call from a workload and a policy to metrics: what the command line and Python programs use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.molding import molding
from kalends.scheduling.policy import Policy
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay
from kalends.simulation.machine_text import Change, cluster_from, split_by, without_parts
from kalends.simulation.metrics import ScheduleMetrics, Summary
from kalends.simulation.provenance import Provenance, provenance_of
from kalends.simulation.source import JobSource, Workload
from kalends.simulation.workloads.swf import Damaged, Estimates, Unsorted
from kalends.simulation.workloads.tally import LineTally

if TYPE_CHECKING:
    from kalends.simulation.classes import Breakdown, ClassMetrics
    from kalends.simulation.prediction_accuracy import Accounts
    from kalends.simulation.treatment import Treatment
    from kalends.simulation.workloads.speedups import SpeedUps

Watcher = Callable[[SimulatedJob], object]
Progress = Callable[[int, int | None], object]

_CHUNK: Final = 1024
"""Number of ended jobs counted at a time: few enough to stay in the processor's cache."""


class SimulationResult(Summary, frozen=True, kw_only=True):
    """The result of one policy on one workload: the metrics and their conditions."""

    policy: str
    nodes: int
    predictions: dict[str, float] = {}
    """Accuracy of predicted starts; empty without predictions."""
    by: dict[str, list[ClassMetrics]] = {}
    """The metrics of every class of jobs, by what tells them apart; empty where none was asked for."""
    dropped: dict[str, LineTally] = {}
    """Jobs that could not be simulated, by reason."""
    cut: LineTally = msgspec.field(default_factory=LineTally)
    """Jobs that ran longer than requested in the log, and were stopped there."""
    rounded: LineTally = msgspec.field(default_factory=LineTally)
    """Jobs whose times have decimals in the log: submit times are rounded down, lengths up."""
    parts: LineTally = msgspec.field(default_factory=LineTally)
    """Lines about parts of jobs that were swapped out; the jobs were simulated as a whole."""
    damaged: LineTally = msgspec.field(default_factory=LineTally)
    """Lines of the log that are not jobs, and were skipped."""
    partitions: int = 0
    """Number of partitions that the jobs of the log name; the simulation has one machine for all of them."""
    provenance: Provenance | None = None
    """What made the result; None if it was not simulated."""
    seconds: float = 0.0
    """CPU time of reading, simulating and measuring. Only this and the next differ from run to run."""
    jobs_per_second: float = 0.0

    def __repr__(self) -> str:
        # Imported here, and below, because only people at a terminal or a notebook ask for it.
        from kalends.simulation.result_tables import result_in_a_line

        return f"<SimulationResult {result_in_a_line(self)}>"

    def _repr_html_(self) -> str:
        from kalends.simulation.result_tables import results_html

        return results_html([self])


def simulate(
    workload: Workload,
    *,
    policy: str | Callable[[Cluster], Policy] = "easy",
    nodes: int | None = None,
    machine: str = "",
    crossing: str = "",
    components: str = "",
    speedups: SpeedUps | Path | str | None = None,
    reservations: Sequence[Reservation] = (),
    treat: str = "",
    estimates: Estimates = "user",
    damaged: Damaged = "refuse",
    unsorted: Unsorted = "refuse",
    load: float = 1.0,
    shake_s: int = 0,
    seed: int = 0,
    watchers: Sequence[Watcher] = (),
    keep_lines: bool = False,
    accounts: Accounts | None = None,
    by: Sequence[str] = (),
    progress: Progress | None = None,
) -> SimulationResult:
    """Replay a workload on a machine under a policy, and measure the schedule.

        kalends.simulate("log.swf.gz", policy="easy", nodes=128).mean_wait_s

    `workload` is the path of a log in the Standard Workload Format, jobs in order of submission, or a
    function that makes them. Jobs in a list or a tuple are copied and stay as they are; those of any
    other iterable are used up. `policy` is a name (see ``kalends policies``), ``module:Class``, or what
    makes a policy over a cluster.

    `nodes` are the machine's, any of which will do; without them, as many as the log's header says. A
    `machine` such as ``mesh2d:32x32:4x4`` decides itself which nodes go together; one such as
    ``grid:64+32`` is several clusters, with a penalty for `ferry` them (``once:0.2``), and jobs
    split into `components` (``unordered:16``: of 16 nodes, more where clusters are too few).
    `reservations` are kept free of jobs; in a grid each must name its part. `treat` says which jobs of a
    log are interactive, or have a priority, by queue, user or group: ``queue:0=interactive,user:7=3``.

    `speedups`, or the path of a file of them (see `kalends.simulation.workloads.speedups`), say which jobs
    can run on several numbers of nodes; policies that know only one are given one by `molding`.

    `estimates` is what the policy believes that a job takes: ``user`` what was requested, ``exact`` how
    long it really runs, ``filled`` that only where nothing was requested. `damaged` lines and an
    `unsorted` log are refused unless asked for otherwise (``skip``, ``sort``). Jobs that can never run
    are dropped and counted.

    The times between submissions are divided by `load`; then each job is submitted up to `shake_s`
    earlier or later by chance, the same chance for the same `seed`.

    Every watcher is called with each job when it has ended, in order of ends (with `keep_lines`, a job
    has its line of the log); `progress` now and then with the number of jobs that have ended and how
    many there are, None if unknown. The same input gives the same result, except for its times.

    With `accounts`, the start of every job that must wait is predicted, and they tell how good that was;
    so does `SimulationResult.predictions`. The schedule is the same, but takes much longer.

    `by` names what `SimulationResult.by` tells jobs apart by: some of
    `kalends.simulation.classes.KINDS`, such as ``user`` or ``nodes``.

    Raises `InvalidInput` for a log, a job, a policy or a machine that makes no sense.
    """
    before_s = process_time()
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", repr(policy))
    make = policy_maker(policy) if isinstance(policy, str) else policy
    breakdown: Breakdown | None = None
    if by:
        # Imported here: few replays ask for it.
        from kalends.simulation.classes import Breakdown

        breakdown = Breakdown(by)
        watchers = (*watchers, breakdown.add)
        keep_lines = keep_lines or breakdown.lined
    treatment = _treatment(treat)
    keep_lines = keep_lines or (treatment is not None and treatment.lined)
    cluster = None
    if machine:
        cluster = cluster_from(machine, nodes=nodes, crossing=crossing, reservations=reservations)
    source = JobSource(
        workload, nodes=cluster.nodes if cluster else nodes, estimates=estimates,
        damaged=damaged, unsorted=unsorted, keep_lines=keep_lines,
    )  # fmt: skip
    cluster = cluster or Cluster(source.nodes, without_parts(reservations))
    made = make(cluster)
    change = split_by(components, machine) if components else None
    if speedups is not None:
        change = _molded(speedups, components)
        made = molding(made)
    jobs = source.jobs(cluster, change)
    if treatment is not None:
        jobs = treatment.apply(jobs)
    if load != 1 or shake_s:
        # Imported here: chance takes longer to load than thousands of jobs to replay.
        from kalends.simulation.input_shaking import loaded, shaken

        jobs = shaken(loaded(jobs, load), shake_s, seed)
    metrics = ScheduleMetrics(source.nodes)
    ended = replay(jobs, _scheduler(made, accounts))
    while chunk := list(islice(ended, _CHUNK)):
        metrics.extend(chunk)
        for watch in watchers:
            for job in chunk:
                watch(job)
        if progress is not None:
            progress(metrics.jobs, source.expected)
    summary = metrics.summary()
    seconds = process_time() - before_s
    provenance = provenance_of(
        workload, name, nodes=source.nodes, machine=machine, crossing=crossing,
        components=components, speedups=speedups, reservations=reservations, treat=treat,
        estimates=estimates, damaged=damaged, unsorted=unsorted, load=load, shake_s=shake_s,
        seed=seed, by=by, predict=accounts is not None,
    )  # fmt: skip
    return SimulationResult(
        **msgspec.structs.asdict(summary),
        policy=name,
        nodes=source.nodes,
        predictions={} if accounts is None else accounts.summary(),
        by=breakdown.metrics(source.nodes, summary.makespan_s) if breakdown else {},
        dropped=source.dropped,
        cut=source.cut,
        rounded=source.rounded,
        parts=source.parts,
        damaged=source.damaged,
        partitions=source.partitions,
        provenance=provenance,
        seconds=seconds,
        jobs_per_second=summary.jobs / seconds if seconds else 0.0,
    )


def _scheduler(policy: Policy, accounts: Accounts | None) -> Scheduler:
    if accounts is None:
        return Scheduler(policy)
    # Imported here: few replays predict.
    from kalends.simulation.prediction_accuracy import Predicted

    return Predicted(policy, accounts)


def _treatment(text: str) -> Treatment | None:
    if not text:
        return None
    # Imported here: few replays ask for it.
    from kalends.simulation.treatment import Treatment

    return Treatment.of(text)


def _molded(speedups: SpeedUps | Path | str, components: str) -> Change:
    """Return a change that makes the jobs named by `speedups` moldable or malleable."""
    if components:
        raise InvalidInput(
            "components are of one size, and speed-ups give jobs several",
            where="speedups",
            remedy="leave out one of them",
        )
    # Imported here: most workloads are rigid.
    from kalends.simulation.workloads.speedups import SpeedUps, read_speed_ups

    return (speedups if isinstance(speedups, SpeedUps) else read_speed_ups(speedups)).apply
