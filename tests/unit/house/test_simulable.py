"""The shells keep to what makes them simulable: tests/shells stands in the place of what they ask.

A name that is imported from `time` or `random` is bound before anybody can take its place; a thread, a
sleep or a clock beside the known ones would run in real time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import kalends

ROOT: Final = Path(kalends.__file__).parent
SHELLS: Final = (
    "broker", "client", "contract", "core", "notices", "resource_servers", "servers", "serving",
    "stores",
)  # fmt: skip
"""Not the commands for people: they serve nobody, and are not simulated."""

MODULES_ONLY: Final = frozenset({"time", "random", "threading", "queue", "fcntl", "secrets"})
"""Only as ``import time``, so that another clock can be put in its place."""

THREADS: Final = frozenset(
    {
        "stores/group_commit.py",
        "client/transports/loop_thread.py",
        "client/functions/job_executor.py",
        "stores/postgres/session.py",
    }
)
"""Who has threads of its own. The first one's are simulated; the next two are the client for programs without
a loop; the last has a timer for commits without an answer, and no database is simulated there."""

REAL_TIME: Final = frozenset({"time.sleep", "datetime.now", "datetime.utcnow", "date.today"})
REAL_CHANCE: Final = frozenset({"random.SystemRandom", "numpy.random.default_rng"})


def shells() -> list[str]:
    found = (path for name in SHELLS for path in (ROOT / name).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def offences(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES_ONLY:
            yield f"{name}:{node.lineno}: from {node.module} import"
        elif isinstance(node, ast.Import) and name not in THREADS:
            if any(alias.name == "threading" for alias in node.names):
                yield f"{name}:{node.lineno}: a thread of its own"
        elif isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            if any(dotted.endswith(real) for real in REAL_TIME | REAL_CHANCE):
                yield f"{name}:{node.lineno}: {dotted}"


@pytest.mark.parametrize("name", shells())
def test_a_shell_takes_clocks_chance_and_threads_only_where_they_can_be_simulated(
    name: str,
) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    assert not list(offences(name, tree))


@pytest.mark.parametrize(
    "source",
    [
        "from time import monotonic",
        "from random import random",
        "import threading",
        "import time\ntime.sleep(1)",
        "import datetime\ndatetime.datetime.now()",
        "import random\nrandom.SystemRandom()",
    ],
)
def test_what_cannot_be_simulated_is_seen(source: str) -> None:
    assert list(offences("broker/new.py", ast.parse(source)))


PLAYERS: Final = sorted(Path(__file__).parents[2].glob("shells/test_*.py"))


@pytest.mark.parametrize("path", PLAYERS, ids=lambda path: path.name)
def test_a_test_of_shells_leaves_its_own_process_as_it_is(path: Path) -> None:
    """All but `running` puts itself in the place of clocks: of those of every later test, too."""
    imported = {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }
    assert {each for each in imported if each.startswith("tests.shells")} <= {
        "tests.shells.running"
    }
