"""How the coordinator is built: no ancestors, one handler a message, records that one part writes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import pytest

from kalends.broker import coordination
from kalends.broker.coordination.coordinator import HANDLERS, Coordinator
from kalends.contract import messages as m

MODULES: Final = sorted(Path(coordination.__file__).parent.glob("*.py"))
SHELLS: Final = {m.Known, m.Compared, m.Relocked}
"""Messages that the shell takes before the coordinator: what a register may have forgotten."""

WRITERS: Final = {"look": "slot_search", "lists": "waiting_lists", "agent": "agent_dispatch"}
ALIASES: Final = {"look": "look", "news": "lists", "agent": "agent"}
"""What the records are called where ``case.`` is left out."""
CHANGES: Final = {"add", "append", "clear", "discard", "extend", "pop", "remove", "update"}


def test_no_part_is_derived_from_another() -> None:
    assert Coordinator.__bases__ == (object,)
    parts = [each for each in vars(Coordinator).values() if isinstance(each, type)]
    assert all(each.__bases__ == (object,) for each in parts)


def test_every_message_to_brokers_has_a_handler() -> None:
    assert HANDLERS.keys() | SHELLS == set(get_args(m.ToBroker))


@pytest.mark.parametrize("record", WRITERS)
def test_a_record_is_written_by_its_part_alone(record: str) -> None:
    writers = {
        path.stem for path in MODULES if record in set(_written(ast.parse(path.read_text())))
    }
    assert writers == {WRITERS[record]}


def _written(tree: ast.AST) -> Iterator[str]:
    """The records of a request that a module changes, as ``case.look.free = ..`` does."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from (_record(each) for each in targets)
            case ast.AugAssign(target=target):
                yield _record(target)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in CHANGES:
                yield _record(value)


def _record(target: ast.expr) -> str:
    if isinstance(target, ast.Subscript):
        return _record(target.value)
    match target:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="case"), attr=record)):
            return record
        case ast.Attribute(value=ast.Name(id=name)):
            return ALIASES.get(name, "")
    return ""
