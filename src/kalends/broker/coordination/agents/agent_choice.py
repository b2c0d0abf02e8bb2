"""The choice among what sites hold for an agent: the common start that serves every term best.

What a site holds is in its agent's order of preference; the place in it is the *rank* of a slot, and
a common start is as good as the sum of the ranks of the slots that serve it. Terms of one group take
different resources: which slot serves which term is a bipartite matching of least cost, found by
successive shortest paths (Ahuja, Magnanti, Orlin: Network Flows, section 9.7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from kalends.contract.messages import SiteReport
from kalends.core import limits
from kalends.core.scripts import HeldChoice, Starts


class Need(NamedTuple):
    """Term number `term` needs `wanted` different resources; terms of one `group` share none."""

    term: int
    wanted: int
    group: int


class Option(NamedTuple):
    """`resource` could serve `term`; the less `rank`, the better. `hold` where it is held."""

    term: int
    resource: str
    rank: int
    hold: HeldChoice | None = None


class Choice(NamedTuple):
    """A common start, the sum of the ranks of what serves it, and the holds to keep."""

    common: int
    cost: int
    holds: tuple[HeldChoice, ...]


def best_choice(
    needs: Sequence[Need],
    held: Iterable[Iterable[tuple[int, HeldChoice]]],
    excluded: Collection[int] = (),
) -> Choice | None:
    """The best common start at which `held` serves all `needs`: least cost, then earliest.

    `held` has for each site its holds with their ranks; none of those at `excluded` starts is taken.
    """
    by_common: dict[int, list[Option]] = {}
    for of_site in held:
        for rank, hold in of_site:
            option = Option(hold.term, hold.resource, rank, hold)
            by_common.setdefault(hold.common, []).append(option)
    best: Choice | None = None
    for common in sorted(by_common.keys() - set(excluded)):
        served = cheapest(needs, by_common[common])
        if served is None:
            continue
        cost = sum(option.rank for option in served)
        if best is None or cost < best.cost:
            holds = tuple(option.hold for option in served if option.hold is not None)
            best = Choice(common, cost, holds)
    return best


def cheapest(needs: Sequence[Need], options: Iterable[Option]) -> list[Option] | None:
    """Options that serve all `needs` at the least sum of ranks; None when no options do."""
    first: dict[tuple[int, str], Option] = {}
    for option in sorted(options, key=lambda each: (each.rank, each.resource)):
        first.setdefault((option.term, option.resource), option)
    by_term: dict[int, list[Option]] = {need.term: [] for need in needs}
    for option in first.values():
        if option.term in by_term:
            by_term[option.term].append(option)
    if any(len(by_term[need.term]) < need.wanted for need in needs):
        return None
    served: list[Option] = []
    for group in sorted({need.group for need in needs}):
        of_group = [need for need in needs if need.group == group]
        if len(of_group) == 1:
            served += by_term[of_group[0].term][: of_group[0].wanted]
            continue
        if not _enough(of_group, by_term) or (matched := _matched(of_group, by_term)) is None:
            return None
        served += matched
    return served


def common_starts(
    needs: Sequence[Need],
    offered: Mapping[str, Iterable[tuple[int, str, int]]],
    wished: Mapping[str, Sequence[int]],
    excluded: Collection[int],
    count_max: int,
) -> tuple[int, ...]:
    """At most `count_max` starts, ascending, at which what sites have `offered` serves all `needs`.

    `offered` has for each site ``(term, resource, start)``, `wished` the starts its agent preferred,
    best first. Taken are those that most sites wished for, then those that stood further ahead.
    """
    by_start: dict[int, list[Option]] = {}
    for of_site in offered.values():
        for term, resource, start in of_site:
            by_start.setdefault(start, []).append(Option(term, resource, 0))
    wishes: Counter[int] = Counter()
    places: Counter[int] = Counter()
    for starts in wished.values():
        for place, start in enumerate(dict.fromkeys(starts)):
            wishes[start] += 1
            places[start] += place
    preferred = sorted(
        by_start.keys() - set(excluded),
        key=lambda start: (-wishes[start], places[start], start),
    )
    suiting = (start for start in preferred if cheapest(needs, by_start[start]) is not None)
    return tuple(sorted(islice(suiting, count_max)))


def starts_of(report: SiteReport, starts: Starts) -> list[tuple[int, str, int]]:
    """Yield the slots on offer by `report`: ``(term, resource, start)``.

    Never more than a visit may offer, nor outside of `starts`, whatever the site has said.
    """
    found: list[tuple[int, str, int]] = []
    for offered in report.offered:
        for first, last in offered.runs:
            late_s = max(starts.first - first, 0)
            begin = first + -(-late_s // starts.step_s) * starts.step_s
            for start in range(begin, min(last, starts.last) + 1, starts.step_s):
                if len(found) == limits.OFFERS_MAX:
                    return found
                found.append((offered.term, offered.resource, start))
    return found


def _enough(needs: Sequence[Need], by_term: Mapping[int, Sequence[Option]]) -> bool:
    """Whether there are as many resources as all terms want: else no matching need be tried."""
    resources = {option.resource for need in needs for option in by_term[need.term]}
    return len(resources) >= sum(need.wanted for need in needs)


def _matched(needs: Sequence[Need], by_term: Mapping[int, Sequence[Option]]) -> list[Option] | None:
    """The cheapest matching of terms that share no resource: one more resource at a time."""
    taken: dict[str, Option] = {}
    lacking = {need.term: need.wanted for need in needs}
    while any(lacking.values()):
        path = _shortest_path([term for term, left in lacking.items() if left], by_term, taken)
        if path is None:
            return None
        for option in path:
            taken[option.resource] = option
        lacking[path[-1].term] -= 1
    return [taken[resource] for resource in sorted(taken)]


def _shortest_path(
    begins: Sequence[int], by_term: Mapping[int, Sequence[Option]], taken: Mapping[str, Option]
) -> list[Option] | None:
    """What to take so that one more resource serves one of `begins`, at the least extra cost.

    From the resource that is free now back to the term that gains one; each step gives a term that
    must let go of its resource another one (Bellman and Ford, for letting go lowers the cost).
    """
    term_cost = dict.fromkeys(begins, 0)
    loses: dict[int, str] = {}
    cost: dict[str, int] = {}
    gains: dict[str, Option] = {}
    waiting = list(begins)
    while waiting:
        term = waiting.pop(0)
        for option in by_term[term]:
            holder = taken.get(option.resource)
            if holder is option:
                continue
            reached = term_cost[term] + option.rank
            if reached >= cost.get(option.resource, reached + 1):
                continue
            cost[option.resource], gains[option.resource] = reached, option
            if holder is None or holder.term == term:
                continue
            if reached - holder.rank < term_cost.get(holder.term, reached - holder.rank + 1):
                term_cost[holder.term] = reached - holder.rank
                loses[holder.term] = option.resource
                if holder.term not in waiting:
                    waiting.append(holder.term)
    free = [resource for resource in cost if resource not in taken]
    if not free:
        return None
    resource: str | None = min(free, key=lambda name: (cost[name], name))
    path: list[Option] = []
    while resource is not None:
        option = gains[resource]
        path.append(option)
        resource = loses.get(option.term)
    return path
