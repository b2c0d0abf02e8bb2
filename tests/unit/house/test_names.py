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
    "Ask": "a question to the register, and what is asked of an agent: to be renamed",
    "Asked": "a query to a site, and an order on the command line: to be renamed",
    "Booking": "in a calendar, and the commands of a broker: to be renamed",
    "Cancel": "a message, and an operation of the register: to be renamed",
    "Finding": "of the checker of schedules, and free starts: to be renamed",
    "Finish": "a call, and an operation of the register: to be renamed",
    "Grant": "a message, and a priority that a broker grants: to be renamed",
    "Grid": "of clusters, and of characters: to be renamed",
    "Job": "of a batch queue, and the run of a script: to be renamed",
    "Mark": "how far a site is, told and to be stored: to be renamed",
    "Moment": "on two clocks, and in a drawing: to be renamed",
    "Options": "of several groups of commands: to be renamed",
    "Outcome": "of a request, and of the run of a script: to be renamed",
    "Reclaim": "a message and a call, both public",
    "Stage": "of a request, and of a program that changes its size, both public",
    "Send": "of either protocol machine: to be renamed",
}
"""Names of classes that stand in several modules, and why."""

TERMS: Final = {
    "checking", "planning", "scheduling", "serving", "testing",
    "molding", "packing", "polling", "shaking", "voting", "Molding", "Packing",
    "Booking", "Finding", "Waiting",
    "drawing", "ring", "Ending", "Nothing", "Ring", "Setting", "Warning",
}  # fmt: skip
"""Nouns that end in -ing: our rooms, terms of the field, what users are told of, plain English."""

ACTIVITIES: Final = {
    "Asking", "Auditing", "Checking", "Hearing", "Instructing", "Looking", "Reconciling", "Replacing",
    "Running", "hearing",
}  # fmt: skip
"""Parts of the two servers that are still called by what they do."""


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, set[Path]] = defaultdict(set)
    for module, name in _classes():
        homes[name].add(module)
    assert {name for name, modules in homes.items() if len(modules) > 1} == SHARED.keys()


def test_modules_and_classes_are_called_by_nouns() -> None:
    modules = {part for path in _modules() for part in path.relative_to(ROOT).with_suffix("").parts}
    names = modules | {name for _, name in _classes()}
    last_words = {name: re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)[-1] for name in names}
    activities = {
        name for name, word in last_words.items() if word.endswith("ing") and word not in TERMS
    }
    assert activities == ACTIVITIES


def _modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _classes() -> Iterator[tuple[Path, str]]:
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield path, node.name
