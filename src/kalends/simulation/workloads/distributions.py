"""Distributions of whole numbers, as a user writes them: ``exp(170)``, ``uniform(1,64)``.

They draw by `Random.random` alone, which gives the same numbers for a seed in every version of Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.core.limits import TIME_S_MAX

ARGUMENTS_MAX: Final = 200

Draw = Callable[[Random], float]

_CALL: Final = re.compile(r"([a-z0-9]+)(?:\(([^()]*)\))?")
_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


class Distribution(msgspec.Struct, frozen=True):
    """A distribution, whose values are rounded to whole numbers between `least` and `most`."""

    draw: Draw
    least: float
    most: float
    """The maximum, which may be infinite."""


def exponential(random: Random, mean: float) -> float:
    return -mean * math.log(1.0 - random.random())


def normal(random: Random) -> float:
    """Draw by the polar method of Marsaglia and Bray (1964), without the second of each pair."""
    while True:
        x, y = 2.0 * random.random() - 1.0, 2.0 * random.random() - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


def gamma(random: Random, shape: float, scale: float) -> float:
    """Draw by the method of Marsaglia and Tsang (2000)."""
    if shape < 1.0:
        lift: float = (1.0 - random.random()) ** (1.0 / shape)
        return lift * gamma(random, shape + 1.0, scale)
    third = shape - 1.0 / 3.0
    width = 1.0 / math.sqrt(9.0 * third)
    while True:
        x = normal(random)
        cube = (1.0 + width * x) ** 3
        if cube > 0.0 and math.log(1.0 - random.random()) < 0.5 * x * x + third * (
            1.0 - cube + math.log(cube)
        ):
            return third * cube * scale


def call(text: str, where: str) -> tuple[str, list[float]]:
    """Return the name and the numbers of ``name(1,2.5)`` or ``name``. Raises `InvalidInput` otherwise."""
    found = _CALL.fullmatch(text)
    words = [word.strip() for word in found[2].split(",")] if found and found[2] else []
    if found is None or not all(map(_NUMBER.fullmatch, words)) or len(words) > ARGUMENTS_MAX:
        raise InvalidInput(
            f"{excerpt(text)!r} cannot be read",
            where=where,
            remedy="write a name and numbers of 0 or more, such as exp(170)",
        )
    return found[1], [float(word) for word in words]


def distribution(text: str, where: str) -> Distribution:
    """Return the distribution that `text` names; a number alone is always drawn.

    Raises `InvalidInput`, with `where`, for an unknown one or numbers that it cannot have.
    """
    if _NUMBER.fullmatch(text):
        text = f"const({text})"
    name, numbers = call(text, where)
    known = _KNOWN.get(name)
    if known is None:
        raise InvalidInput(
            f"unknown distribution {name!r}",
            where=where,
            remedy=f"write one of {', '.join(shown for shown, _, _ in _KNOWN.values())}",
        )
    shown, arity, make = known
    made = make(*numbers) if arity in (len(numbers), _ANY) else None
    if made is None or made.least > TIME_S_MAX:
        raise InvalidInput(
            f"{excerpt(text)} does not fit {shown}", where=where, remedy=_RULES[name]
        )
    return made


def _const(value: float) -> Distribution:
    return Distribution(lambda random: value, value, value)


def _uniform(least: float, most: float) -> Distribution | None:
    if least > most or not (least.is_integer() and most.is_integer()):
        return None
    width = most - least + 1.0
    return Distribution(lambda random: least + int(random.random() * width), least, most)


def _exponential(mean: float) -> Distribution | None:
    if mean == 0:
        return None
    return Distribution(lambda random: exponential(random, mean), 0, math.inf)


def _lognormal(median: float, sigma: float) -> Distribution | None:
    if median == 0 or sigma > 20:
        return None
    return Distribution(lambda random: median * math.exp(sigma * normal(random)), 0, math.inf)


def _gamma(shape: float, scale: float) -> Distribution | None:
    if shape == 0 or scale == 0:
        return None
    return Distribution(lambda random: gamma(random, shape, scale), 0, math.inf)


def _hyperexponential(share: float, mean: float, other_mean: float) -> Distribution | None:
    if share > 1 or mean == 0 or other_mean == 0:
        return None
    return Distribution(
        lambda random: exponential(random, mean if random.random() < share else other_mean),
        0,
        math.inf,
    )


def _choice(*numbers: float) -> Distribution | None:
    values, weights = numbers[::2], numbers[1::2]
    total = math.fsum(weights)
    if len(values) != len(weights) or total == 0:
        return None

    def draw(random: Random) -> float:
        left = random.random() * total
        for value, weight in zip(values, weights, strict=True):
            left -= weight
            if left < 0:
                return value
        return values[-1]

    return Distribution(draw, min(values), max(values))


_ANY: Final = -1

_KNOWN: Final[dict[str, tuple[str, int, Callable[..., Distribution | None]]]] = {
    "const": ("const(VALUE)", 1, _const),
    "uniform": ("uniform(LEAST,MOST)", 2, _uniform),
    "exp": ("exp(MEAN)", 1, _exponential),
    "lognormal": ("lognormal(MEDIAN,SIGMA)", 2, _lognormal),
    "gamma": ("gamma(SHAPE,SCALE)", 2, _gamma),
    "hyperexp": ("hyperexp(SHARE,MEAN,OTHER)", 3, _hyperexponential),
    "choice": ("choice(VALUE,WEIGHT,...)", _ANY, _choice),
}

_RULES: Final = {
    "const": "give one number",
    "uniform": "give two whole numbers, the lesser one first",
    "exp": "give a mean above 0",
    "lognormal": "give a median above 0, and the sigma of its logarithm up to 20",
    "gamma": "give a shape and a scale above 0",
    "hyperexp": "give a share from 0 to 1, and two means above 0",
    "choice": "give values, each with its weight, not all weights 0",
}
