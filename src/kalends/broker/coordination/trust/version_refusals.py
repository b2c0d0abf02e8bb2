"""Refusals in place of questions that a site is too old for; they name the missing feature.

So the request goes on at other sites, or its user hears which site lacks what. The answer is ours, and no
word of it was heard from the site.
"""

from __future__ import annotations

from kalends.broker.planning.directory import SiteEntry
from kalends.contract import messages as m
from kalends.contract.versions import BASE, older
from kalends.core.features import Feature


def refused_for(site: SiteEntry, message: m.Message, feature: Feature) -> m.Message | None:
    """Return the refusal that stands in for the answer of `site` to `message`; None: it has no answer.

    What has no answer is said to a site only where it knows the feature: whoever adds it looks first.
    """
    refusals = (older(site.name, site.version or BASE, feature),)
    match message:
        case m.Query():
            views = tuple(
                m.FreeSteps(resource=want.resource, until=want.end, refusal=refusals[0])
                for want in message.wants
            )
            return m.View(query_id=message.query_id, epoch=site.epoch, views=views)
        case m.Visit(rid=rid, att=att):
            return m.Visited(rid=rid, att=att, epoch=site.epoch, vote="no", refusals=refusals)
        case m.Solicit(rid=rid, att=att):
            return m.Bid(rid=rid, att=att, epoch=site.epoch, refusals=refusals)
        case m.Dispatch(rid=rid, att=att):
            told = refusals[0].detail
            report = m.SiteReport(site.name, code="killed", detail=told, refusals=refusals)
            return m.Report(rid=rid, att=att, sites=(report,))
        case m.Prepare(rid=rid, att=att):
            return m.Voted(rid=rid, att=att, epoch=site.epoch, vote="no", refusals=refusals)
        case m.Await(rid=rid, att=att):
            return m.Locked(rid=rid, att=att, refusals=refusals)
    return None
