"""Guards of the operators: no result larger than the limits, nothing compared without being paid."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter
from kalends.agents.language.values import (
    NUMBERS,
    find_keys,
    fitting,
    integer,
    items_of,
    key,
    kind,
    roomy,
    weight,
)

Guard = Callable[..., Any]

ARITHMETIC: Final[dict[str, Guard]] = {
    "-": operator.sub,
    "/": operator.truediv,
    "//": operator.floordiv,
    "&": operator.and_,
    "^": operator.xor,
    ">>": operator.rshift,
}
"""Operators whose result is bounded by what they are given."""

ORDER: Final[dict[str, Guard]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def binary_guards(meter: Meter) -> dict[str, Guard]:
    """Return every binary operator, by its symbol."""

    def add(a: Any, b: Any, /) -> Any:
        if type(a) is int and type(b) is int:
            return integer(a + b)
        if type(a) is str and type(b) is str:
            meter.charge_text(fitting(len(a) + len(b)))
        elif type(a) is type(b) and type(a) in (list, tuple):
            meter.charge(1 + roomy(len(a) + len(b)))
        return a + b

    def multiply(a: Any, b: Any, /) -> Any:
        if type(a) in (str, list, tuple) or type(b) in (str, list, tuple):
            return repeated(*((a, b) if isinstance(b, int) else (b, a)))
        product = a * b
        return integer(product) if type(product) is int else product

    def repeated(value: Any, times: int) -> Any:
        if not isinstance(times, int):
            raise TypeError(f"cannot multiply {kind(value)} by {kind(times)}")
        size = len(value) * max(0, times)
        meter.charge_text(fitting(size)) if type(value) is str else meter.charge(1 + roomy(size))
        return value * times

    def modulo(a: Any, b: Any, /) -> Any:
        if type(a) is str:
            raise TypeError('% does not format text; write f"{value}"')
        return a % b

    def power(a: Any, b: Any, /) -> Any:
        if isinstance(a, int) and isinstance(b, int) and b > 0 and abs(a) > 1:
            if (a.bit_length() - 1) * b > limits.INTEGER_BITS_MAX:
                raise OverflowError(f"an integer of more than {limits.INTEGER_BITS_MAX} bits")
            return integer(a**b)
        result = a**b
        if type(result) is complex:
            raise ValueError("a root of a negative number")
        return result

    def shift_left(a: Any, b: Any, /) -> Any:
        if isinstance(a, int) and isinstance(b, int) and a and b > limits.INTEGER_BITS_MAX:
            raise OverflowError(f"an integer of more than {limits.INTEGER_BITS_MAX} bits")
        return integer(a << b)

    def union(a: Any, b: Any, /) -> Any:
        if type(a) is dict and type(b) is dict:
            meter.charge(limits.KEY_STEPS * roomy(len(a) + len(b)))
            find_keys(meter, a)
            find_keys(meter, b)
        return a | b

    def bounded(operate: Guard) -> Guard:
        def guard(a: Any, b: Any, /) -> Any:
            result = operate(a, b)
            return integer(result) if type(result) is int else result

        return guard

    return {
        "+": add,
        "*": multiply,
        "%": modulo,
        "**": power,
        "<<": shift_left,
        "|": union,
        **{symbol: bounded(operate) for symbol, operate in ARITHMETIC.items()},
    }


def augmented_guard(meter: Meter, binary: dict[str, Guard]) -> Guard:
    """Return ``name op= value``, which changes lists and dicts in place, as Python does."""

    def augmented(symbol: str, a: Any, b: Any, /) -> Any:
        operate = symbol.removesuffix("=")
        if type(a) is list and operate == "+":
            more = items_of(meter, b)
            roomy(len(a) + len(more))
            a += more
        elif type(a) is list and operate == "*":
            a[:] = binary["*"](a, b)
        elif type(a) is dict and type(b) is dict and operate == "|":
            a.update(binary["|"](a, b))
        else:
            return binary[operate](a, b)
        return a

    return augmented


def comparison_guards(meter: Meter) -> dict[str, Guard]:
    """Return every comparison, by its symbol."""

    def comparison(compare: Guard) -> Guard:
        def guard(a: Any, b: Any, /) -> Any:
            if type(a) not in NUMBERS and type(b) not in NUMBERS:
                weight(meter, a)
            return compare(a, b)

        return guard

    def within(item: Any, values: Any, /) -> bool:
        if type(values) is dict:
            return key(meter, item) in values
        if type(values) is str:
            meter.charge_text(len(values) * (1 + (len(item) if type(item) is str else 0)))
        elif type(values) in (list, tuple):
            meter.charge(len(values) * weight(meter, item))
        elif type(values) is range:
            meter.charge(1 if type(item) is int else 1 + len(values))
        else:
            raise TypeError(f"there are no items in {kind(values)}")
        return item in values

    return {
        **{symbol: comparison(compare) for symbol, compare in ORDER.items()},
        "in": within,
        "not in": lambda item, values: not within(item, values),
    }


def chain_guard(comparisons: dict[str, Guard]) -> Guard:
    """Return ``a < b <= c``, whose later values are functions, called only if they count."""

    def chain(left: Any, symbol: str, right: Any, /, *rest: Any) -> bool:
        if not comparisons[symbol](left, right):
            return False
        for next_symbol, ask in zip(rest[::2], rest[1::2], strict=True):
            left, right = right, ask()
            if not comparisons[next_symbol](left, right):
                return False
        return True

    return chain
