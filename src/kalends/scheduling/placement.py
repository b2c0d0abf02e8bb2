"""Placement of jobs in a grid of clusters, and the stretch of their run time there.

The three kinds of requests of Bucur and Epema (IPDPS 2003), as described by Jones and Pang 2003 (section
3.5.1): *ordered*, *unordered* and *total*. Pure arithmetic on counts of free nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import isfinite
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.scheduling.job import Job, stretched

KINDS: Final = ("ordered", "unordered", "total")
FITS: Final = ("worst", "first")
UNDIVIDED: Final = ("total", "single")

Placed = tuple[int, ...]
"""Nodes taken of each part of the grid, in the grid's order."""


class GridPart(msgspec.Struct, frozen=True):
    """Identical nodes of one cluster. `speed` is relative to the node to which run times refer."""

    nodes: int
    speed: float = 1.0

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InvalidInput(f"{self.nodes} nodes", where="grid", remedy="give 1 or more")
        if not (isfinite(self.speed) and self.speed > 0):
            raise InvalidInput(
                f"a speed of {self.speed:g}", where="grid", remedy="give more than 0"
            )


class ClusterSpec(msgspec.Struct, frozen=True):
    """One cluster of a grid: nodes of one or more speeds behind one switch."""

    parts: tuple[GridPart, ...]

    @classmethod
    def of(cls, nodes: int, speed: float = 1.0) -> ClusterSpec:
        """Return a cluster of identical nodes."""
        return cls((GridPart(nodes, speed),))

    @property
    def nodes(self) -> int:
        return sum(part.nodes for part in self.parts)


class CrossingPenalty(msgspec.Struct, frozen=True):
    """The penalty for running on more than one cluster, as a share of the run time.

    A job on c > 1 clusters takes ``1 + once + each * (c - 1)`` times as long: a fixed cost of borrowing
    nodes and one for every further cluster (the model that Jones and Pang 2003, section 7.1, ask for).
    """

    once: float = 0.0
    each: float = 0.0

    def __post_init__(self) -> None:
        for share in (self.once, self.each):
            if not (isfinite(share) and share >= 0):
                raise InvalidInput(
                    f"a crossing penalty of {share:g}", where="crossing", remedy="give 0 or more"
                )

    def factor(self, clusters: int) -> float:
        """Return the stretch of a job on this number of clusters."""
        return 1.0 + self.once + self.each * (clusters - 1) if clusters > 1 else 1.0


class Placer:
    """The rules by which one grid places jobs. Stateless: the free nodes are a parameter.

    - ``ordered``: component i on cluster i, or not at all.
    - ``unordered``: the components, largest first, each on a different cluster: the one with the most
      free nodes (`fit` ``worst``) or the first with enough (``first``). Both find a place whenever
      there is one, because a cluster with room for a large component has room for a smaller.
    - ``total``: on one cluster if one has room: the one where it runs fastest, then the fullest. Else on
      as few clusters as can be: the emptiest ones, and for the rest the fullest with enough.
    - a job without components is placed as ``total``, or with `undivided` ``single`` on one cluster only.

    Within a cluster the fastest free nodes are taken. Ties go to the cluster named first.
    """

    def __init__(
        self, clusters: Sequence[ClusterSpec], crossing: CrossingPenalty, fit: str, undivided: str
    ) -> None:
        _one_of(fit, FITS, "fit")
        _one_of(undivided, UNDIVIDED, "undivided")
        if not clusters or not all(cluster.parts for cluster in clusters):
            raise InvalidInput("no nodes", where="grid", remedy="give one cluster or more")
        self.crossing = crossing
        self.fit = fit
        self.undivided = undivided
        self.parts = tuple(part for cluster in clusters for part in cluster.parts)
        first = [0, *accumulate(len(cluster.parts) for cluster in clusters)]
        self._spans = [range(begin, end) for begin, end in pairwise(first)]
        self._never = crossing == CrossingPenalty() and all(part.speed == 1 for part in self.parts)
        """Whether no job is ever stretched."""
        self._even = len(self.parts) == len(clusters)
        """Whether each cluster is one part."""
        self._fastest_first = [
            sorted(span, key=lambda index: -self.parts[index].speed) for span in self._spans
        ]

    def check(self, job: Job) -> None:
        """Raise `InvalidInput` if the job's components contradict themselves or its nodes."""
        components = job.components
        if components is None:
            return
        check_kind(components.kind)
        nodes = components.nodes
        if min(nodes, default=-1) < 0 or sum(nodes) != job.nodes:
            raise InvalidInput(
                f"job {job.id} asks for {job.nodes} nodes in components of {list(nodes)}",
                where="components",
                remedy="give components of 0 or more that sum up to its nodes",
            )

    def place(self, job: Job, free: Sequence[int]) -> Placed | None:
        """Return the `free` nodes of each part that the job gets; None if it does not fit."""
        if self._even:
            room = [nodes if nodes > 0 else 0 for nodes in free]
        else:
            room = [sum(max(free[index], 0) for index in span) for span in self._spans]
        amounts = self._amounts(job, room, free)
        if amounts is None:
            return None
        placed = [0] * len(self.parts)
        for cluster, amount in amounts:
            if self._even:
                placed[cluster] = amount
                continue
            self._fill(placed, cluster, amount, free)
        return tuple(placed)

    def place_during(
        self, job: Job, start_s: int, free_during: Callable[[int, int], Sequence[int]]
    ) -> Placed | None:
        """Return the same if the free nodes depend on the run time, and that on the place.

        Placed for the shortest run first, and again for the run found, until it is long enough:
        a longer one never finds more free nodes, so that this ends.
        """
        stretch = 1.0 / max(part.speed for part in self.parts)
        while True:
            end_s = start_s + stretched(job.requested_s, stretch)
            placed = self.place(job, free_during(start_s, end_s))
            if placed is None:
                return None
            needed = self.stretch(placed)
            if needed <= stretch:
                return placed
            stretch = needed

    def stretch(self, placed: Placed) -> float:
        """Return the stretch of a job: the slowest node counts, and the crossed clusters."""
        if self._never:
            return 1.0
        slowest = min(part.speed for part, nodes in zip(self.parts, placed, strict=True) if nodes)
        return self.crossing.factor(sum(map(bool, self.by_cluster(placed)))) / slowest

    def by_cluster(self, placed: Sequence[int]) -> list[int]:
        """Return the nodes of each cluster, all its parts together."""
        return [sum(placed[index] for index in span) for span in self._spans]

    def _amounts(
        self, job: Job, room: Sequence[int], free: Sequence[int]
    ) -> list[tuple[int, int]] | None:
        """Return pairs of a cluster and the number of its nodes taken."""
        components = job.components
        if components is None and self.undivided == "single":
            return self._on_one(job.nodes, room, free)
        if components is None or components.kind == "total":
            return self._on_one(job.nodes, room, free) or _on_few(job.nodes, room)
        if components.kind == "unordered":
            return _on_different(components.nodes, room, worst=self.fit == "worst")
        wanted = components.nodes
        if len(wanted) > len(room) or any(map(int.__gt__, wanted, room)):
            return None
        return list(enumerate(wanted))

    def _on_one(
        self, nodes: int, room: Sequence[int], free: Sequence[int]
    ) -> list[tuple[int, int]] | None:
        fitting = [cluster for cluster, has in enumerate(room) if has >= nodes]
        if not fitting:
            return None

        def preference(cluster: int) -> tuple[float, int]:
            placed = [0] * len(self.parts)
            self._fill(placed, cluster, nodes, free)
            return self.stretch(tuple(placed)), room[cluster]

        return [(min(fitting, key=preference), nodes)]

    def _fill(self, placed: list[int], cluster: int, nodes: int, free: Sequence[int]) -> None:
        for index in self._fastest_first[cluster]:
            taken = max(min(nodes, free[index]), 0)
            placed[index] += taken
            nodes -= taken


def check_kind(kind: str) -> None:
    """Raise `InvalidInput` for an unknown kind of components."""
    _one_of(kind, KINDS, "components")


def _on_few(nodes: int, room: Sequence[int]) -> list[tuple[int, int]] | None:
    if nodes > sum(room):
        return None
    amounts = []
    left = sorted(range(len(room)), key=lambda cluster: -room[cluster])
    while nodes > room[left[0]]:
        emptiest = left.pop(0)
        amounts.append((emptiest, room[emptiest]))
        nodes -= room[emptiest]
    last = min((room[cluster], cluster) for cluster in left if room[cluster] >= nodes)[1]
    return [*amounts, (last, nodes)]


def _on_different(
    components: Sequence[int], room: Sequence[int], *, worst: bool
) -> list[tuple[int, int]] | None:
    left = list(range(len(room)))
    if worst:
        left.sort(key=lambda cluster: -room[cluster])
    amounts = []
    for nodes in sorted(components, reverse=True):
        cluster = next((each for each in left if room[each] >= nodes), None)
        if cluster is None:
            return None
        left.remove(cluster)
        amounts.append((cluster, nodes))
    return amounts


def _one_of(text: str, known: Sequence[str], where: str) -> None:
    if text not in known:
        raise InvalidInput(
            f"{excerpt(text)!r} is not known", where=where, remedy=f"write {' or '.join(known)}"
        )
