"""Requests that are still booked at a site that is leaving, by the rows of the register. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kalends.broker.coordination.record.decision_record import COMMITTED, Placement, Record
from kalends.broker.register.contract import Row
from kalends.core.identifiers import split_resource

LOOK_AGAIN_S: Final = 60
"""Interval between looks for what ends at no known time; by then all replicas book nothing more there."""


class Departure(NamedTuple):
    """The number of requests that are, or may be, booked at the site.

    After `until` (seconds UTC) none of them is known to be.
    """

    requests: int
    until: int


def departure_of(site: str, rows: Iterable[Row], now_s: int) -> Departure:
    """Return what `rows` have booked at `site`."""
    ends = [end for row in rows if (end := _ends_at(site, row, now_s)) > now_s]
    return Departure(len(ends), max(ends, default=now_s))


def _ends_at(site: str, row: Row, now_s: int) -> int:
    """Return when `row` ends at `site`; 0: it has. If that is not known, return the time of the next look."""
    later = now_s + LOOK_AGAIN_S
    if not isinstance(row, Record):
        # What cannot be read now may be mended.
        return later if row.state != "closed" else 0
    if row.state == "open":
        return later if _may_ask(site, row) else 0
    if row.state not in COMMITTED or site not in row.chosen:
        return 0
    if not row.done:
        return later
    if row.state != "commit":
        return 0
    if isinstance(row.spec.what, Placement):
        return later if row.job.ended is None else 0
    ends = (want.end for want in row.wants if split_resource(want.resource)[0] == site)
    return max(ends, default=0)


def _may_ask(site: str, record: Record) -> bool:
    terms = [term for each in record.spec.request.alternatives for term in each.terms]
    return any(not term.resource or split_resource(term.resource)[0] == site for term in terms)
