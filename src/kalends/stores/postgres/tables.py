"""Rows of a batch, gathered by table: what becomes of each key is written once, with one statement or two.

Nothing is decided on rows. Tables are independent of each other; what was asked of one table holds in the
order of asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kalends.stores.postgres.session import Statement

Key = tuple[object, ...]


class KeyedTable:
    """A table whose rows are stored by their keys; columns are named with their types.

    A row that `appends` is new: one with the same key is a fault. Otherwise it is changed, and stays the
    same row in the order of rows. Rows are deleted by keys of one column.
    """

    def __init__(
        self, name: str, key: Mapping[str, str], others: Mapping[str, str], *, appends: bool = False
    ) -> None:
        columns = {**key, **others}
        arrays = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(columns.values(), start=1))
        names = ", ".join(columns)
        changed = ", ".join(f"{each} = excluded.{each}" for each in others)
        # With their numbers: rows are made in the order in which they were first stored.
        self.insert: Final = (
            f"insert into {name} ({names}) select {names}"
            f" from unnest({arrays}) with ordinality as given ({names}, place) order by place"
            + ("" if appends else f" on conflict ({', '.join(key)}) do update set {changed}")
        )
        column, kind = next(iter(key.items()))
        self.delete: Final = f"delete from {name} where {column} = any($1::{kind}[])"


class _Rows:
    def __init__(self) -> None:
        self.stored: dict[Key, Key] = {}
        self.dropped: dict[object, None] = {}


class TableWrites:
    """The writes of one batch, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._rows: dict[KeyedTable, _Rows] = {}
        self._statements: list[Statement] = []

    def put(self, table: KeyedTable, key: Key, others: Key) -> None:
        """Store a row in place of the one that has its key."""
        self._of(table).stored[key] = others

    def drop(self, table: KeyedTable, key: object) -> None:
        rows = self._of(table)
        rows.stored.pop((key,), None)
        rows.dropped[key] = None

    def then(self, table: KeyedTable, statement: Statement) -> None:
        """Carry out `statement` on what the rows of `table` have become by now."""
        self._write(table, self._rows.pop(table, _Rows()))
        self._statements.append(statement)

    def statements(self) -> Sequence[Statement]:
        """Return all writes; nothing is asked for afterwards."""
        for table, rows in self._rows.items():
            self._write(table, rows)
        return self._statements

    def _of(self, table: KeyedTable) -> _Rows:
        return self._rows.setdefault(table, _Rows())

    def _write(self, table: KeyedTable, rows: _Rows) -> None:
        # A row that was dropped and stored again is another row, behind those that are there.
        if rows.dropped:
            self._statements.append(Statement(table.delete, (list(rows.dropped),)))
        if rows.stored:
            columns = zip(*((*key, *others) for key, others in rows.stored.items()), strict=True)
            self._statements.append(Statement(table.insert, [list(each) for each in columns]))
