"""Plausible reports of sites about the ends of their jobs."""

from __future__ import annotations

from msgspec.structs import replace

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.trust.answer_checks import CLOCKS_DIFFER_S
from kalends.contract.calls import PlacedEnd
from kalends.core.identifiers import minted_ms, split_resource


def believed_end(row: Record, site: str, end: PlacedEnd) -> PlacedEnd | None:
    """Return `end` as it is believed of the job that `row` has placed at `site`; None: it cannot be true.

    No job ends before it was asked for. None has run for longer than since then, nor than its limit: so
    much is left of a longer run. All that by clocks that may differ by `CLOCKS_DIFFER_S`. If the broker's
    was ahead when the job was asked for, the site has offered an earlier start: its end is counted from that.
    """
    offered_s = (want.start for want in row.wants if split_resource(want.resource)[0] == site)
    asked_s = min([minted_ms(row.rid) // 1_000, *offered_s])
    since_s = end.at - asked_s + CLOCKS_DIFFER_S
    if since_s < 0:
        return None
    ran_s = min(end.ran_s, since_s)
    if (limit_s := limit_at(row, site)) is not None:
        ran_s = min(ran_s, limit_s + CLOCKS_DIFFER_S)
    return replace(end, ran_s=ran_s)


def limit_at(row: Record, site: str) -> int | None:
    """Return the limit of the job (seconds) at its place at `site`; None where it has none."""
    for want in row.wants:
        if split_resource(want.resource)[0] == site and want.start < want.end:
            return want.end - want.start
    return None
