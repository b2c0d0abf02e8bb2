"""`sqlite3.connect` of the simulated processes: statements of threads take time, and wait in virtual time.

Before each statement of a thread others get their turn, so that other processes come between any two of
them. A busy database is waited for as long as the connection's timeout says. Once a transaction is
committed, those who `watch` are told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

from tests.shells import fibers
from tests.shells.stage import NODE, playing, world

STATEMENT_S: Final = (0.00002, 0.0004)
BUSY_S: Final = 0.02

real_connect = sqlite3.connect


class Connection(sqlite3.Connection):
    """`timeout_s`: as `sqlite3.connect` was told."""

    timeout_s = 5.0
    database = ""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:  # type: ignore[override]
        cursor: sqlite3.Cursor = self._in_turn(super().execute, sql, *parameters)
        if sql == "commit":
            world().committed(self, self.database)
        return cursor

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
        cursor: sqlite3.Cursor = self._in_turn(super().executemany, *arguments)
        return cursor

    def executescript(self, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
        cursor: sqlite3.Cursor = self._in_turn(super().executescript, *arguments)
        return cursor

    def _in_turn(self, call: Callable[..., Any], *arguments: Any) -> Any:
        if not fibers.on_fiber():
            return call(*arguments)
        loop = world().loop
        fibers.sleep(world().chance.uniform(*STATEMENT_S))
        until_s = loop.now_s + self.timeout_s
        while True:
            try:
                return call(*arguments)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or loop.now_s > until_s:
                    raise
            fibers.sleep(BUSY_S)


def connect(database: Any, timeout: float = 5.0, **more: Any) -> sqlite3.Connection:
    """As `sqlite3.connect`; a connection dies with its process."""
    node = NODE.get()
    if not playing() or node is None:
        return real_connect(database, timeout=timeout, **more)
    made = real_connect(database, timeout=0, factory=Connection, **more)
    assert isinstance(made, Connection)
    made.timeout_s = timeout
    made.database = str(database)
    node.connections.append(made)
    return made
