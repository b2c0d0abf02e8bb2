"""The manager of a virtual site: which members a broker does best to ask for a job, or to split it over.

It gives an opinion, and asks nobody itself. "The virtual SM chooses" among its sites by what it knows of
them, as a broker chooses among all (`kalends.federation.site_choice`); but it has heard what all brokers were
told (Weissman and Grimshaw 1996, sections 3 and 4.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kalends.contract import calls
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.intervals import Moment
from kalends.core.transport import Rates
from kalends.federation.draws import draw_of
from kalends.federation.site_choice import Bidder, whom_to_ask
from kalends.virtual_sites.overheard import Overheard
from kalends.virtual_sites.splits import TOGETHER_MAX, JobTraffic, MemberNodes, splits

PARTS_AT_ONE_MAX: Final = limits.TERMS_MAX // TOGETHER_MAX
"""Parts of a split at one member: all together are the terms of one alternative."""

NO_SESSION: Final = "it has no session with a broker"


def referred(
    question: m.Refer, members: Collection[str], overheard: Overheard, now: Moment
) -> m.Referred:
    """Return the members to ask: at most `count` of those that the broker has named.

    At least one, unless it has named none of the `members`, nor of what is below them.
    """
    bidders = [
        Bidder(each.way, (), each.preference_s, each.runs_s)
        for each in question.candidates
        if each.way.partition("/")[0] in members
    ]
    experience, draw = overheard.experience, draw_of(question.rid, question.att)
    chosen = [each.site for each in whom_to_ask(bidders, question.count, experience, draw, now)]
    if bidders and not chosen:  # All rest: the first that is to be asked again.
        chosen = [min((each.site for each in bidders), key=experience.active_at_ms)]
    for way in overheard.sessions.keys() & set(chosen):
        overheard.tally.of(way).chosen += 1
    return m.Referred(rid=question.rid, att=question.att, ways=tuple(chosen))


def split(question: m.Split, rates: Rates, overheard: Overheard, now: Moment) -> m.Splits:
    """Return how to split a job over the members, whose links have these `rates`."""
    machines: defaultdict[str, list[m.MemberMachine]] = defaultdict(list)
    for each in question.machines:
        machines[each.way.partition("/")[0]].append(each)
    for own in machines.values():
        own.sort(key=lambda each: (-each.nodes, each.machine))
        del own[PARTS_AT_ONE_MAX:]
    groups = [
        MemberNodes(
            member,
            sum(each.nodes for each in own),
            min(overheard.experience.seen(each.way, now).wait_s or 0.0 for each in own),
        )
        for member, own in machines.items()
    ]
    exchange = JobTraffic(question.nodes, question.traffic_mb_per_s, rates)
    found, lack = splits(groups, exchange, limits.SPLITS_MAX)
    return m.Splits(
        splits=tuple(
            tuple(
                share
                for member, nodes in each.items()
                for share in _filled(machines[member], nodes)
            )
            for each in found
        ),
        lack=m.LinkLack(*lack) if lack is not None else None,
    )


def _filled(machines: Sequence[m.MemberMachine], nodes: int) -> Iterator[m.NodeShare]:
    """Yield the shares of machines, the first ones full."""
    for each in machines:
        if nodes:
            yield m.NodeShare(each.machine, min(nodes, each.nodes))
            nodes -= min(nodes, each.nodes)


def bidders_of(url_of: Mapping[str, str], overheard: Overheard, now: Moment) -> calls.Bidders:
    """Return how the members at these addresses have answered, and theirs, that brokers have sessions with.

    One is up while a broker has a session with it. Of a virtual site what is below it is told.
    """
    heard = sorted(overheard.sessions)
    straight = [name for name in url_of if not any(way.startswith(f"{name}/") for way in heard)]
    ways = dict.fromkeys([*straight, *heard])
    return calls.Bidders(
        bidders=tuple(_view(way, url_of.get(way, ""), overheard, now) for way in ways),
        herd=overheard.tally.busiest_share(),
    )


def _view(way: str, url: str, overheard: Overheard, now: Moment) -> calls.BidderView:
    counts, seen = overheard.tally.of(way), overheard.experience.seen(way, now)
    up = overheard.sessions[way] > 0
    status = calls.SiteStatus(
        site=way, url=url, state="up" if up else "down", detail="" if up else NO_SESSION,
        answer_ms=seen.answer_ms, wait_s=seen.wait_s, rests_s=seen.rests_s,
    )  # fmt: skip
    return calls.BidderView(
        status=status, asked=counts.asked, bid=counts.bid, silent=counts.silent,
        refused=dict(counts.refused), chosen=counts.chosen,
    )  # fmt: skip
