"""A class name has one meaning, and modules and classes are called by nouns: exceptions stand in lists."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import kalends

ROOT: Final = Path(kalends.__file__).parent

SHARED: Final = {
    "Ask": "an operation of the register, as traces of the protocol tell it, and an order to an agent",
    "Cancel": "a message, and the register's operation before it; traces tell both",
    "Finish": "a call, and the register's operation that ends a request; traces tell it",
    "Ground": "what a wing stands on, at either protocol machine",
    "Reclaim": "a message and a call, both public",
    "RegisterReads": "the reads of a register, in each of its stores",
    "Send": "the effect of either protocol machine, which know nothing of each other",
    "Wing": "parts that are plugged into either protocol machine",
}
"""Names of classes that stand in several modules, and why."""

TERMS: Final = {
    "checking", "planning", "scheduling", "serving", "sharing", "testing",
    "molding", "packing", "polling", "shaking", "voting", "Molding", "Packing",
    "Booking", "Ending", "Finding", "Nothing", "Ring", "Ruling", "Setting", "Waiting", "Warning", "Wing",
    "drawing", "ring", "wing",
}  # fmt: skip
"""Nouns that end in -ing: our rooms, terms of the field, what users are told of, plain English."""


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, set[Path]] = defaultdict(set)
    for module, name in _classes():
        homes[name].add(module)
    assert {name for name, modules in homes.items() if len(modules) > 1} == SHARED.keys()


def test_modules_and_classes_are_called_by_nouns() -> None:
    modules = {part for path in _modules() for part in path.relative_to(ROOT).with_suffix("").parts}
    names = modules | {name for _, name in _classes()}
    last_words = {name: re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)[-1] for name in names}
    assert {word for word in last_words.values() if word.endswith("ing")} == TERMS


def _modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _classes() -> Iterator[tuple[Path, str]]:
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield path, node.name
