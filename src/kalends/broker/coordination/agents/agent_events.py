"""Events for the client of an agent: its outcome and messages at each site, round by round."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.agents.itinerary import Tour
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.record.plain_data import plain_data
from kalends.broker.coordination.transaction import Transaction
from kalends.contract.messages import SiteReport
from kalends.core.errors import InvalidInput, Refusal
from kalends.core.intervals import Moment

LEFT_MAX: Final = 64
LEFT_CHARS_MAX: Final = 65_536
"""What agents have left for their client: kept with the request, the newest."""

TOLD_NEAR_MAX: Final = 8

TOLD_SITES_MAX: Final = 16
"""Sites of one round that get a line of their own in the story of a request."""


class AgentEvents:
    """Writes events for people, and keeps what agents leave for their client."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def add(self, case: Transaction, tour: Tour, silent: tuple[Refusal, ...], now: Moment) -> None:
        """A line for each site; those where something went wrong first, when there are many."""
        number = case.record.agent.rounds + 1
        for hub in sorted(set(tour.answered_by.values())):
            self._log.add(case, "agent", f"round {number}, {_answered(tour, hub)}", now)
        reports = sorted(
            tour.reports.values(), key=lambda each: (each.code == "ok" and not each.sent, each.site)
        )
        for count, report in enumerate(reports):
            left = self._left_by(case, report, now)
            if count < TOLD_SITES_MAX:
                told = _told(report, len(tour.held_at(report.site)))
                detail = f"round {number}, {report.site}: {told}{left}"
                self._log.add(case, "agent", detail, now, report.refusals)
        if len(reports) > TOLD_SITES_MAX:
            detail = f"round {number}: and at {len(reports) - TOLD_SITES_MAX} more sites"
            self._log.add(case, "agent", detail, now)
        for refusal in silent:
            detail = f"round {number}, {refusal.where}: {refusal.detail}"
            self._log.add(case, "agent", detail, now)

    def _left_by(self, case: Transaction, report: SiteReport, now: Moment) -> str:
        """Keep what the agent has left there; says so in words."""
        if report.code != "ok" or not report.sent:
            return ""
        kept = []
        for text in report.sent:
            try:
                plain_data(text, "sent")
            except InvalidInput:
                continue
            kept.append(r.Left(now.wall_ms, report.site, text))
        record = case.record
        left = [*record.agent.left, *kept][-LEFT_MAX:]
        while sum(len(each.text) for each in left) > LEFT_CHARS_MAX:
            del left[0]
        record.agent = replace(record.agent, left=tuple(left))
        return f"; left {len(kept)} message{'' if len(kept) == 1 else 's'}"


def _answered(tour: Tour, hub: str) -> str:
    """Return what `hub` has answered for the sites near it."""
    near = [site for site, by in tour.answered_by.items() if by == hub and site != hub]
    starts = {hold.common for site in (hub, *near) for hold in tour.reports[site].held}
    shown = ", ".join(near[:TOLD_NEAR_MAX]) + (" and others" if len(near) > TOLD_NEAR_MAX else "")
    count = f"{len(starts)} start{'' if len(starts) == 1 else 's'}"
    return f"{hub}: it answered for {shown}, too; {count} in common"


def _told(report: SiteReport, held_count: int) -> str:
    """Return the agent's outcome at a site; the site's text is cut to one printable line."""
    held = f"{held_count} slot{'' if held_count == 1 else 's'} held"
    if report.code == "ok":
        return f"the agent chose; {held}"
    where = f" in line {report.line}" if report.line else ""
    detail = "".join(c if c.isprintable() else " " for c in report.detail[:300])
    return f"{report.code}{where}{f': {detail}' if detail else ''}; the default chose; {held}"
