"""Order of polling a request's candidates, as shown to users."""

from __future__ import annotations

from collections.abc import Collection

from kalends.broker.planning.directory import Directory
from kalends.broker.planning.polling.counts import Prospect
from kalends.broker.planning.polling.poll_order import TERMS_MAX, PollOrder, choose
from kalends.broker.planning.polling.poll_terms import PollTerm, hurried, sites_of, wanted_of
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.contract.calls import PollPoint, PollView
from kalends.core.identifiers import split_resource
from kalends.core.requests import Request


def poll_views(
    request: Request,
    directory: Directory,
    odds: Odds,
    wall_s: int,
    *,
    hidden: Collection[str] = (),
) -> tuple[PollView, ...]:
    """Return a view for each of the first `TERMS_MAX` terms that pick by attributes.

    Terms are counted through all alternatives. `chosen` may exceed the least point of the curve: a few
    sites are all asked, and so is everybody where the earliest plan need not be the best. `hidden` are the
    resources that the asker may not see: they are not counted.
    """
    names = {
        name
        for name in directory.resources
        if name not in hidden and directory.is_up(split_resource(name)[0])
    }
    found = wanted_of(request, directory.resources, names, wall_s)
    all_at_once = not hurried(request) or len(found) > TERMS_MAX
    picked = [wanted for wanted in found if not wanted.named]
    return tuple(_view(wanted, odds, all_at_once=all_at_once) for wanted in picked[:TERMS_MAX])


def _view(wanted: PollTerm, odds: Odds, *, all_at_once: bool) -> PollView:
    by_site = sites_of(wanted.grains)
    prospects = [
        Prospect(site, len(names), odds.busy(site, wanted.start), odds.delay(site))
        for site, names in by_site.items()
    ]
    choice = choose(prospects, wanted.needed)
    asked = choice.order if all_at_once else choice.chosen
    candidates = len(wanted.grains)
    return PollView(
        term=wanted.term,
        needed=wanted.needed,
        candidates=candidates,
        chosen=sum(prospect.resources for prospect in asked),
        busy=sum(each.busy * each.resources for each in prospects) / candidates,
        curve=_curve(choice),
    )


def _curve(choice: PollOrder) -> tuple[PollPoint, ...]:
    return tuple(
        PollPoint(polled=cost.resources, delay_ms=cost.cost_ms, chance=cost.chance)
        for cost in choice.costs
    )
