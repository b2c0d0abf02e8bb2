"""Which nodes are taken when, and which to take: a batch system is asked for nodes by name.

What a system may choose itself it may also cut: a reservation of so many nodes silently loses one that
leaves its configuration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from kalends.resource_servers.participation.provision.extents import Extent


def choose(
    nodes: Sequence[str], taken: Iterable[Extent], start: int, end: int, units: int,
    *, gap_s: int = 0, kept: Collection[str] = (), avoided: Collection[str] = (),
) -> tuple[str, ...] | None:  # fmt: skip
    """Return `units` of `nodes`, sorted, that are free during ``[start, end)``; None where there are fewer.

    Nodes in `kept` come first, then those whose last holder ends latest: so long stretches stay whole. Those
    in `avoided` come last.
    """
    blocked: set[str] = set()
    free_since: dict[str, int] = {}
    for extent in taken:
        if extent.meets(start - gap_s, end + gap_s):
            blocked.update(extent.nodes)
        elif extent.end <= start:
            for node in extent.nodes:
                free_since[node] = max(free_since.get(node, 0), extent.end)
    free = [node for node in nodes if node not in blocked]
    if len(free) < units:
        return None
    free.sort(key=lambda node: (node not in kept, node in avoided, -free_since.get(node, 0), node))
    return tuple(sorted(free[:units]))


def without(extents: Iterable[Extent], taken: Iterable[Extent]) -> list[Extent]:
    """Return when and where `extents` are beyond `taken`: disjoint, nodes of the same times together.

    A node that several have at a time counts once.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for extent in extents:
        for node in extent.nodes:
            spans[node].append((extent.start, extent.end))
    holes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for extent in taken:
        for node in extent.nodes:
            holes[node].append((extent.start, extent.end))
    together: dict[tuple[int, int], list[str]] = defaultdict(list)
    for node, found in spans.items():
        for span in _cut(_merged(found), _merged(holes[node])):
            together[span].append(node)
    return [Extent(*span, tuple(sorted(names))) for span, names in sorted(together.items())]


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cut(
    spans: Iterable[tuple[int, int]], holes: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    left = []
    for start, end in spans:
        at = start
        for begin, finish in holes:
            if finish <= at or end <= begin:
                continue
            if at < begin:
                left.append((at, begin))
            at = finish
        if at < end:
            left.append((at, end))
    return left
