"""Every helper that is not a builtin of Python: intervals, clocks, slots, sort keys, and the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kalends.agents.language.answers import copied_message
from kalends.agents.language.clocks import ZoneTables, clock_helpers
from kalends.agents.language.intervals import interval_helpers
from kalends.agents.language.limits import MESSAGES_MAX
from kalends.agents.language.meter import Meter
from kalends.agents.language.methods import missing
from kalends.agents.language.values import items_of, kind, roomy


def helper_functions(
    meter: Meter, zones: ZoneTables, inbox: Sequence[Any], sent: list[Any]
) -> dict[str, Callable[..., Any]]:
    """Return every name of `vocabulary.HELPERS`; what a script sends is added to `sent`."""
    return {
        **interval_helpers(meter),
        **clock_helpers(meter, zones),
        **slot_helpers(meter),
        **_talking(meter, list(inbox), sent),
        "by": _sort_keys(meter),
    }


def _sort_keys(meter: Meter) -> Callable[..., Any]:
    def by(*names: Any) -> Callable[..., Any]:
        """Return a sort key for dicts: by the first name, then the next.

        "-name" is downwards, for numbers.
        """
        for name in names:
            if type(name) is not str:
                raise TypeError(f"by takes names, not {kind(name)}")
        wanted = [(name.removeprefix("-"), name.startswith("-")) for name in names]
        meter.charge(1 + len(wanted))

        def sort_key(values: Any, /) -> tuple[Any, ...]:
            meter.charge(1 + len(wanted))
            if type(values) is not dict:
                raise TypeError(f"by sorts dicts, not {kind(values)}")
            return tuple(_part(values, name, downwards) for name, downwards in wanted)

        return sort_key

    return by


def _part(values: dict[Any, Any], name: str, downwards: bool) -> Any:
    if name not in values:
        raise KeyError(missing(name))
    value = values[name]
    if not downwards:
        return value
    if not isinstance(value, (int, float)):
        raise TypeError(f"only numbers can be sorted downwards, not {kind(value)}")
    return -value


def _talking(meter: Meter, inbox: list[Any], sent: list[Any]) -> dict[str, Callable[..., Any]]:
    waiting = inbox[::-1]

    def send(value: Any, /) -> None:
        """Send a copy, so that later changes by the script do not change the message."""
        meter.charge(10)
        if len(sent) >= MESSAGES_MAX:
            raise ValueError(f"a run sends at most {MESSAGES_MAX} messages")
        sent.append(copied_message(meter, value))

    def receive() -> Any:
        meter.charge(1)
        return waiting.pop() if waiting else None

    return {"send": send, "receive": receive}


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
    """Return an integer of a slot. Raises `TypeError` or `KeyError` for another value."""
    if type(values) is not dict:
        raise TypeError(f"a slot is a dict, not {kind(values)}")
    if name not in values:
        raise KeyError(missing(name))
    value = values[name]
    if type(value) is not int:
        raise TypeError(f"the {name} of a slot is an integer, not {kind(value)}")
    return value
