"""The horizons of owners, as limits of a request: it can be booked so far ahead."""

from __future__ import annotations

from typing import NamedTuple

from kalends.broker.planning.demand import Catalogue
from kalends.broker.planning.planner import Infos, candidates
from kalends.core.requests import Request


class BookingHorizon(NamedTuple):
    """Bookings end within `seconds` from now, because of `resource`."""

    seconds: int
    resource: str


def reach_of(request: Request, infos: Infos) -> BookingHorizon | None:
    """Return how far the furthest alternative can be booked ahead; None if no resource of one is known.

    In an alternative, the term with the least reach counts; where attributes pick resources, those that
    reach furthest are picked.
    """
    catalogue = Catalogue(infos)
    found = []
    for number, alternative in enumerate(request.alternatives):
        of_terms = []
        for place, names in candidates(request, infos, number, catalogue).items():
            known = [BookingHorizon(infos[name].horizon_s, name) for name in names if name in infos]
            known.sort(key=lambda reach: (-reach.seconds, reach.resource))
            if known:
                of_terms.append(known[min(alternative.terms[place].count, len(known)) - 1])
        if of_terms:
            found.append(min(of_terms))
    return max(found, default=None)
