"""Components for the jobs of a workload: drawn, split by a rule, or read from a log's partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

from kalends.core.errors import InvalidInput
from kalends.scheduling.job import Components
from kalends.scheduling.placement import check_kind
from kalends.simulation.job import SimulatedJob


def drawn(
    jobs: Iterable[SimulatedJob],
    kind: str,
    sizes: Sequence[tuple[int, int]],
    draw: Random,
) -> Iterator[SimulatedJob]:
    """Yield jobs with a component for each of `sizes`, drawn evenly from its first to its last.

    The job asks for their sum. One seed gives the same sizes for every kind, so that the kinds can be
    compared job by job. Changes the jobs, and keeps none.
    """
    check_kind(kind)
    for low, high in sizes:
        if not 0 <= low <= high or high < 1:
            raise InvalidInput(
                f"components of {low} to {high} nodes", where="components", remedy="give 1 or more"
            )
    for job in jobs:
        nodes = tuple(draw.randint(low, high) for low, high in sizes)
        yield _with(job, kind, nodes if any(nodes) else (1, *nodes[1:]))


def split(
    jobs: Iterable[SimulatedJob], kind: str, largest: int, clusters: int
) -> Iterator[SimulatedJob]:
    """Yield jobs of the log, split into the fewest components no larger than `largest`.

    The components are as equal as can be, the larger ones first: 10 nodes with at most 4 in each are
    4 + 3 + 3. Where that gives more components than `clusters`, there are `clusters` of them, larger
    than wanted. ``ordered`` ones begin on cluster ``job number mod clusters`` and go round from there.
    Changes the jobs, and keeps none.
    """
    check_kind(kind)
    if largest < 1 or clusters < 1:
        raise InvalidInput(
            f"components of at most {largest} nodes on {clusters} clusters",
            where="components",
            remedy="give 1 or more of each",
        )
    for number, job in enumerate(jobs):
        count = min(-(-job.nodes // largest), clusters)
        share, larger = divmod(job.nodes, count)
        nodes = [share + 1] * larger + [share] * (count - larger)
        if kind == "ordered":
            nodes += [0] * (clusters - count)
            first = number % clusters
            nodes = nodes[clusters - first :] + nodes[: clusters - first]
        yield _with(job, kind, tuple(nodes))


def on_partitions(
    jobs: Iterable[SimulatedJob], clusters: Mapping[int, int]
) -> Iterator[SimulatedJob]:
    """Yield jobs that stay on the cluster in field 16, the partition, of their log.

    `clusters` says which cluster of the grid a partition is, from 0. Jobs must carry their log line.
    Raises `InvalidInput` with the job's number for a partition that is not in `clusters`.
    """
    for job in jobs:
        fields = job.line.split()
        name = fields[15] if len(fields) > 15 else ""
        cluster = clusters.get(int(name)) if name.lstrip("-").isdecimal() else None
        if cluster is None:
            raise InvalidInput(
                f"job {job.id} names partition {name[:20] or 'none'}",
                where="field 16",
                remedy="map each partition of the log to a cluster, and keep the log's lines",
            )
        yield _with(job, "ordered", (0,) * cluster + (job.nodes,))


def _with(job: SimulatedJob, kind: str, nodes: tuple[int, ...]) -> SimulatedJob:
    job.nodes = sum(nodes)
    job.components = (
        Components("total", (job.nodes,)) if kind == "total" else Components(kind, nodes)
    )
    return job
