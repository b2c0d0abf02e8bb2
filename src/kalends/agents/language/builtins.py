"""The builtins, as functions that pay for their work. None is lazy: iterators are lists here."""

from __future__ import annotations

from typing import Any

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter
from kalends.agents.language.operators import Guard
from kalends.agents.language.parser import SCRIPT_FILE
from kalends.agents.language.values import (
    integer,
    items_of,
    kind,
    new_key,
    ordinary,
    roomy,
    weight,
)

_ABSENT: Any = object()
_INTEGER_CHARS_MAX = 600
"""More characters than any allowed integer needs, in any base."""


def builtin_functions(meter: Meter, add: Guard, text: Guard) -> dict[str, Guard]:
    """Return every name of `vocabulary.BUILTINS`."""
    return {
        **_conversions(meter),
        **_numbers(meter),
        **_collections(meter),
        **_choices(meter),
        "str": text,
        "sum": _summing(meter, add),
    }


def _conversions(meter: Meter) -> dict[str, Guard]:
    def int_(value: Any = 0, /, base: Any = _ABSENT) -> int:
        if type(value) is str:
            if len(value) > _INTEGER_CHARS_MAX:
                raise OverflowError(f"an integer of more than {limits.INTEGER_BITS_MAX} bits")
            meter.charge_text(len(value))
        elif not isinstance(value, (int, float)):
            raise TypeError(f"{kind(value)} is not a number")
        return integer(int(value) if base is _ABSENT else int(value, base))

    def float_(value: Any = 0.0, /) -> float:
        if type(value) is str:
            meter.charge_text(len(value))
        elif not isinstance(value, (int, float)):
            raise TypeError(f"{kind(value)} is not a number")
        return float(value)

    def dict_(pairs: Any = (), /, **named: Any) -> dict[Any, Any]:
        entries = pairs.items() if type(pairs) is dict else items_of(meter, pairs)
        made: dict[Any, Any] = {}
        for entry in entries:
            name, value = entry
            made[new_key(meter, name, len(made))] = value
        made.update(named)
        meter.charge(1 + limits.KEY_STEPS * len(made))
        return made

    def list_(values: Any = (), /) -> list[Any]:
        return items_of(meter, values)

    def tuple_(values: Any = (), /) -> tuple[Any, ...]:
        return tuple(items_of(meter, values))

    def bool_(value: Any = False, /) -> bool:
        return bool(value)

    return {
        "int": int_,
        "float": float_,
        "dict": dict_,
        "list": list_,
        "tuple": tuple_,
        "bool": bool_,
    }


def _numbers(meter: Meter) -> dict[str, Guard]:
    def abs_(value: Any, /) -> Any:
        return abs(value)

    def divmod_(a: Any, b: Any, /) -> Any:
        return divmod(a, b)

    def round_(number: Any, ndigits: Any = None) -> Any:
        if ndigits is not None and (
            type(ndigits) is not int or abs(ndigits) > limits.ROUND_DIGITS_MAX
        ):
            raise ValueError(f"digits to round to are integers up to {limits.ROUND_DIGITS_MAX}")
        if type(number) is float and not ordinary(number):
            meter.charge(limits.DIGIT_STEPS * limits.ROUND_DIGITS_MAX)
        result = round(number) if ndigits is None else round(number, ndigits)
        return integer(result) if type(result) is int else result

    return {"abs": abs_, "divmod": divmod_, "round": round_}


def _collections(meter: Meter) -> dict[str, Guard]:
    def len_(values: Any, /) -> int:
        return len(values)

    def range_(start: Any, stop: Any = _ABSENT, step: Any = 1, /) -> range:
        made = range(start) if stop is _ABSENT else range(start, stop, step)
        # A range too long for len() is empty for bool() only if it is empty.
        if made and (made[-1] - made[0]) // made.step >= limits.ITEMS_MAX:
            roomy(limits.ITEMS_MAX + 1)
        return made

    def enumerate_(iterable: Any, start: Any = 0) -> list[Any]:
        if type(start) is not int:
            raise TypeError(f"{kind(start)} is not an integer")
        return list(enumerate(items_of(meter, iterable), start))

    def zip_(*several: Any, strict: Any = False) -> list[Any]:
        return list(zip(*(items_of(meter, values) for values in several), strict=bool(strict)))

    def map_(function: Any, values: Any, /, *more: Any) -> list[Any]:
        lists = [items_of(meter, one) for one in (values, *more)]
        call = counted(meter, function)
        return [call(*arguments) for arguments in zip(*lists, strict=False)]

    def filter_(function: Any, values: Any, /) -> list[Any]:
        found, call = items_of(meter, values), counted(meter, function)
        return [item for item in found if (item if function is None else call(item))]

    def reversed_(values: Any, /) -> list[Any]:
        return items_of(meter, values)[::-1]

    def any_(values: Any, /) -> bool:
        return any(items_of(meter, values))

    def all_(values: Any, /) -> bool:
        return all(items_of(meter, values))

    return {
        "len": len_,
        "range": range_,
        "enumerate": enumerate_,
        "zip": zip_,
        "map": map_,
        "filter": filter_,
        "reversed": reversed_,
        "any": any_,
        "all": all_,
    }


def counted(meter: Meter, function: Any) -> Any:
    """Return `function` so that it counts as a call inside of others; the script's own count anyway."""
    if getattr(getattr(function, "__code__", None), "co_filename", "") == SCRIPT_FILE:
        return function

    def call(*arguments: Any) -> Any:
        meter.enter(0)
        return meter.leave(function(*arguments))

    return call


def ordered(meter: Meter, items: list[Any], key_function: Any, *, reverse: bool) -> list[Any]:
    """Return `items` sorted, stable, by `key_function`; the sort is paid for."""
    call = counted(meter, key_function)
    keys = items if key_function is None else [call(item) for item in items]
    heavy = sum(weight(meter, one) for one in keys)
    meter.charge(heavy * (len(keys).bit_length() // 4))
    numbers = sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)
    return [items[number] for number in numbers]


def _choices(meter: Meter) -> dict[str, Guard]:
    def sorted_(values: Any, /, *, key: Any = None, reverse: Any = False) -> list[Any]:
        return ordered(meter, items_of(meter, values), key, reverse=bool(reverse))

    def extreme(choose: Guard) -> Guard:
        def guard(values: Any, /, *more: Any, key: Any = None, default: Any = _ABSENT) -> Any:
            items = [values, *more] if more else items_of(meter, values)
            if not items and default is not _ABSENT:
                return default
            if not items:
                raise ValueError("there is nothing to choose from")
            call = counted(meter, key)
            keys = items if key is None else [call(item) for item in items]
            for one in keys:
                weight(meter, one)
            return items[choose(range(len(items)), key=keys.__getitem__)]

        return guard

    return {"sorted": sorted_, "min": extreme(min), "max": extreme(max)}


def _summing(meter: Meter, add: Guard) -> Guard:
    def sum_(values: Any, /, start: Any = 0) -> Any:
        """Add from left to right, because Python 3.12 adds floats in another way than 3.11."""
        total = start
        for value in items_of(meter, values):
            total = add(total, value)
        return total

    return sum_
