"""Sources of the jobs of a replay: a log, a list, a generator; only jobs that can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.scheduling.cluster import Cluster
from kalends.simulation.job import SimulatedJob
from kalends.simulation.machine_text import Change
from kalends.simulation.malleable import MalleableJob
from kalends.simulation.workloads import Workload
from kalends.simulation.workloads.swf import (
    Damaged,
    Estimates,
    Unsorted,
    WorkloadLog,
    open_log,
)
from kalends.simulation.workloads.swf_fields import header_number
from kalends.simulation.workloads.tally import LineTally

NODES_MAX: Final = 10**9
"""More nodes than any machine has."""

NEVER_FITS: Final = "cannot be placed on the empty machine"


class JobSource:
    """The jobs of a workload, for one pass. Jobs that are left out are counted while the others stream.

    A log is filtered by its reader; jobs from elsewhere are checked here.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        nodes: int | None = None,
        estimates: Estimates = "user",
        damaged: Damaged = "refuse",
        unsorted: Unsorted = "refuse",
        keep_lines: bool = False,
    ) -> None:
        if nodes is not None and not (isinstance(nodes, int) and 1 <= nodes <= NODES_MAX):
            raise InvalidInput(f"{nodes!r} nodes", where="nodes", remedy=f"give 1 to {NODES_MAX}")
        self.log: WorkloadLog | None = None
        self._exact = estimates == "exact"
        self._dropped: dict[str, LineTally] = {}
        self._cut = LineTally()
        self._count = len(workload) if isinstance(workload, Sequence) else None
        if isinstance(workload, str | Path):
            self.nodes = nodes or nodes_in_header(workload)
            self.log = open_log(
                workload, nodes=self.nodes, estimates=estimates, damaged=damaged,
                unsorted=unsorted, keep_lines=keep_lines,
            )  # fmt: skip
            return
        if nodes is None:
            raise InvalidInput("number of nodes unknown", where="nodes", remedy="give nodes")
        self.nodes = nodes
        if callable(workload):
            self._given: Iterable[SimulatedJob] = workload()
        elif isinstance(workload, Sequence):
            self._given = map(copy, workload)
        else:
            self._given = workload

    @property
    def dropped(self) -> dict[str, LineTally]:
        """Jobs that were left out, by reason."""
        return {**self.log.dropped, **self._dropped} if self.log else self._dropped

    @property
    def cut(self) -> LineTally:
        """Jobs that would run longer than requested, and end there."""
        return self.log.cut if self.log else self._cut

    @property
    def rounded(self) -> LineTally:
        """Jobs whose times have decimals in the log."""
        return self.log.rounded if self.log else LineTally()

    @property
    def parts(self) -> LineTally:
        """Lines of the log about parts of jobs, which are simulated as a whole."""
        return self.log.parts if self.log else LineTally()

    @property
    def damaged(self) -> LineTally:
        """Lines of the log that are not jobs."""
        return self.log.damaged if self.log else LineTally()

    @property
    def partitions(self) -> int:
        """Number of the log's partitions that its jobs name."""
        return len(self.log.partitions) if self.log else 0

    @property
    def expected(self) -> int | None:
        """Approximate number of jobs; None: unknown."""
        if self.log is None:
            return self._count
        counts = (self.log.header.get(name, "") for name in ("MaxRecords", "MaxJobs"))
        return next((int(count) for count in counts if count.isdecimal()), None)

    def jobs(self, cluster: Cluster, change: Change | None = None) -> Iterator[SimulatedJob]:
        """Yield the jobs in order of submission, each such that it could run on the empty `cluster`.

        `change` makes them as they are to run, before that is looked at. Raises `InvalidInput` while it
        streams, at the first job that makes no sense.
        """
        if self.log is not None and type(cluster) is Cluster and change is None:
            # Counted nodes are all the same: the reader has seen to it that every job fits.
            return iter(self.log)
        jobs = iter(self.log) if self.log is not None else self._checked(self._given)
        return self._fitting(change(jobs) if change else jobs, cluster)

    def _checked(self, jobs: Iterable[SimulatedJob]) -> Iterator[SimulatedJob]:
        last_s: int | None = None
        for number, job in enumerate(jobs, start=1):
            timeless = job.run_s < 1 and not isinstance(job, MalleableJob)
            if job.nodes < 1 or timeless or job.requested_s < 1 or job.start_s >= 0:
                what = (
                    "was simulated already"
                    if job.start_s >= 0
                    else f"{job.nodes} nodes for {job.run_s} of {job.requested_s} s"
                )
                raise InvalidInput(
                    what, where=f"job {job.id}", remedy="give new jobs, all numbers 1 or more"
                )
            if last_s is not None and job.submit_s < last_s:
                raise InvalidInput(
                    f"submitted at {job.submit_s}, before the previous job ({last_s})",
                    where=f"job {job.id}",
                    remedy="sort the jobs by submit_s",
                )
            last_s = job.submit_s
            if job.run_s > job.requested_s:
                self._cut.add(number, f"job {job.id} ran {job.run_s} s of {job.requested_s} s")
                job.run_s = job.requested_s
            elif self._exact:
                job.requested_s = job.run_s
            yield job

    def _fitting(self, jobs: Iterable[SimulatedJob], cluster: Cluster) -> Iterator[SimulatedJob]:
        for number, job in enumerate(jobs, start=1):
            if cluster.could_ever_fit(job):
                yield job
            else:
                tally = self._dropped.setdefault(NEVER_FITS, LineTally())
                tally.add(number, f"job {job.id}, {job.nodes} nodes")


def nodes_in_header(path: str | Path) -> int:
    """Return the number of processors in the log's header.

    Raises `InvalidInput` if it says nothing, and for a file that cannot be read.
    """
    log = open_log(path, nodes=NODES_MAX, estimates="filled", damaged="skip")
    for name in ("MaxProcs", "MaxNodes"):
        try:
            nodes = header_number(log.header, name)
        except InvalidInput as error:
            raise InvalidInput(
                f"{name}: {error.detail}",
                where=str(path),
                remedy="correct the header, or give nodes, or --nodes N",
            ) from None
        if nodes and nodes > NODES_MAX:
            raise InvalidInput(
                f"{name}: {excerpt(str(nodes))} is more nodes than any machine has",
                where=str(path),
                remedy="correct the header, or give nodes, or --nodes N",
            )
        if nodes:
            return nodes
    # A file without any job has a worse fault, and this says which.
    next(iter(log))
    raise InvalidInput(
        "number of nodes missing in the header",
        where=str(path),
        remedy="give nodes, or --nodes N",
    )
