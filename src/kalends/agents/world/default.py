"""The default choice of a site, without a script or after its failure."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.agents.world.offers import Offer


def choice(offers: Sequence[Offer]) -> list[Offer]:
    """Return all of `offers` in order of preference: the earliest common start first, as a whole.

    Common starts at which more of the terms are served come before all others: a reservation takes
    every term.
    """
    terms: dict[int, set[int]] = {}
    for offer in offers:
        terms.setdefault(offer.common, set()).add(offer.term)
    return sorted(
        offers,
        key=lambda offer: (-len(terms[offer.common]), offer.common, offer.term, offer.resource),
    )
