"""Every script comes to the same end on every Python that this host has, in the same words and steps."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import RestrictedPython
from pythons import HERE, pythons

from kalends.agents.language import vocabulary
from tests.agent_language_world import Author

from . import world
from .corpus import ATTACKS
from .corpus.kinds import choosing

PROGRAM: Final = Path(__file__).with_name("language_ends.py")
SOURCES: Final = Path(__file__).parents[2] / "src"
LIBRARIES: Final = Path(RestrictedPython.__file__).parents[1]
RUN_S_MAX: Final = 280.0
RANDOM_SCRIPTS: Final = 100
PYTHONS: Final = pythons()

VALUES: Final = (
    "None", "True", "0", "-3", "10**150", "1.5", "''", "'abab'", "[]", "[1, 2]", "('a', None)",
    "('a', 'b')", "{}", "{'a': 1}", "range(3)", "(lambda a: a)",
)  # fmt: skip
"""One of each kind, and those on which functions turn."""

RECEIVERS: Final = {
    "'abab'": vocabulary.STR_METHODS,
    "[1, 2]": vocabulary.LIST_METHODS,
    "('a', 'b')": vocabulary.TUPLE_METHODS,
    "{'a': 1}": vocabulary.DICT_METHODS,
}
SYMBOLS: Final = ("+", "-", "*", "/", "//", "%", "**", "<<", "&", "|", "==", "<", "in", "and")

STATEMENTS: Final = (
    "return [y for y in [1] if later]\nlater = 1",
    "return later\nlater = 1",
    "def f():\n    return later\nf()\nlater = 1",
    "def f(a, one=1):\n    return a\nreturn f(1, noe=2)",
    "def f(a, *, one):\n    return a\nreturn f(1, 2)",
    "return 'a b'.split(maxsplt=1)",
    "return '\U0001f600a'.split('a', 10**150)",
    "return f'{'a'}'",
    "return f'{\"\\n\"}'",
    "return f'''{\n1  # one\n}'''",
    "return f'{\n1}'",
    "return f'{1:{2:{3}}}'",
    "return f'{1:{2:>3}}'",
    "a, b = [1, 2, 3]",
    "(a, b), c = [1, 2]",
    "type X = int",
    *(f"return {'[' * deep}0{' for x in [1]]' * deep}" for deep in (15, 16, 20, 21, 22, 24, 30)),
    *(
        "".join(f"{' ' * step}for x in [1]:\n" for step in range(deep)) + " " * deep + "pass"
        for deep in (16, 20, 21, 22)
    ),
)


def scripts() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Every attack that needs no wall, random scripts, and all words of the language."""
    for attack in ATTACKS:
        if not attack.needs_wall:
            yield (
                attack.source,
                attack.function,
                world.job("mallory", "", attack.function).arguments,
            )
    for seed in range(RANDOM_SCRIPTS):
        yield Author(seed).script(), "choose", ([1, "x", [2]], {"x": 1, "y": None})
    for body in itertools.chain(STATEMENTS, (f"return {each}" for each in expressions())):
        yield choosing(body), "choose", ({}, {})


def expressions() -> Iterator[str]:
    for name in sorted(vocabulary.NAMES):
        yield f"{name}()"
        yield from (f"{name}({value})" for value in VALUES)
        yield from (f"{name}({value}, 2, bogus=1)" for value in VALUES[::3])
    for receiver, methods in RECEIVERS.items():
        for method in sorted(methods):
            yield f"{receiver}.{method}()"
            yield from (f"{receiver}.{method}({value})" for value in VALUES)
            yield from (f"{receiver}.{method}('a', {value})" for value in VALUES[::3])
    for symbol, left, right in itertools.product(SYMBOLS, VALUES[2::3], VALUES[::3]):
        yield f"{left} {symbol} {right}"


def ends(python: str) -> list[str]:
    jobs = "".join(json.dumps(each) + "\n" for each in scripts())
    run = subprocess.run(
        [python, "-s", "-B", "-W", "ignore", str(PROGRAM)],
        env={"PYTHONPATH": f"{SOURCES}{os.pathsep}{LIBRARIES}", "PYTHONHASHSEED": "0"},
        input=jobs, capture_output=True, text=True, timeout=RUN_S_MAX, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.needs_pythons
def test_every_script_comes_to_the_same_end_on_every_python() -> None:
    here = ends(sys.executable)
    for version in sorted({*PYTHONS} - {HERE}):
        there = ends(PYTHONS[version])
        differing = [pair for pair in zip(here, there, strict=True) if len({*pair}) > 1]
        assert (version, differing[:20]) == (version, [])
