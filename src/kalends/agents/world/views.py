"""The arguments of a script: offers, calendars and the request, as plain data.

Keys and lists come in one fixed order, because a script may walk through them: the same world makes
the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kalends.agents.world.feasible_starts import least_free
from kalends.agents.world.offers import Offer, numbered
from kalends.agents.world.visible_calendar import Shown
from kalends.core.money import CREDIT, cost_by
from kalends.core.scripts import Ask, HeldChoice, Starts

Plain = dict[str, Any]
"""None, bool, int, float, str, list and dict, at every level."""

TAKEN_SHOWN_MAX: Final = 2_000
"""Taken slots in one view, over all its resources: the earliest."""


class Asker(NamedTuple):
    """The one that wants a held slot, as its holder's script may know them: what for, never who."""

    start: int
    end: int
    units: int


def choose_arguments(
    site: str, user: str, shown: Mapping[str, Shown], offers: Sequence[Offer],
    asks: Iterable[Ask], starts: Starts, text: str, arguments: Mapping[str, Any], round: int,
    held_max: int, wall_s: int,
) -> tuple[Plain, Plain]:  # fmt: skip
    """Return ``view`` and ``request`` of ``choose``; `round` counts the visits of a request from 1."""
    request = {
        "user": user,
        "text": text,
        "round": round,
        "arguments": {name: arguments[name] for name in sorted(arguments)},
        "first": starts.first,
        "last": starts.last,
        "step": starts.step_s,
        "terms": [
            {
                "term": ask.term,
                "resource": ask.resource,
                "units": ask.units,
                "length": ask.length_s,
                "offset": ask.offset_s,
            }
            for ask in sorted(asks, key=lambda ask: (ask.term, ask.resource, ask.offset_s))
        ],
    }
    return _view(site, shown, offers, held_max, wall_s), request


def recall_arguments(
    site: str, shown: Mapping[str, Shown], held: Iterable[HeldChoice], hold_id: int,
    asker: Asker, held_max: int, wall_s: int,
) -> tuple[Plain, Plain, Plain]:  # fmt: skip
    """Return ``slot``, ``asker`` and ``view`` of ``recall``: `hold_id` of all that is `held` is wanted.

    ``free`` of these slots are the units that are free there besides. Raises `KeyError` for a
    `hold_id` that is not held.
    """
    offers = {choice.hold_id: _held_offer(shown, choice) for choice in held}
    asked = offers[hold_id]
    slots = numbered(offers.values())
    slot = next(each for each in slots if each[1:] == asked[1:])
    asking = {
        "start": asker.start,
        "end": asker.end,
        "units": asker.units,
    }
    return _slot(slot, shown), asking, _view(site, shown, slots, held_max, wall_s)


def _view(
    site: str, shown: Mapping[str, Shown], slots: Iterable[Offer], held_max: int, wall_s: int
) -> Plain:
    return {
        "site": site,
        "now": wall_s,
        "held_max": held_max,
        "resources": {name: _resource(shown[name]) for name in sorted(shown)},
        "slots": [_slot(offer, shown) for offer in slots],
        "taken": _taken(shown),
    }


def _resource(shown: Shown) -> Plain:
    info = shown.info
    return {
        "capacity": info.capacity,
        "grain": info.grain_s,
        "zone": info.zone,
        "attributes": {name: info.attributes[name] for name in sorted(info.attributes)},
        "description": info.description,
        "through": list(info.through),
    }


def _slot(offer: Offer, shown: Mapping[str, Shown]) -> Plain:
    """Return `offer`, and its price in credits of the site; 0.0 if it is free of charge."""
    here = shown.get(offer.resource)
    prices = here.prices if here else ()
    parts = cost_by(prices, offer.units, offer.start, offer.end) if prices else 0
    return {**offer._asdict(), "price": parts / CREDIT}


def _taken(shown: Mapping[str, Shown]) -> list[Plain]:
    taken = [
        {
            "resource": name,
            "start": slot.start,
            "end": slot.end,
            "units": slot.units,
            "state": slot.state,
            "mine": shown[name].is_mine(slot),
        }
        for name in sorted(shown)
        for slot in shown[name].taken
    ]
    taken.sort(key=lambda slot: (slot["start"], slot["end"], slot["resource"], slot["units"]))
    return taken[:TAKEN_SHOWN_MAX]


def _held_offer(shown: Mapping[str, Shown], held: HeldChoice) -> Offer:
    here = shown.get(held.resource)
    free = least_free(here.free, [held.start], held.end - held.start)[0] if here else 0
    return Offer(0, held.term, held.resource, held.start, held.end, held.units, free, held.common)
