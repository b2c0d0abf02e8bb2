"""Steps bound time: what costs Python more than it seems to is charged for, the same on every Python."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent_language_world import performed

from kalends.agents.language import limits
from kalends.agents.language.environment import environment
from kalends.agents.language.meter import Meter

PROBES_PER_STEP = 200
"""A step is some 0.1 us of Python, and a look at one place of a dict takes 1 to 30 ns."""


def run(source: str, *, steps_max: int = 5_000_000) -> dict[str, Any]:
    text = "".join(f"    {line}\n" for line in source.splitlines())
    return performed(f"def choose(view, request):\n{text}", [{}, {}], steps_max=steps_max)


def never() -> NoReturn:
    raise AssertionError("there are steps enough")


def guards() -> tuple[Meter, dict[str, Any]]:
    meter = Meter(1 << 60, never)
    return meter, environment(meter, {"UTC": ((0, 0),)}, [], [])


def steps_of(meter: Meter, work: Any) -> int:
    before = meter.left
    work()
    return before - meter.left


# Keys of one hash.

P1, P2, P5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
M, P61 = (1 << 64) - 1, (1 << 61) - 1


def float_with(wanted: int) -> float | None:
    """Return a float whose hash is `wanted`: m * 2**e has m * 2**e modulo 2**61 - 1."""
    sign, value = (-1 if wanted < 0 else 1), abs(wanted)
    for e in range(61):
        m = ((value >> e) | (value << (61 - e))) & P61
        if 0 < m < 1 << 53 and hash(found := sign * m * 2.0**e) == wanted:
            return found
    return None


def tuples_of_one_hash(count: int, target: int = 0x123456789ABCDEF) -> list[tuple[int, float]]:
    """Return tuples of an integer and a float: the hash of tuples (xxHash) is solved for its last lane."""
    found: list[tuple[int, float]] = []
    number, inverse = 0, pow(P2, -1, 1 << 64)
    while len(found) < count:
        number += 1
        first = (P5 + number * P2) & M
        first = ((first << 31) | (first >> 33)) & M
        second = (target - first * P1) * inverse & M
        second -= 1 << 64 if second >= 1 << 63 else 0
        if abs(second) < P61 and (part := float_with(second)):
            found.append((number, part))
    assert len({hash(each) for each in found}) == 1
    return found


PUTS = {
    "set": "for k in keys:\n    d[k] = 1",
    "setdefault": "for k in keys:\n    d.setdefault(k, 1)",
    "comprehension": "d = {k: 1 for k in keys}",
    "dict": "d = dict([(k, 1) for k in keys])",
    "display": "for k in keys:\n    d = {k: 1} | d",
}


@pytest.mark.parametrize("put", PUTS)
def test_a_script_has_few_keys_of_one_hash(put: str) -> None:
    keys = tuples_of_one_hash(limits.KEYS_ALIKE_MAX + 1)
    for number, code in ((limits.KEYS_ALIKE_MAX, "ok"), (limits.KEYS_ALIKE_MAX + 1, "agent-error")):
        spelled = "[" + ", ".join(f"({n}, {x!r})" for n, x in keys[:number]) + "]"
        end = run(f"d = {{}}\nkeys = {spelled}\n{PUTS[put]}\nreturn len(d)")
        assert end["code"] == code, end["detail"]
        assert (end["answer"] == number) == (code == "ok")


def test_tuples_of_minus_one_and_minus_two_have_one_hash_and_are_bounded_too() -> None:
    made = (
        "keys = [()]\nfor n in range({}):\n    keys = [(*k, x) for k in keys for x in (-1, -2)]\n"
    )
    made = made.replace("(*k, x)", "k + (x,)")
    for length, code in ((6, "ok"), (7, "agent-error")):
        end = run(made.format(length) + "return len({k: 1 for k in keys})")
        assert (end["code"], end["answer"]) == (code, 64 if code == "ok" else None), end["detail"]


def test_the_same_keys_again_are_no_others() -> None:
    again = "for n in range(500):\n    d = {}\n    d[(-1, n % 7)] = 1\n    d[(-2, n % 7)] = 1\n"
    assert run(again + "return len(d)")["answer"] == 2


# Keys in one another's way.


def in_the_way(size: int, bits: int) -> tuple[list[int], int, int]:
    """Return integers that fill the way of a missing one in a dict of 2**bits places, it, and its probes.

    A dict looks at i * 5 + 1 after i, once the bits of the hash are used up.
    """
    mask, place, run = (1 << bits) - 1, 1, []
    for _ in range(size):
        run.append(place)
        place = (5 * place + 1) & mask
    taken = set(run)

    def probes(number: int) -> int:
        place, rest, count = number & mask, number, 0
        while place in taken:
            count, rest = count + 1, rest >> 5
            place = (5 * place + rest + 1) & mask
        return count

    worst = max(range(mask + 1, mask + 2_000), key=probes)
    return run, worst, probes(worst)


LOOKS = {
    "get": lambda env, d, k: env["_method_"](d, "get", k),
    "in": lambda env, d, k: env["_in_"](k, d),
    "pop": lambda env, d, k: env["_method_"](d, "pop", k, None),
    "set": lambda env, d, k: env["_write_"](d).__setitem__(k, 1),
    "setdefault": lambda env, d, k: env["_method_"](d, "setdefault", k, 1),
    "a tuple": lambda env, d, k: env["_in_"]((k,), d),
    "update": lambda env, d, k: env["_method_"](d, "update", {k: 1}),
    "union": lambda env, d, k: env["_or_"](d, {k: 1}),
    "equal": lambda env, d, k: env["_equal_"]({k: 1}, d),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("emptied", [False, True])
def test_a_key_costs_by_the_places_that_a_dict_may_look_at(look: str, emptied: bool) -> None:
    run, worst, probes = in_the_way(10_000, 14)
    assert probes > 5_000
    meter, env = guards()
    values: dict[Any, Any] = {}
    for each in run:
        env["_write_"](values)[each] = 1
    if emptied:
        # What is taken out leaves a place behind that is looked at.
        for each in run[:-1]:
            env["_method_"](values, "pop", each)
    assert steps_of(meter, lambda: LOOKS[look](env, values, worst)) >= probes // PROBES_PER_STEP


@given(size=st.integers(0, 50))
def test_small_dicts_and_texts_cost_what_they_did(size: int) -> None:
    meter, env = guards()
    small = dict.fromkeys(range(size), 1)
    assert steps_of(meter, lambda: env["_in_"](3, small)) == 1
    texts = dict.fromkeys(map(str, range(100 * size)), 1)
    assert steps_of(meter, lambda: env["_in_"]("x", texts)) == 1


def test_a_comprehension_of_pairs_is_a_dict_as_before() -> None:
    source = (
        "d = {k % 3: v for k in range(6) for v in (k, -k) if k != 2}\nreturn [[k, d[k]] for k in d]"
    )
    assert run(source)["answer"] == [[0, -3], [1, -4], [2, -5]]
    assert run("return {[]: 1 for n in [1]}")["detail"] == "TypeError: a key cannot be list"


# Text and numbers.


def test_what_changes_case_by_tables_costs_more() -> None:
    meter, env = guards()
    plain, others = ("a" * 16_000, "ß" * 16_000)
    for name in ("lower", "upper"):
        cheap, dear = (
            steps_of(meter, partial(env["_method_"], text, name)) for text in (plain, others)
        )
        assert dear >= 9 * cheap


@pytest.mark.parametrize(
    ("value", "specification"),
    [
        (1.7e308, ".0f"),
        (1.7e308, ".200f"),
        (5e-324, ".200e"),
        (1 / 3e200, ".200g"),
        (1 / 3, ".200f"),
    ],
)
def test_digits_that_a_float_does_not_mean_are_paid_for(value: float, specification: str) -> None:
    meter, env = guards()
    text = env["_format_"](value, specification)
    digits = sum(each.isdigit() for each in text)
    assert steps_of(meter, lambda: env["_format_"](value, specification)) >= 3 * (digits - 20)


def test_ordinary_numbers_cost_what_they_did() -> None:
    meter, env = guards()
    assert steps_of(meter, lambda: env["_format_"](12.345, ".2f")) == 1 + 200 // 16
    assert steps_of(meter, lambda: env["round"](12.345, 2)) == 0
    assert steps_of(meter, lambda: env["round"](1.2e290, 2)) >= 100


# Calls inside one another.

NESTED = {
    "plain": "f(n - 1)",
    "comprehensions": "[" * 12 + "f(n - 1)" + "".join(f" for x{i} in [1]]" for i in range(12)),
    "chains": "1 <= 1 <= (" * 25 + "f(n - 1)" + ")" * 25,
    "both": "[" * 8 + "0 <= (" * 12 + "f(n - 1)" + ") < 9" * 12
    + "".join(f" for x{i} in [1]]" for i in range(8)),
    "sums": "sum(" * 10 + "f(n - 1)" + " for x in [1])" * 10,
    "map": "map(f, [n - 1])",
    "sorted": "sorted([n - 1], key=f)",
    "max": "max([n - 1], key=f)",
    "filter": "filter(f, [n - 1])",
}  # fmt: skip


@pytest.mark.parametrize("form", NESTED)
def test_as_many_calls_as_promised_are_inside_one_another(form: str) -> None:
    source = f"def f(n):\n    if n:\n        {NESTED[form]}\n    return 1\n"
    source += "def choose(n, request):\n    f(n)\n    return 1\n"
    for calls, code in ((limits.CALLS_MAX - 2, "ok"), (limits.CALLS_MAX - 1, "limit-recursion")):
        end = performed(source, [calls, 0], steps_max=10_000_000)
        assert end["code"] == code, end["detail"]
    assert "more than 400 calls" in end["detail"]


def test_builtins_that_call_builtins_count_among_the_calls() -> None:
    deep = "map(map, [map], [[map]], [[[map]]], [[[[f]]]], [[[[[n - 1]]]]])"
    source = f"def f(n):\n    return {deep} if n else 0\ndef choose(n, request):\n    f(n)\n    return 1\n"
    assert performed(source, [60, 0], steps_max=1_000_000)["code"] == "ok"
    assert performed(source, [110, 0], steps_max=1_000_000)["code"] == "limit-recursion"
