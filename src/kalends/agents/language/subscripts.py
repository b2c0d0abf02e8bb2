"""Guards of iteration and of ``values[index]``, read and written."""

from __future__ import annotations

from typing import Any

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter
from kalends.agents.language.methods import missing
from kalends.agents.language.operators import Guard
from kalends.agents.language.values import key, kind, new_key, roomy

_ABSENT: Any = object()


class _Writer:
    """Stands for a list or dict that one item of is about to be set."""

    __slots__ = ("_meter", "_values")

    def __init__(self, meter: Meter, values: Any) -> None:
        self._meter = meter
        self._values = values

    def __setitem__(self, index: Any, value: Any) -> None:
        values, meter = self._values, self._meter
        if type(values) is dict:
            meter.charge(limits.KEY_STEPS)
            roomy(len(values) + 1)
            values[new_key(meter, index, len(values))] = value
        elif type(values) is list:
            if not isinstance(index, int):
                raise TypeError(f"the index of a list is not {kind(index)}")
            values[index] = value
        else:
            raise TypeError(f"nothing in {kind(values)} can be set")


def subscript_guards(meter: Meter) -> dict[str, Guard]:
    """Return `_getiter_`, `_getitem_`, `_write_`, `_key_` and `_made_`."""

    def iterated(values: Any, steps: int, /) -> Any:
        """Return a copy of a changeable value, so that a loop ends; each turn costs `steps`, paid at once."""
        if type(values) not in (list, tuple, dict, str, range):
            raise TypeError(f"there are no items in {kind(values)}")
        meter.charge(1 + steps * len(values))
        return list(values) if type(values) in (list, dict) else values

    def item(values: Any, index: Any, /) -> Any:
        if type(values) is dict:
            found = values.get(key(meter, index), _ABSENT)
            if found is _ABSENT:
                raise KeyError(missing(index))
            return found
        if type(values) not in (list, tuple, str, range):
            raise TypeError(f"there are no items in {kind(values)}")
        found = values[index]
        if type(index) is slice:
            meter.charge_text(len(found)) if type(found) is str else meter.charge(1 + len(found))
        return found

    def write(values: Any, /) -> _Writer:
        return _Writer(meter, values)

    def display_key(value: Any, /) -> Any:
        meter.charge(limits.KEY_STEPS)
        return new_key(meter, value, 0)

    def made(pairs: list[tuple[Any, Any]], /) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for name, value in pairs:
            meter.charge(limits.KEY_STEPS)
            values[new_key(meter, name, len(values))] = value
        return values

    return {
        "_getiter_": iterated,
        "_getitem_": item,
        "_write_": write,
        "_key_": display_key,
        "_made_": made,
    }
