"""Helpers for the slots of a view: which of them belong together, and how they are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kalends.agents.language.meter import Meter
from kalends.agents.language.methods import missing
from kalends.agents.language.values import items_of, kind, roomy


def slot_helpers(meter: Meter) -> dict[str, Callable[..., Any]]:
    """Return `together` and `ids`, paid for."""

    def together(view: Any, request: Any, /) -> list[list[Any]]:
        slots = _paid(meter, view, "slots")
        wanted = len({_number(term, "term") for term in _paid(meter, request, "terms")})
        groups: dict[int, list[Any]] = {}
        served: dict[int, set[int]] = {}
        for slot in slots:
            common = _number(slot, "common")
            groups.setdefault(common, []).append(slot)
            served.setdefault(common, set()).add(_number(slot, "term"))
        whole = [group for common, group in groups.items() if len(served[common]) == wanted]
        return whole or list(groups.values())

    def ids(slots: Any, /) -> list[int]:
        found: list[int] = []
        for one in items_of(meter, slots):
            group = items_of(meter, one) if type(one) in (list, tuple) else [one]
            roomy(len(found) + len(group))
            found += [_number(slot, "id") for slot in group]
        return found

    return {"together": together, "ids": ids}


def _paid(meter: Meter, values: Any, name: str) -> list[Any]:
    """Return the list `name` of a view or request; each of its items is paid for twice."""
    found = values.get(name) if type(values) is dict else None
    if type(found) is not list:
        raise TypeError('together takes a view with "slots" and a request with "terms"')
    meter.charge(1 + 2 * len(found))
    return found


def _number(values: Any, name: str) -> int:
    """Return an integer of a slot. Raises `TypeError` or `KeyError` for what is no slot."""
    if type(values) is not dict:
        raise TypeError(f"a slot is a dict, not {kind(values)}")
    if name not in values:
        raise KeyError(missing(name))
    value = values[name]
    if type(value) is not int:
        raise TypeError(f"the {name} of a slot is an integer, not {kind(value)}")
    return value
