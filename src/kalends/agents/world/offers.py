"""The slots that a script chooses among: all that could be held now, within limits; the default choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kalends.agents.world.common_starts import (
    beside_own,
    bounded,
    earliest,
    kept,
    on_grid,
    whole_on_grid,
)
from kalends.agents.world.feasible_starts import FeasibleStarts, least_free, servings_of
from kalends.agents.world.visible_calendar import Shown
from kalends.core.scripts import Ask, HeldChoice, Offered, Starts


class Offer(NamedTuple):
    """A slot that could be held: `units` of `resource` during ``[start, end)`` for term `term`.

    `free` units are free there all along. `common` is the common start that it belongs to; slots of
    different common starts are alternatives to one another. `id` is its place in the list of all.
    """

    id: int
    term: int
    resource: str
    start: int
    end: int
    units: int
    free: int
    common: int

    def held_as(self, hold_id: int) -> HeldChoice:
        """Return the slot once it is held."""
        return HeldChoice(
            hold_id, self.term, self.resource, self.start, self.end, self.units, self.common
        )


def offers(
    shown: Mapping[str, Shown], asks: Iterable[Ask], starts: Starts, count_max: int
) -> list[Offer]:
    """Return at most `count_max` slots for `asks`, by common start, term and resource.

    Ids from 0 in that order.

    Common starts are those of the visit's grid and those that no grid knows of: the earliest of every
    free stretch, and those that put a slot next to one of the user's own. Where that makes more slots
    than `count_max`, whole common starts are left out evenly; the earliest, the last, those next to
    own slots, and those at which most of the terms are served stay longest.
    """
    servings = servings_of(shown, asks, starts.first, starts.last)
    if starts.only:
        beside, whole, others = [], [], sorted(set(starts.only))
    else:
        beside = beside_own(shown, servings)
        whole = whole_on_grid(servings, starts, count_max)
        others = sorted({*on_grid(servings, starts, count_max), *earliest(servings, count_max)})
    beside, whole, others = (
        bounded(commons, servings, count_max) for commons in (beside, whole, others)
    )
    commons = sorted({*beside, *whole, *others})
    groups = _groups(servings, commons)
    terms = {common: len({offer.term for offer in group}) for common, group in groups.items()}
    sizes = {common: len(group) for common, group in groups.items()}
    chosen = kept(sizes, terms, beside, count_max)
    return numbered(offer for common in chosen for offer in groups[common])[:count_max]


def numbered(found: Iterable[Offer]) -> list[Offer]:
    """Return the slots in the order in which scripts see them, with ids from 0."""
    ordered = sorted(found, key=lambda offer: (offer.common, offer.term, offer.resource))
    return [Offer(number, *offer[1:]) for number, offer in enumerate(ordered)]


def offered(found: Iterable[Offer], step_s: int) -> tuple[Offered, ...]:
    """Return the common starts of each term and resource, as runs that are `step_s` apart."""
    commons: dict[tuple[int, str], set[int]] = {}
    for offer in found:
        commons.setdefault((offer.term, offer.resource), set()).add(offer.common)
    return tuple(
        Offered(term=term, resource=resource, runs=tuple(_runs(sorted(times), step_s)))
        for (term, resource), times in sorted(commons.items())
    )


def _groups(servings: Iterable[FeasibleStarts], commons: Sequence[int]) -> dict[int, list[Offer]]:
    """Return the slots of each common start; their ids are not given yet."""
    groups: dict[int, list[Offer]] = {}
    for serving in servings:
        term, resource, length_s, units, offset_s = (
            serving.ask.term, serving.ask.resource, serving.ask.length_s,
            serving.ask.units, serving.ask.offset_s,
        )  # fmt: skip
        fitting = serving.fitting(commons)
        starts = [common + offset_s for common in fitting]
        free = least_free(serving.steps, starts, length_s)
        for common, start, least in zip(fitting, starts, free, strict=True):
            offer = Offer(0, term, resource, start, start + length_s, units, least, common)
            groups.setdefault(common, []).append(offer)
    return groups


def _runs(times: Sequence[int], step_s: int) -> Iterator[tuple[int, int]]:
    first = last = times[0]
    for time_s in times[1:]:
        if time_s != last + step_s:
            yield first, last
            first = time_s
        last = time_s
    yield first, last


def default_choice(offers: Sequence[Offer]) -> list[Offer]:
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
