"""Suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kalends.core.errors import NotFound


def near(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean A or B?`` with up to three of `names`, or "" if none is similar."""
    # Imported here because most names are spelt right.
    from difflib import get_close_matches

    found = get_close_matches(name, list(names), n=3)
    return f"did you mean {' or '.join(found)}?" if found else ""


def unknown_site(name: str, sites: Collection[str]) -> NotFound:
    """Return the error for a site that is not among a broker's `sites`."""
    return NotFound(
        f"the broker knows no site {name}",
        where="site",
        remedy=near(name, sites) or f"give its address, or one of {', '.join(sorted(sites))}",
    )
