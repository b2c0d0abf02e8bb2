"""Plug-ins for other programs are built on what is public: nothing of ours that begins with an underscore."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PLUG_INS = Path(__file__).parents[3] / "plugins"


def imported(path: Path) -> Iterator[str]:
    """Yield the full names that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_plug_ins_import_nothing_private_and_nothing_of_the_command_line() -> None:
    ours = {
        name
        for path in PLUG_INS.rglob("*.py")
        for name in imported(path)
        if name.startswith("kalends.")
    }
    assert "kalends.client.client.Client" in ours
    assert [each for each in sorted(ours) if "._" in each or each.startswith("kalends.cli.")] == []
