"""Times at which nodes are taken, and the choice of nodes: a batch system is asked for nodes by name.

What a system may choose itself it may also cut: a reservation of so many nodes silently loses one that
leaves its configuration.

A node has room for a number of units: one, or as many as it has cores. Licences of a name are one node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from kalends.core.limits import UNITS_MAX
from kalends.resource_servers.participation.provision.extents import Extent, in_order

Spans = Sequence[tuple[int, int]]
Step = tuple[int, int, int]
"""From when to when, and how many units then."""
_Together = defaultdict[tuple[int, int], Counter[str]]
"""How many units of each node have the same times."""


def choose(
    room: Mapping[str, int], taken: Iterable[Extent], start: int, end: int, units: int,
    *, gap_s: int = 0, kept: Collection[str] = (), avoided: Collection[str] = (),
) -> tuple[str, ...] | None:  # fmt: skip
    """Return `units` of what has `room`, sorted, free during ``[start, end)``; None where there are fewer.

    What is in `kept` comes first, then as few nodes as possible, and of these such whose last holder ends
    latest: so long stretches stay whole. Those in `avoided` come last.
    """
    meeting: dict[str, list[tuple[int, int]]] = defaultdict(list)
    free_since: dict[str, int] = {}
    for extent in taken:
        if extent.meets(start - gap_s, end + gap_s):
            for node in extent.nodes:
                meeting[node].append(extent[:2])
        elif extent.end <= start:
            for node in extent.nodes:
                free_since[node] = max(free_since.get(node, 0), extent.end)
    free = dict(room)
    for node in meeting.keys() & free.keys():
        free[node] -= peak(meeting[node], gap_s, room[node])

    def order(node: str) -> tuple[bool, int, str]:
        return node in avoided, -free_since.get(node, 0), node

    picked: Counter[str] = Counter()
    wanted = Counter(kept)
    for node in sorted(wanted.keys() & free.keys(), key=order):
        here = max(0, min(wanted[node], free[node], units - picked.total()))
        picked[node] += here
        free[node] -= here
    left = units - picked.total()
    rest = sorted(
        (node for node, most in free.items() if most > 0),
        key=lambda node: (node in avoided, not picked[node], -free[node], order(node)),
    )
    picked += _fewest(rest, free, left, lambda node: (node in avoided, not picked[node]))
    return in_order(picked) if picked.total() == units else None


def _fewest(
    nodes: Sequence[str], free: Mapping[str, int], units: int, rank: Callable[[str], object]
) -> Counter[str]:
    """Take whole nodes in this order, and the rest from the smallest that has it, of the same rank."""
    picked: Counter[str] = Counter()
    for number, node in enumerate(nodes):
        if free[node] > units:
            if units:
                same = (each for each in nodes[number:] if rank(each) == rank(node))
                picked[min(same, key=lambda each: (free[each] < units, free[each]))] = units
            break
        picked[node] = free[node]
        units -= free[node]
    return picked


def peak(spans: Spans, gap_s: int = 0, most: int = UNITS_MAX) -> int:
    """Return how many of `spans` there are at a time, at most `most`; a gap has to lie between two."""
    if len(spans) < 2 or most == 1:
        return min(len(spans), most)
    apart = [(start, end + gap_s) for start, end in spans] if gap_s else spans
    return max(level for _, _, level in steps(apart, most))


def fragments(
    room: Mapping[str, int], taken: Iterable[Extent], since: int, until: int, length_s: int,
    *, gap_s: int = 0,
) -> list[tuple[int, int, int]]:  # fmt: skip
    """Return start, end and number of units that are free for less than `length_s` in one piece.

    Nobody who wants one for so long can have them, though each is free at each of these times: a gap has to
    lie before the piece and after it. What has no end is no fragment; nothing begins before `since`.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for extent in taken:
        if extent.meets(since - gap_s, until + length_s + gap_s):
            for node in extent.nodes:
                spans[node].append(extent[:2])
    found: Counter[tuple[int, int]] = Counter()
    for node in spans.keys() & room.keys():
        most = room[node]
        apart = [(start, end + gap_s) for start, end in spans[node]]
        busy = steps(spans[node], most)
        for units, closed, used in _by_unit(steps(apart, most) if gap_s else busy, busy, most):
            for start, end in _useless(closed, used, since, length_s, gap_s):
                found[start, end] += units
    return [(*span, units) for span, units in sorted(found.items())]


def _useless(
    closed: Sequence[Step], used: Sequence[Step], since: int, length_s: int, gap_s: int
) -> Iterator[tuple[int, int]]:
    """Yield when a unit is free in vain; it is `used`, and a gap longer it is `closed`."""
    free_since = since
    for start, end, _ in closed:
        ends = start - gap_s
        begin = ends if ends - free_since >= length_s else free_since
        if begin < start:
            yield begin, start
        free_since = max(free_since, end)
    for start, end, _, taken in _both(closed, used) if gap_s else ():
        if not taken and since < end:
            yield max(start, since), end


def _by_unit(
    closed: Sequence[Step], used: Sequence[Step], most: int
) -> Iterator[tuple[int, Sequence[Step], Sequence[Step]]]:
    """Yield how many units of a node have the same times, and both of these: the last unit has least."""
    if most == 1:
        yield 1, closed, used
        return
    levels = sorted({0, most, *(level for _, _, level in (*closed, *used))})
    for lower, upper in pairwise(levels):
        yield upper - lower, _from(closed, upper), _from(used, upper)


def _from(taken: Sequence[Step], least: int) -> Sequence[Step]:
    """Return when `least` units or more are taken."""
    return _joined((start, end, 1) for start, end, level in taken if level >= least)


def beside(
    room: Mapping[str, int], extents: Iterable[Extent], taken: Iterable[Extent]
) -> tuple[list[Extent], list[Extent]]:
    """Return what of `extents` has room beside `taken`, and what has not: both disjoint, by time.

    Together they are never more than the whole room: units that several have at a time count once.
    """
    ours: dict[str, list[tuple[int, int]]] = defaultdict(list)
    theirs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for spans, found in ((theirs, extents), (ours, taken)):
        for extent in found:
            for node in extent.nodes:
                spans[node].append(extent[:2])
    fitting: _Together = defaultdict(Counter)
    lying_on: _Together = defaultdict(Counter)
    for node in theirs.keys() & room.keys():
        fits: list[Step] = []
        over: list[Step] = []
        most = room[node]
        for start, end, other, own in _both(
            steps(theirs[node], most), steps(ours.get(node, ()), most)
        ):
            fitted = min(other, most - own)
            fits.append((start, end, fitted))
            over.append((start, end, other - fitted))
        for together, pieces in ((fitting, fits), (lying_on, over)):
            for start, end, units in _joined(pieces):
                together[start, end][node] += units
    return _extents(fitting), _extents(lying_on)


def _extents(together: _Together) -> list[Extent]:
    return [Extent(*span, in_order(units)) for span, units in sorted(together.items())]


def steps(spans: Spans, most: int) -> list[Step]:
    """Return how many of `spans` there are when, at most `most`, in order; not where there are none."""
    if most == 1:
        return _joined((start, end, 1) for start, end in sorted(spans))
    changes: dict[int, int] = defaultdict(int)
    for start, end in spans:
        changes[start] += 1
        changes[end] -= 1
    level, found = 0, []
    for at, until in pairwise(sorted(changes)):
        level += changes[at]
        found.append((at, until, min(level, most)))
    return _joined(found)


def _both(one: Sequence[Step], other: Sequence[Step]) -> Iterator[tuple[int, int, int, int]]:
    """Yield `one` cut where `other` changes, with the units of both."""
    number = 0
    for start, end, units in one:
        at = start
        while at < end:
            while number < len(other) and other[number][1] <= at:
                number += 1
            begin, finish, level = other[number] if number < len(other) else (end, end, 0)
            if at < begin:
                finish, level = begin, 0
            until = min(finish, end)
            yield at, until, units, level
            at = until


def _joined(pieces: Iterable[Step]) -> list[Step]:
    """Return sorted pieces, of as many units such as touch or overlap as one; those without any go."""
    joined: list[Step] = []
    for start, end, units in pieces:
        if joined and start <= joined[-1][1] and units == joined[-1][2]:
            if end > joined[-1][1]:
                joined[-1] = joined[-1][0], end, units
        elif units:
            joined.append((start, end, units))
    return joined
