"""A function that fits on a screen can be read at once: longer ones have a reason, in one list."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import kalends

ROOT: Final = Path(kalends.__file__).parent
FUNCTION_LINES_MAX: Final = 60

LONG_FUNCTIONS: Final = {
    "agents/language/operators.py:binary_guards": "one case for each operator",
    "broker/coordination/coordinator.py:__init__": "the parts of the machine, and what each is handed",
    "servers/broker.py:_handlers": "one row for each call",
    "servers/broker.py:build_broker": "what a broker is made of, from top to bottom",
    "resource_servers/participation/participant.py:__init__": "the parts of a site",
    "simulation/checking/checker.py:check": "most of it is what its arguments mean",
    "simulation/experiment.py:simulate": "most of it is what its arguments mean",
}


def test_functions_fit_on_a_screen_or_have_a_reason() -> None:
    long = {
        f"{_name(path)}:{node.name}"
        for path in _modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    }
    assert long == LONG_FUNCTIONS.keys()


def _modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
