"""Transactions of a store that is one SQLite file, which several processes may write in turn.

Another process may be stopped in the middle of its transaction, and then it keeps the lock for writing.
That is no failure of the store: the lock is waited for, however long that takes.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, Generic

from kalends.stores.group_commit import Op, Result, store_failed

REMEDY: Final = (
    "free space on its disk, or repair the disk; the server then continues automatically"
)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection has what is wanted: trying again helps."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


class SqliteTransactions(Generic[Op, Result]):
    """Transactions on a `connection` that has full sync: durable when they are committed.

    `apply` carries out operations inside a transaction, and returns one result for each, or nothing for
    all. When it or the database fails, the transaction is rolled back.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        apply: Callable[[sqlite3.Connection, Sequence[Op]], Sequence[Result]],
    ) -> None:
        self._connection = connection
        self._apply = apply
        self.kept_out = False

    def commit(self, operations: Sequence[Op], closing: Callable[[], bool]) -> Sequence[Result]:
        try:
            self._begin(closing)
            results = self._apply(self._connection, operations)
            self._connection.execute("commit")
        except Exception as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
            raise store_failed(str(error), error, remedy=REMEDY) from error
        return results

    def _begin(self, closing: Callable[[], bool]) -> None:
        """Take the lock for writing; wait for its holder, which may be stopped, until we close."""
        self.kept_out = True
        try:
            while True:
                try:
                    self._connection.execute("begin immediate")
                except sqlite3.OperationalError as error:
                    if not is_busy(error) or closing():
                        raise
                else:
                    return
        finally:
            self.kept_out = False
