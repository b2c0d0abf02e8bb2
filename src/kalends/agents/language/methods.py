"""Methods of lists, dicts and tuples, and of text: nothing else has any, and no attribute is a value."""

from __future__ import annotations

from typing import Any

from kalends.agents.language import limits
from kalends.agents.language.builtins import ordered
from kalends.agents.language.meter import Meter
from kalends.agents.language.operators import Guard
from kalends.agents.language.text_methods import text_methods
from kalends.agents.language.values import find_keys, items_of, key, kind, new_key, roomy, weight

_ABSENT: Any = object()
_MOVED_PER_STEP = 64
"""Items moved in a list for one step."""


def method_guard(meter: Meter) -> Guard:
    """Return ``_method_(value, name, ...)``, the method of this exact type; raises `TypeError`."""
    tables: dict[type, dict[str, Guard]] = {
        str: text_methods(meter),
        list: {**_searching(meter), **_list_methods(meter)},
        tuple: _searching(meter),
        dict: _dict_methods(meter),
    }
    for table in tables.values():
        for name, method in table.items():
            method.__qualname__ = name  # What Python's own errors about a call begin with.
    none: dict[str, Guard] = {}

    def call(value: Any, name: str, /, *arguments: Any, **named: Any) -> Any:
        method = tables.get(type(value), none).get(name)
        if method is None:
            raise TypeError(f"{kind(value)} has no method {name}")
        return method(value, *arguments, **named)

    return call


def _searching(meter: Meter) -> dict[str, Guard]:
    """Return the common methods of lists and tuples."""

    def count(values: Any, wanted: Any, /) -> int:
        meter.charge(len(values) * weight(meter, wanted))
        return values.count(wanted)  # type: ignore[no-any-return]  # a list's or tuple's own

    def index(values: Any, wanted: Any, /) -> int:
        return position(meter, values, wanted)

    return {"count": count, "index": index}


def position(meter: Meter, values: Any, wanted: Any) -> int:
    """Return the index of the first equal item. Raises `ValueError` without any text of items."""
    meter.charge(2 * len(values) * weight(meter, wanted))
    if wanted not in values:
        raise ValueError("this is not among the items")
    return values.index(wanted)  # type: ignore[no-any-return]  # a list's or tuple's own


def _list_methods(meter: Meter) -> dict[str, Guard]:
    def append(values: list[Any], item: Any, /) -> None:
        meter.charge(1)
        roomy(len(values) + 1)
        values.append(item)

    def extend(values: list[Any], more: Any, /) -> None:
        found = items_of(meter, more)
        roomy(len(values) + len(found))
        values.extend(found)

    def insert(values: list[Any], index: int, item: Any, /) -> None:
        meter.charge(1 + len(values) // _MOVED_PER_STEP)
        roomy(len(values) + 1)
        values.insert(index, item)

    def pop(values: list[Any], index: int = -1, /) -> Any:
        meter.charge(1 if index == -1 else 1 + len(values) // _MOVED_PER_STEP)
        return values.pop(index)

    def remove(values: list[Any], item: Any, /) -> None:
        del values[position(meter, values, item)]

    def reverse(values: list[Any], /) -> None:
        meter.charge(1 + len(values))
        values.reverse()

    def sort(values: list[Any], /, *, key: Any = None, reverse: Any = False) -> None:
        values[:] = ordered(meter, items_of(meter, values), key, reverse=bool(reverse))

    def copy(values: list[Any], /) -> list[Any]:
        return items_of(meter, values)

    def clear(values: list[Any], /) -> None:
        values.clear()

    return {
        "append": append,
        "extend": extend,
        "insert": insert,
        "pop": pop,
        "remove": remove,
        "reverse": reverse,
        "sort": sort,
        "copy": copy,
        "clear": clear,
    }


def _dict_methods(meter: Meter) -> dict[str, Guard]:
    def get(values: dict[Any, Any], wanted: Any, default: Any = None, /) -> Any:
        return values.get(key(meter, wanted), default)

    def pop(values: dict[Any, Any], wanted: Any, default: Any = _ABSENT, /) -> Any:
        found = values.pop(key(meter, wanted), default)
        if found is _ABSENT:
            raise KeyError(missing(wanted))
        return found

    def setdefault(values: dict[Any, Any], wanted: Any, default: Any = None, /) -> Any:
        meter.charge(limits.KEY_STEPS)
        roomy(len(values) + 1)
        return values.setdefault(new_key(meter, wanted, len(values)), default)

    def update(values: dict[Any, Any], more: dict[Any, Any], /) -> None:
        if type(more) is not dict:
            raise TypeError(f"update takes a dict, not {kind(more)}")
        meter.charge(1 + limits.KEY_STEPS * roomy(len(values) + len(more)))
        find_keys(meter, more)
        values.update(more)

    def keys(values: dict[Any, Any], /) -> list[Any]:
        return items_of(meter, values)

    def values_(values: dict[Any, Any], /) -> list[Any]:
        meter.charge(1 + len(values))
        return list(values.values())

    def items(values: dict[Any, Any], /) -> list[Any]:
        meter.charge(1 + len(values))
        return list(values.items())

    def copy(values: dict[Any, Any], /) -> dict[Any, Any]:
        meter.charge(1 + limits.KEY_STEPS * len(values))
        find_keys(meter, values)
        return dict(values)

    def clear(values: dict[Any, Any], /) -> None:
        values.clear()

    return {
        "get": get,
        "pop": pop,
        "setdefault": setdefault,
        "update": update,
        "keys": keys,
        "values": values_,
        "items": items,
        "copy": copy,
        "clear": clear,
    }


def missing(wanted: Any) -> str:
    """Describe a missing key, whatever its size."""
    if type(wanted) is str:
        return f"there is no key {wanted[:100]!r}"
    return (
        f"there is no key {wanted}" if type(wanted) is int else f"there is no such {kind(wanted)}"
    )
