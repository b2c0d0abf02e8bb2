"""Requests for the members of a virtual site: its manager names splits, which become alternatives.

"For sites that have sufficient communication capacity between them, scheduling a single job across these
sites may be feasible." (Weissman and Grimshaw 1996, section 3.1.) The manager knows this capacity; its answer
is an opinion. The members decide by their votes, as about any request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from itertools import islice, product
from typing import Final

from msgspec import structs

from kalends.contract import calls
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, NotFound, Unavailable
from kalends.core.identifiers import members_of, split_resource
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo
from kalends.serving.auth.callers import Caller
from kalends.serving.logs import Logger

Split = tuple[m.NodeShare, ...]

Sizes = dict[str, int]
"""The nodes of each machine that is offered to a manager."""

_ALL: Final = calls.ListResources()


class SplitRequests:
    """Splits by the managers of the `virtual` sites.

    `resources` gives what a caller may see: a manager, and the user, hear of nothing else. `ask` asks a
    manager, and returns None without an answer.
    """

    def __init__(
        self,
        virtual: Sequence[str],
        resources: Callable[[Caller, calls.ListResources], Awaitable[calls.Resources]],
        ask: Callable[[str, m.Split], Awaitable[m.Splits | None]],
        logger: Logger,
    ) -> None:
        self._virtual_of = {members_of(each): each for each in virtual}
        self._resources, self._ask, self._logger = resources, ask, logger

    async def split(
        self, caller: Caller, request: Request, jobs: Collection[str] = ()
    ) -> Request | None:
        """Return `request` with the splits of each term for all members; None if it has no such term.

        `jobs` are resources with jobs of their own. Raises `InvalidInput` if no split fits the links, or the
        term cannot be split, and `Unavailable` without a manager's answer, if no machine is large enough.
        """
        terms = [term for each in request.alternatives for term in each.terms]
        wanted = {term: "" for term in terms if term.resource in self._virtual_of}
        if not wanted:
            return None
        for term in wanted:
            _check_term(term, jobs)
        seen = (await self._resources(caller, _ALL)).resources
        traffic = request.traffic_mb_per_s
        splits = {term: await self._splits(term, seen, traffic) for term in wanted}
        split = structs.replace(
            request, traffic_mb_per_s=0.0, alternatives=tuple(_alternatives(request, splits))
        )
        split.check(from_wire=True)
        return split

    async def _splits(
        self, term: Term, seen: Sequence[ResourceInfo], traffic: float
    ) -> Sequence[Split]:
        virtual = self._virtual_of[term.resource]
        found = [
            each
            for each in seen
            if each.queue and not each.advisory and each.through[:1] == (virtual,)
        ]
        found.sort(key=lambda each: (-each.capacity, each.name))
        machines = [_machine(each) for each in found[: limits.SPLIT_MACHINES_MAX]]
        sizes = {each.machine: each.nodes for each in machines}
        if not machines:
            raise NotFound(
                f"no member of {virtual} that answers has a machine for you",
                where=term.resource,
                remedy="`kalends resources` lists the machines that you may see",
            )
        if sum(sizes.values()) < term.units:
            raise InvalidInput(
                f"{term.units} nodes, of which the members have {sum(sizes.values())} together",
                where=term.resource,
                remedy="ask for fewer nodes",
            )
        question = m.Split(nodes=term.units, traffic_mb_per_s=traffic, machines=tuple(machines))
        answer = await self._ask(virtual, question)
        if answer is not None and not all(_is_of(each, term, sizes) for each in answer.splits):
            self._logger.warning("manager_splits_wrongly", site=virtual)
            answer = None
        if answer is not None and answer.splits:
            return answer.splits
        alone = sorted(
            (each for each in machines if each.nodes >= term.units), key=lambda each: each.nodes
        )
        if alone:
            return [(m.NodeShare(each.machine, term.units),) for each in alone[: limits.SPLITS_MAX]]
        if answer is None:
            raise Unavailable(
                f"the manager of {virtual} names no split, and no machine there has {term.units} nodes",
                where=term.resource,
                remedy="try again later; or name the machines, with the nodes of each",
            )
        raise _no_split(term, sizes, traffic, answer.lack)


def _check_term(term: Term, jobs: Collection[str]) -> None:
    if term.units_max > term.units:
        raise InvalidInput(
            "the number of nodes is not fixed",
            where=term.resource,
            remedy=f"write {term.resource}:{term.units}",
        )
    if term.resource in jobs:
        raise InvalidInput(
            "a job of its own for machines that are still to be chosen",
            where=term.resource,
            remedy="give one job for all machines of the request",
        )


def _machine(info: ResourceInfo) -> m.MemberMachine:
    way = "/".join([*info.through[1:], split_resource(info.name)[0]])
    return m.MemberMachine(way, info.name, info.capacity)


def _is_of(split: Split, term: Term, sizes: Sizes) -> bool:
    """Return whether a split has the nodes of `term`, on machines that were named, each once."""
    machines = {share.machine for share in split}
    return (
        len(machines) == len(split)
        and all(share.nodes <= sizes.get(share.machine, 0) for share in split)
        and sum(share.nodes for share in split) == term.units
    )


def _alternatives(request: Request, splits: dict[Term, Sequence[Split]]) -> Iterator[Alternative]:
    """Yield the alternatives with their splits, the best first; no more than a request may have."""
    room = limits.ALTERNATIVES_MAX // len(request.alternatives)
    for each in request.alternatives:
        ways = [_ways(term, splits.get(term)) for term in each.terms]
        longest = sum(max(map(len, way)) for way in ways)
        most = min(room, limits.TERMS_OF_ALL_MAX // len(request.alternatives) // longest)
        for chosen in islice(product(*ways), max(1, most)):
            terms = tuple(term for way in chosen for term in way)
            yield structs.replace(each, terms=terms)


def _ways(term: Term, splits: Sequence[Split] | None) -> list[tuple[Term, ...]]:
    """Return the terms that may stand for `term`."""
    if splits is None:
        return [(term,)]
    return [
        tuple(
            structs.replace(term, resource=share.machine, units=share.nodes, units_max=0)
            for share in split
        )
        for split in splits
    ]


def _no_split(term: Term, sizes: Sizes, traffic: float, lack: m.LinkLack | None) -> KalendsError:
    largest = max(sizes.values())
    fewer = f"ask for at most {largest} nodes, which one machine has"
    if lack is None:
        return InvalidInput(
            f"the manager knows no split of {term.units} nodes", where=term.resource, remedy=fewer
        )
    (one, other), (n, k) = lack.members, lack.nodes
    carries = f"carries {lack.mb_per_s:g}" if lack.mb_per_s else "is not known"
    less = (
        f"give at most --traffic {_rounded_down(lack.fits_mb_per_s)}MB, or "
        if lack.mb_per_s
        else ""
    )
    return InvalidInput(
        f"no split of {term.units} nodes fits the links: with {n} nodes at {one} and {k} at {other} they"
        f" exchange {lack.needs_mb_per_s:.4g} MB/s, and the link between these {carries}",
        where=term.resource,
        remedy=f"{less}{fewer}",
    )


def _rounded_down(amount: float) -> str:
    """Return an amount with three digits, never more than it is."""
    text = f"{amount:.3g}"
    return text if float(text) <= amount else f"{amount * 0.995:.3g}"
