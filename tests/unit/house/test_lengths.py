"""What fits on a screen can be read: longer modules and functions have a reason, in one list."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import kalends

ROOT: Final = Path(kalends.__file__).parent
MODULE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60

LONG_MODULES: Final = {
    "batch/queue/flow.py": "what follows from each fact of a queue, a method each",
    "calendars/resource.py": "one calendar with all rules of its owner",
    "contract/messages.py": "all messages, and the table of them",
    "broker/coordination/record/decision_record.py": "the record of a request, and all that is done to it",
    "resource_servers/journal/site_store.py": "the statements of one file, beside its schema",
    "resource_servers/participation/claims/claim_table.py": "claims and calendars change together",
    "resource_servers/participation/participant.py": "the parts of a site, and everything that spans them",
    "scheduling/cluster.py": "what runs, what is free and what is reserved change together",
    "scheduling/mapped.py": "a cluster with a topology, and the promise that looks at its nodes",
    "scheduling/scheduler.py": "all events of a queue, and what each may be refused for",
    "stores/sqlite/sqlite_file.py": "opening, upgrading and checking a file",
}
LONG_FUNCTIONS: Final = {
    "agents/language/operators.py:binary_guards": "one case for each operator",
    "broker/coordination/coordinator.py:__init__": "the parts of the machine, and what each is handed",
    "broker/server.py:_handlers": "one row for each call",
    "broker/server.py:build_broker": "what a broker is made of, from top to bottom",
    "resource_servers/participation/participant.py:__init__": "the parts of a site",
    "simulation/checking/checker.py:check": "most of it is what its arguments mean",
    "simulation/experiment.py:simulate": "most of it is what its arguments mean",
}


def test_modules_are_short_or_have_a_reason() -> None:
    long = {_name(path) for path in _modules() if len(_lines(path)) > MODULE_LINES_MAX}
    assert long == LONG_MODULES.keys()


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


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
