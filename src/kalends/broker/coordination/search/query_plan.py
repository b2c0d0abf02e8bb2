"""Looking before asking: which sites to query for a request, and the plan that their views allow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.refusal_errors import PERMANENT, site_away
from kalends.broker.coordination.transaction import by_site
from kalends.broker.planning.demand import Catalogue
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.explanations import explain_one, of_alternative, others_were_faster
from kalends.broker.planning.local_days import plan
from kalends.broker.planning.needs import NOTHING_BARRED, BarredNeeds, needs_of
from kalends.broker.planning.planner import Free, Key, Plan, candidates, executable, fixed_start
from kalends.broker.planning.price_lists import NOTHING_PRICED, PriceLists
from kalends.broker.planning.search_budget import Work
from kalends.calendars import unknown_resource
from kalends.contract.messages import RoomNeed, Want
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import site_of, split_resource
from kalends.core.money import format_credits
from kalends.core.refusals import error_of
from kalends.core.requests import Request

_NOBODY_HAS: Final = frozenset({RefusalCode.UNKNOWN_RESOURCE, RefusalCode.TOO_MUCH})
"""Refusals that can only be given by one who knows all sites."""

_HOPELESS: Final = PERMANENT | {RefusalCode.OFF_GRAIN}
"""Refusals that no other time would help."""


class QueryPlan(NamedTuple):
    """What to ask of each site: every candidate resource over the whole window, and what is needed of it."""

    by_site: dict[str, tuple[Want, ...]]
    needs: tuple[RoomNeed, ...] = ()

    @classmethod
    def of(
        cls, record: Record, directory: Directory, shunned: Collection[str], wall_s: int
    ) -> QueryPlan:
        """Raises `Unavailable` when of each alternative a named resource's site cannot be asked.

        A named resource that a site has not told of is asked for there, too, and refused in the end by
        `why_not`: whoever may not see a resource must not learn that it is there, from no word and not from
        how long the answer took.

        Only a fixed start may lie in the past: in the slot of the grain that runs now.
        """
        request = record.spec.request
        return cls.of_request(request, directory, shunned, wall_s)

    @classmethod
    def of_request(
        cls, request: Request, directory: Directory, shunned: Collection[str], wall_s: int
    ) -> QueryPlan:
        """Do as `of`; raises `InvalidInput` for requests that an agent cannot choose for."""
        executable(request)
        catalogue = Catalogue(directory.resources)
        numbers = range(len(request.alternatives))
        down = [_down(request, number, directory) for number in numbers]
        if all(down):
            raise error_of(refusal for of_one in down for refusal in of_one)
        reachable = [number for number in numbers if not down[number]]
        named = _named(request, reachable)
        picked = {
            name
            for number in reachable
            for name in _pickable(request, number, directory, catalogue)
            if name not in shunned and split_resource(name)[0] not in shunned
        }
        asked = sorted(name for name in picked | named if directory.is_up(split_resource(name)[0]))
        past_s = limits.JUST_NOW_S if fixed_start(request) is None else limits.DURATION_S_MAX
        start = max(request.not_before, wall_s - past_s)
        infos = [directory.resources[name] for name in asked if name in directory.resources]
        horizon = max((info.horizon_s for info in infos), default=1)
        end = min(request.not_after or wall_s + horizon, limits.TIME_S_MAX)
        wants = tuple(Want(name, start, max(end, start + 1), 1) for name in asked)
        return cls(by_site(wants), needs_of(request))


def plans(
    request: Request,
    directory: Directory,
    free: Free,
    *,
    count: int = 1,
    excluded: Collection[Key] = (),
    work: Work | None = None,
    prices: PriceLists = NOTHING_PRICED,
) -> Sequence[Plan]:
    """As `local_days.plan`, for the resources that the broker knows."""
    return plan(
        request, directory.resources, free, count=count, excluded=excluded, work=work, prices=prices
    )


def why_not(
    request: Request,
    directory: Directory,
    free: Free,
    refusals: Sequence[Refusal],
    *,
    hopeless: bool = False,
    barred: BarredNeeds = NOTHING_BARRED,
    prices: PriceLists = NOTHING_PRICED,
) -> tuple[Refusal, ...]:
    """Return why there is no plan, for each alternative, given the refusals of sites.

    Alternatives that no other time would help are told of only where all are such: the others say
    what to wait for. With `hopeless` they are told of, too. A resource that the asker may not see is
    told of like one that is not there: when it is named, in the same words and place; when attributes
    would pick it, not at all. What is `barred` is told of by the owner's rule, and never called taken.
    """
    if prices and request.at_most and (dear := too_dear(request, directory, free, prices)):
        return dear
    hidden = {each.where for each in refusals if each.code == RefusalCode.UNKNOWN_RESOURCE}
    seen = {name: info for name, info in directory.resources.items() if name not in hidden}
    told = [refusal for refusal in refusals if refusal.where not in hidden]
    reasons = []
    catalogue = Catalogue(directory.resources)
    faster: list[Refusal] | None = None
    for number in range(len(request.alternatives)):
        named = _named(request, (number,))
        gone = _down(request, number, directory)
        heard = {name for name in named if split_resource(name)[0] not in {g.where for g in gone}}
        missing = [unknown_resource(name) for name in heard - directory.resources.keys()]
        refused = [refusal for refusal in refusals if refusal.where in named]
        if missing or refused or gone:
            because = sorted([*missing, *refused], key=lambda refusal: refusal.where) + gone
            reasons.append([of_alternative(request, number, refusal) for refusal in because])
        else:
            used = _pickable(request, number, directory, catalogue)
            sites = directory.sites
            about = [each for each in told if each.where in used or each.where in sites]
            if faster is None:
                faster = [others_were_faster(request)] if plan(request, seen, free) else []
            explained = faster or explain_one(request, number, seen, free, barred)
            reasons.append([*about, *_unless_unheard(request, number, directory, explained)])
    hopeful = [each for each in reasons if not any(one.code in _HOPELESS for one in each)]
    chosen = reasons if hopeless or not hopeful else hopeful
    return tuple(dict.fromkeys(refusal for each in chosen for refusal in each))


def too_dear(
    request: Request, directory: Directory, free: Free, prices: PriceLists
) -> tuple[Refusal, ...]:
    """Return which budgets are too small for the cheapest start; () if money is not the reason."""
    unlimited = msgspec.structs.replace(request, at_most={}, prefer_price=False, rates={})
    if not plan(unlimited, directory.resources, free, prices=prices):
        return ()
    told, owners = [], prices.owners()
    for site, cap in sorted(request.at_most.items()):
        owner = site or owners[0]
        if owner not in owners:
            continue
        of_owner = {name: of for name, of in prices.of.items() if site_of(name) == owner}
        cheapest = msgspec.structs.replace(unlimited, prefer_price=True)
        found = plan(cheapest, directory.resources, free, prices=PriceLists(of_owner, prices.lists))
        least = min((each.costs.get(owner, 0) for each in found), default=0)
        if least > cap:
            told.append(
                Refusal(
                    where=owner,
                    code=RefusalCode.PRICE,
                    detail=f"the cheapest start costs {format_credits(least)} credits there, more than"
                    f" {format_credits(cap)}, the budget",
                )
            )
    return tuple(told)


def _unless_unheard(
    request: Request, number: int, directory: Directory, explained: Sequence[Refusal]
) -> Sequence[Refusal]:
    """Why an alternative has no plan; what attributes would pick may be at a site that is not heard."""
    named = _named(request, (number,))
    if len(named) == len(request.alternatives[number].terms):
        return explained
    unheard = [site_away(site) for site in directory.sites.values() if not site.up]
    if not unheard:
        return explained
    known = [each for each in explained if each.where in named or each.code not in _NOBODY_HAS]
    return (*known, *unheard)


def batched(wants: tuple[Want, ...]) -> Iterator[tuple[Want, ...]]:
    """`wants` in parts that each fit into one Query."""
    for first in range(0, len(wants), limits.CLAIMS_MAX):
        yield wants[first : first + limits.CLAIMS_MAX]


def _named(request: Request, numbers: Iterable[int]) -> set[str]:
    """The resources that alternatives name."""
    return {
        term.resource
        for number in numbers
        for term in request.alternatives[number].terms
        if term.resource
    }


def _down(request: Request, number: int, directory: Directory) -> list[Refusal]:
    """A refusal for every named resource whose site is known and not connected."""
    sites = [split_resource(name)[0] for name in sorted(_named(request, (number,)))]
    return [
        site_away(directory.sites[site])
        for site in sites
        if site in directory.sites and not directory.is_up(site)
    ]


def _pickable(
    request: Request, number: int, directory: Directory, catalogue: Catalogue
) -> set[str]:
    """What the terms could pick; where that is too little, also what is too small for them.

    Those are asked to learn whether the asker may see them, before anybody counts them aloud.
    """
    terms = request.alternatives[number].terms
    pickable: set[str] = set()
    for place, names in candidates(request, directory.resources, number, catalogue).items():
        term = terms[place]
        if term.resource:
            continue
        pickable.update(names)
        if len(names) < term.count:
            pickable |= catalogue.meeting(term)
    return pickable
