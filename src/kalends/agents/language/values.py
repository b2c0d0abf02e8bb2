"""Plain data: what it weighs, how it is walked, and how much of it an operation may make.

A script can build nothing but None, bools, integers, floats, text, lists, tuples, dicts, ranges and
functions. Nothing here is lazy, so that every piece of work has a size that is known before it.
"""

from __future__ import annotations

from typing import Any, Final

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter

NUMBERS: Final = frozenset({int, float, bool, type(None)})
"""Types that are compared at once, whatever they are compared with."""

INTEGER_MAX: Final = 1 << limits.INTEGER_BITS_MAX


def kind(value: object) -> str:
    """Return the name of the type of `value` for a script's author."""
    name = type(value).__name__
    return "function" if callable(value) else "None" if value is None else name


def integer(value: int) -> int:
    """Return `value`. Raises `OverflowError` if it has too many bits."""
    if -INTEGER_MAX < value < INTEGER_MAX:
        return value
    raise OverflowError(f"an integer of more than {limits.INTEGER_BITS_MAX} bits")


def fitting(chars: int) -> int:
    """Return `chars`. Raises `OverflowError` if a text would be too long."""
    if chars > limits.TEXT_CHARS_MAX:
        raise OverflowError(f"a text of more than {limits.TEXT_CHARS_MAX:,} characters")
    return chars


def roomy(items: int) -> int:
    """Return `items`. Raises `OverflowError` if a list, tuple, range or dict would be too long."""
    if items > limits.ITEMS_MAX:
        raise OverflowError(f"more than {limits.ITEMS_MAX:,} items")
    return items


def ordinary(value: float) -> bool:
    """Return whether a float has few decimal digits, so that those of others cost extra."""
    return value == 0.0 or 1e-22 < abs(value) < 1e22


def items_of(meter: Meter, value: Any) -> list[Any]:
    """Return a new list of what `value` holds, paid for. Raises `TypeError` where it holds nothing."""
    if type(value) not in (list, tuple, dict, str, range):
        raise TypeError(f"there are no items in {kind(value)}")
    meter.charge(1 + len(value))
    return list(value)


def weight(meter: Meter, value: object) -> int:
    """Return the comparisons in which `value` takes part at once: 1, or one for each item. Paid for.

    Raises `RecursionError` where it is nested too deep to be compared.
    """
    if type(value) is str:
        steps = 1 + (len(value) >> limits.CHARS_PER_STEP_BITS)
        meter.charge(steps)
        return steps
    if type(value) not in (list, tuple, dict):
        meter.charge(1)
        return 1
    return _walk(meter, value, 1)


def _walk(meter: Meter, value: Any, depth: int) -> int:
    if depth > limits.DATA_DEPTH_MAX:
        raise RecursionError(f"data nested deeper than {limits.DATA_DEPTH_MAX}")
    steps = 1 + len(value)
    meter.charge(steps)
    # Keys are hashed and compared like everything else.
    if type(value) is dict:
        find_keys(meter, value)
    for item in (*value, *value.values()) if type(value) is dict else value:
        if type(item) in (list, tuple, dict):
            steps += _walk(meter, item, depth + 1)
        elif type(item) is str:
            chars = len(item) >> limits.CHARS_PER_STEP_BITS
            meter.charge(chars)
            steps += chars
    return steps


def key(meter: Meter, value: Any) -> Any:
    """Return `value` as the key of a dict. Raises `TypeError` if it cannot be one.

    Keys are plain and flat enough: hashing a deep tuple would end the interpreter. Integers are small enough
    to have hashes of their own: with one hash for all, a dict compares each key with each other.
    """
    if type(value) is str:
        meter.charge(1 + (len(value) >> limits.CHARS_PER_STEP_BITS))
    elif type(value) in NUMBERS:
        meter.charge(1)
        meter.charge_keys()
        _check_bits(value, limits.KEY_BITS_MAX)
    elif type(value) is tuple:
        _walk(meter, value, 1)
        meter.charge_keys()
        _check_hashable(value)
    else:
        raise TypeError(f"a key cannot be {kind(value)}")
    return value


def new_key(meter: Meter, value: Any, size: int) -> Any:
    """Return `value` as a key that is put into a dict of `size`; raises as `key`, and `OverflowError`."""
    key(meter, value)
    if type(value) is not str:
        meter.note_key(value, size)
    return value


def find_keys(meter: Meter, values: dict[Any, Any]) -> None:
    """Pay for finding all keys of `values` in a dict, beyond what each costs anyhow."""
    meter.charge_keys(sum(type(one) is not str for one in values))


def _check_hashable(value: tuple[Any, ...]) -> None:
    for item in value:
        if type(item) is tuple:
            _check_hashable(item)
        elif type(item) in NUMBERS:
            _check_bits(item, limits.KEY_PART_BITS_MAX)
        elif type(item) is not str:
            raise TypeError(f"a key cannot hold {kind(item)}")


def _check_bits(value: Any, bits_max: int) -> None:
    if type(value) is int and value.bit_length() > bits_max:
        raise OverflowError(f"an integer of more than {bits_max} bits in a key")
