"""Sites that a register lists: those that have announced themselves, have joined, or are leaving."""

from __future__ import annotations

from typing import Final

from kalends.broker.register.rows import Rows
from kalends.broker.register.writes import JoinSite, KeepCard, LeaveSite, UnlistSite

ANNOUNCED_MAX: Final = 64
"""Announced sites that wait for an operator; more would be a flood."""

ANNOUNCED_BY_ONE_MAX: Final = 4
"""Announced sites that one user may have waiting."""


def announce(rows: Rows, op: KeepCard) -> int:
    """Store the announcement. The key of a site that has joined may also give it another address.

    The result is 1; 0 where too many wait, and -1 for a card that is older than the one that is known.
    """
    site = op.site
    known = rows.listed_sites.get((site.name, site.key))
    if known is not None and known.made_at > site.made_at:
        return -1
    if known is not None and known.state != "announced":
        rows.listed_sites[site.name, site.key] = known.with_card_of(site)
        return 1
    waiting = [
        each
        for each in rows.all_listed_sites()
        if each.state == "announced" and (each.name, each.key) != (site.name, site.key)
    ]
    of_one = sum(each.named_by == site.named_by for each in waiting)
    if len(waiting) >= ANNOUNCED_MAX or of_one >= ANNOUNCED_BY_ONE_MAX:
        return 0
    rows.listed_sites[site.name, site.key] = site
    return 1


def join(rows: Rows, op: JoinSite) -> int:
    """List the site as joined, and forget what others have announced by its name.

    The result is 1; 0 where a site with another key has the name, and -1 for an older card.
    """
    site = op.site
    same = [each for each in rows.all_listed_sites() if each.name == site.name]
    known = next((each for each in same if each.key == site.key), None)
    if any(each.state != "announced" and each.key != site.key for each in same):
        return 0
    if known is not None and known.made_at > site.made_at:
        return -1
    for each in same:
        rows.listed_sites.pop((each.name, each.key), None)
    joined = known is not None and known.state == "joined"
    rows.listed_sites[site.name, site.key] = (
        known.with_card_of(site) if known is not None and joined else site
    )
    return 1


def leave(rows: Rows, op: LeaveSite) -> int:
    """List the site as leaving; one without a key was configured. The result is 0 where it had not joined."""
    site = op.site
    known = rows.listed_sites.get((site.name, site.key))
    if site.key and (known is None or known.state == "announced"):
        return 0
    rows.listed_sites[site.name, site.key] = site
    return 1


def unlist(rows: Rows, op: UnlistSite) -> int:
    """Forget the site if it stands as `op.state`, until `op.until`; the result is whether it did."""
    known = rows.listed_sites.get((op.name, op.key))
    if known is None or (known.state, known.until) != (op.state, op.until):
        return 0
    rows.listed_sites.pop((op.name, op.key), None)
    return 1
