"""A request for nodes x time without a fixed start, as policies see it."""

from __future__ import annotations

from copy import copy
from math import ceil
from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from kalends.machines.partitions import Partition


class Moldability(msgspec.Struct, frozen=True):
    """The sizes that a job can run on, ascending, and its time on each.

    `sizes[i]` nodes need `requested_s[i]` time. Moldable jobs get one of them at the start; malleable
    ones may be changed while they run (Konuru, Moreira and Naik 1996, section 3), and then take up to
    `reconfiguration_s` longer each time. If all times are the same limit, they do not show the benefit of
    more nodes: a job that `scales` is assumed to be twice as fast on twice the nodes. A job that changes
    `when_begun` is malleable as soon as its program is reported to have begun.
    """

    sizes: tuple[int, ...]
    requested_s: tuple[int, ...]
    malleable: bool = False
    reconfiguration_s: int = 0
    scales: bool = False
    when_begun: bool = False

    def requested_on(self, nodes: int) -> int:
        """Return the run time of the job on one of its sizes."""
        return self.requested_s[self.sizes.index(nodes)]

    def left_on(self, nodes: int, left_s: int, before: int) -> int:
        """Return how long work takes on a size that would take `left_s` on the size `before`."""
        if self.scales:
            return left_s * before // nodes
        return left_s * self.requested_on(nodes) // self.requested_on(before)


class HeldSize(msgspec.Struct, frozen=True):
    """The state of a running job until `until_s`, before the request of `asked_s` to change."""

    nodes: int
    partition: Partition | None
    until_s: int
    asked_s: int


class Components(msgspec.Struct, frozen=True):
    """The allowed spread of a job's nodes over clusters (Bucur and Epema, IPDPS 2003).

    `kind` is ``ordered`` (`nodes[i]` on cluster i), ``unordered`` (each component on one cluster,
    different ones) or ``total`` (`nodes` has one number, spread at will).
    """

    kind: str
    nodes: tuple[int, ...]


class NodeRequest(msgspec.Struct, frozen=True):
    """A user's request, as it is accounted: no later change of the job alters it."""

    id: int
    submit_s: int
    nodes: int
    requested_s: int
    priority: int = 0
    user: int = -1
    interactive: bool = False
    shape: tuple[int, ...] = ()
    molds: Moldability | None = None
    components: Components | None = None
    account: int = -1
    share: int = 1

    def job(self) -> Job:
        """Return a job that asks for it, to be submitted."""
        return Job(**msgspec.structs.asdict(self), request=self)


class Job(msgspec.Struct, eq=False, gc=False):
    """A batch job: its present request, and its nodes. Times are whole seconds (or the unit of the
    workload), nodes are counts.

    A policy reads it and asks the cluster to start it; only the cluster writes `granted`, `start_s`,
    `until_s`, `stretch`, `partition`, `placed`, `asked_s`, `target`, `before` and
    `stopping`. Its true run time is not in here. A user's own policy sees it as a `SeenJob`, which it cannot
    change.
    """

    id: int
    """The number in the log, or of the user; unique in a queue."""
    submit_s: int
    nodes: int
    requested_s: int
    """The user's upper bound, and `ending_s`; after a preemption, the rest of it."""
    priority: int = 0
    """Larger is more urgent."""
    user: int = -1
    interactive: bool = False
    shape: tuple[int, ...] = ()
    """The extent asked of a machine with a topology; empty for any."""
    molds: Moldability | None = None
    components: Components | None = None
    account: int = -1
    """The account that its use counts for under fair shares; -1: its user."""
    share: int = 1
    """The shares of that account."""
    order: int = -1
    """The number of its submission, which breaks ties."""
    granted: int = 0
    """Nodes on which it runs; 0 while it waits and after its end."""
    start_s: int = -1
    """First start; -1 before."""
    until_s: int = -1
    """End of the requested time of a running job."""
    stretch: float = 1.0
    """Factor on the run time of the reference node, because of slow nodes and crossed clusters."""
    partition: Partition | None = None
    """Its nodes, if the cluster names nodes: those it runs on, or had at its end."""
    placed: tuple[int, ...] = ()
    """Nodes in each part of a grid, now or in the last run; empty elsewhere."""
    asked_s: int = 0
    """The first requested time, if a preemption has left less of it; else 0."""
    target: int = 0
    """The number of nodes to which a running job is to change; 0: none."""
    before: HeldSize | None = None
    """Its state when it was last asked to change."""
    stopping: bool = False
    """Whether it was asked to stop, and keeps its nodes until it stands still; on a live cluster only."""
    stays: bool = False
    """Whether it cannot be stopped: it is to end, or cannot."""
    request: NodeRequest | None = None
    """The user's request, with the user's last change; None in simulations."""
    ending_s: int = 0
    """The last part of its time, for ending it: the same on every size."""

    def as_requested(self) -> NodeRequest:
        """Return the job's present request."""
        return NodeRequest(*[getattr(self, name) for name in NodeRequest.__struct_fields__])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A frozen scheduler is copied for every prediction. All that a job holds is immutable.
        return copy(self)


def until_after_change(job: Job, took_s: int, now: int) -> int:
    """Return the end of a job that has changed to its `target` in the given time.

    Its remaining time, and the time that the change took, is longer or shorter on its new size. Never later
    than the end that was planned when it was asked.
    """
    before, molds = job.before, job.molds
    assert before is not None
    assert molds is not None
    new_s, old_s = (
        molds.requested_on(nodes) - job.ending_s for nodes in (job.target, before.nodes)
    )
    left_s = max(before.until_s - job.ending_s + took_s - now, 0)
    latest_s = (
        max(before.until_s, before.asked_s + new_s + job.ending_s) + molds.reconfiguration_s + 1
    )
    return min(now - -left_s * new_s // old_s + job.ending_s, latest_s)


def stretched(length_s: int, stretch: float) -> int:
    """Return `length_s` times `stretch`, in whole seconds."""
    # 70 s that take 1.1 times as long are 77 s, though their product is a little above it.
    return ceil(length_s * stretch - 1e-6)
