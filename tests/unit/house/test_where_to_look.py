"""ARCHITECTURE and docstrings say where to look: what they name is there."""

from __future__ import annotations

import ast
import pkgutil
import re
from pathlib import Path
from typing import Final

import pytest

HOUSE: Final = Path(__file__).parents[3]
SECTION: Final = (
    (HOUSE / "ARCHITECTURE.md").read_text().partition("### Where to look")[2].partition("\n#")[0]
)
PLACES: Final = re.findall(r"`([\w/]+\.py)(?::(\w+))?`", SECTION)
NAMED: Final = sorted(
    {
        name
        for path in (HOUSE / "src").rglob("*.py")
        for name in re.findall(r"`(kalends(?:\.\w+)+)`", path.read_text())
    }
)
"""Full names in docstrings and comments."""


def test_the_section_names_places() -> None:
    assert len(PLACES) > 20


@pytest.mark.parametrize(("path", "name"), PLACES)
def test_a_place_to_look_exists(path: str, name: str) -> None:
    is_test = Path(path).name.startswith("test_")
    file = HOUSE / ("tests" if is_test else "src/kalends") / path
    assert not name or name in _names(ast.parse(file.read_text()))
    assert file.is_file()


@pytest.mark.parametrize("name", NAMED)
def test_a_name_in_a_docstring_is_one(name: str) -> None:
    pkgutil.resolve_name(name)


def _names(tree: ast.AST) -> set[str]:
    functions = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    targets = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    return functions | targets
