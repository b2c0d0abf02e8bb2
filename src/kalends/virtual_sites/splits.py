"""Splits of a job over members of a virtual site: as few as possible, and traffic that their links carry.

Each node of a job of n nodes exchanges `traffic` with all others together, equally with each. So n_i nodes at
one member and n_j at another exchange n_i x n_j / (n - 1) x traffic. Inside a member traffic is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, pairwise
from typing import Final, NamedTuple

from kalends.core.transport import Rates

MEMBERS_TRIED: Final = 8
"""The members with the most nodes; more would make too many combinations."""

TOGETHER_MAX: Final = 4
"""A job that needs more members is mostly waiting for its messages."""

SIZES_TRIED: Final = 64
"""Numbers of nodes that are tried for each member but the last two: all, if there are no more."""

EFFORT_MAX: Final = 5_000
"""Steps for one question, which bounds its time to a fraction of a second."""

Division = tuple[int, ...]
"""The nodes of each member, as they stand in the question."""


class MemberNodes(NamedTuple):
    """A member with the `nodes` of all its machines, and the usual `wait_s` of a job there."""

    member: str
    nodes: int
    wait_s: float


class TightLink(NamedTuple):
    """The pair whose link carries too little: `nodes` at `members` need `needs_mb_per_s` of its `mb_per_s`.

    With a traffic of `fits_mb_per_s` it would carry it.
    """

    members: tuple[str, str]
    nodes: tuple[int, int]
    mb_per_s: float
    needs_mb_per_s: float
    fits_mb_per_s: float


class JobTraffic(NamedTuple):
    """A job of `nodes` whose nodes exchange `traffic` megabytes a second each, over links with `rates`."""

    nodes: int
    traffic: float
    rates: Rates

    def product_max(self, one: str, other: str) -> int:
        """Return how large the product of the nodes at two members may be."""
        every = self.nodes**2
        if not self.traffic:
            return every
        return int(min(every, self.rates.mb_per_s(one, other) * (self.nodes - 1) / self.traffic))

    def fits(self, members: Sequence[str], division: Division) -> bool:
        """Return whether all links carry the traffic of `division`."""
        pairs = combinations(zip(members, division, strict=True), 2)
        return all(n * m <= self.product_max(one, other) for (one, n), (other, m) in pairs)

    def lack(self, members: Sequence[str], division: Division) -> TightLink:
        """Return the pair of at least two members that carries the least of what it needs."""
        pairs = combinations(zip(members, division, strict=True), 2)
        return min(
            (self._lack((one, other), (n, m)) for (one, n), (other, m) in pairs),
            key=lambda each: each.fits_mb_per_s,
        )

    def _lack(self, members: tuple[str, str], nodes: tuple[int, int]) -> TightLink:
        rate, shares = self.rates.mb_per_s(*members), nodes[0] * nodes[1] / (self.nodes - 1)
        return TightLink(members, nodes, rate, shares * self.traffic, rate / shares)


class _Fillings:
    """Ways to fill members one after the other, each as full as possible; `left` is the effort left."""

    def __init__(self, exchange: JobTraffic) -> None:
        self._exchange = exchange
        self._left = EFFORT_MAX

    def first(self, groups: Sequence[MemberNodes]) -> Division | None:
        """Return the fullest filling of all `groups` in their order that links carry; None if none was found.

        None of two groups is overlooked; of more, none if each has at most `SIZES_TRIED` nodes, and the
        effort lasts.
        """
        pairs = {
            (i, j): self._exchange.product_max(groups[i].member, groups[j].member)
            for i, j in combinations(range(len(groups)), 2)
        }
        return self._filled([each.nodes for each in groups], pairs, (), self._exchange.nodes)

    def _filled(
        self, most: Sequence[int], pairs: Mapping[tuple[int, int], int], done: Division, left: int
    ) -> Division | None:
        self._left -= 1
        if self._left < 0:
            return None
        at = len(done)
        tops = [
            min(most[j], left, *(pairs[i, j] // n for i, n in enumerate(done)))
            for j in range(at, len(most))
        ]
        if min(tops) < 1 or sum(tops) < left or left < len(tops):
            return None
        if len(tops) == 1:
            return (*done, left)
        top, least = min(tops[0], left - len(tops) + 1), max(1, left - sum(tops[1:]))
        # What two members exchange is least where one of them is as full, or as empty, as it may be.
        sizes = (top, least) if len(tops) == 2 else range(top, least - 1, -1)
        step = max(1, len(sizes) // SIZES_TRIED)
        for size in dict.fromkeys((*sizes[::step], least)):
            found = self._filled(most, pairs, (*done, size), left - size)
            if found or self._left < 0:
                return found
        return None


def splits(
    groups: Sequence[MemberNodes], exchange: JobTraffic, count: int
) -> tuple[list[dict[str, int]], TightLink | None]:
    """Return at most `count` splits, as nodes by member, the best first; and without any, what is in the way.

    All have the same number of members, the fewest: first those with the shortest waits, then those with the
    most nodes. There is no `TightLink` if the members have too few nodes.
    """
    largest = sorted(groups, key=lambda each: (-each.nodes, each.wait_s, each.member))
    tried, fillings = largest[:MEMBERS_TRIED], _Fillings(exchange)
    lack: TightLink | None = None
    for together in range(1, min(len(tried), TOGETHER_MAX, exchange.nodes) + 1):
        enough = [
            each
            for each in combinations(tried, together)
            if sum(group.nodes for group in each) >= exchange.nodes
        ]
        enough.sort(key=lambda some: max(group.wait_s for group in some))
        found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
        for some in enough:
            if len(found) >= count:
                break
            for split in _divisions(some, exchange, fillings):
                found.setdefault(tuple(sorted(split.items())), split)
        if found:
            return list(islice(found.values(), count)), None
        if enough and lack is None:
            loose = _Fillings(exchange._replace(traffic=0.0))
            lacks = [
                exchange.lack(tuple(split), tuple(split.values()))
                for some in enough
                for split in _divisions(some, exchange._replace(traffic=0.0), loose)
            ]
            lack = max(lacks, key=lambda each: each.fits_mb_per_s)
    return [], lack


def _divisions(
    some: Sequence[MemberNodes], exchange: JobTraffic, fillings: _Fillings
) -> Iterator[dict[str, int]]:
    """Yield splits over these members: each of them as full as possible once; and all equally full."""
    for first in some:
        ordered = [first, *(each for each in some if each is not first)]
        if division := fillings.first(ordered):
            yield dict(zip((each.member for each in ordered), division, strict=True))
    members, division = [each.member for each in some], _even(some, exchange.nodes)
    if min(division) and exchange.fits(members, division):
        yield dict(zip(members, division, strict=True))


def _even(some: Sequence[MemberNodes], nodes: int) -> Division:
    """Return shares of `nodes` in proportion to the sizes of the members."""
    whole = sum(each.nodes for each in some)
    ends = [0]
    for each in some:
        ends.append(ends[-1] + each.nodes)
    return tuple(nodes * end // whole - nodes * begin // whole for begin, end in pairwise(ends))
