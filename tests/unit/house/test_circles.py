"""No module needs itself: imports have no circles, also not those that only type checkers see."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import kalends

ROOT: Final = Path(kalends.__file__).parent


def test_imports_have_no_circles() -> None:
    circle = _circle(_imports())
    assert not circle, " -> ".join(circle)


def test_a_circle_of_imports_for_types_is_seen() -> None:
    first = ast.parse("if TYPE_CHECKING:\n    from kalends.core.other import It")
    second = ast.parse("def late():\n    import kalends.core.first")
    found = {
        name: set(_imported(tree, {"kalends.core.first", "kalends.core.other"}))
        for name, tree in (("kalends.core.first", first), ("kalends.core.other", second))
    }
    assert len(_circle(found)) == 3


def _imports() -> dict[str, set[str]]:
    trees = {_name(path): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
    return {name: set(_imported(tree, trees.keys())) - {name} for name, tree in trees.items()}


def _imported(tree: ast.AST, modules: Collection[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and (module := node.module or "") in modules:
            named = [f"{module}.{alias.name}" for alias in node.names]
            yield from (each if each in modules else module for each in named)


def _circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
