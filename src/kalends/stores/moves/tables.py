"""The tables of a store as they are moved: those of its SQLite file, which a database may keep otherwise.

A table that a database has with the same name and columns is copied as it is. For each other one, the room
that owns it gives a form: statements for its rows in a database and, if they differ there too, in a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from kalends.core.errors import StoreDamaged
from kalends.stores.moves.closures import MoveMark

Row = tuple[object, ...]


class FileForm(NamedTuple):
    """The `select` of rows with these `columns`, and the `insert` of one, if it is not the usual one."""

    columns: tuple[str, ...]
    select: str
    insert: str = ""


class DatabaseForm(NamedTuple):
    """The `select` of rows with the columns of the file, and the statements that store rows.

    These find the rows in a table ``moved_NAME``, with the columns of `select`.
    """

    select: str
    store: Sequence[str]


META: Final = FileForm(
    ("name", "value", "is_number"),
    "select name, cast(value as text) as value, typeof(value) = 'integer' as is_number from meta"
    " where name not in ('copied', 'move', 'moved_to')",
    "insert into meta values (?1, case when ?3 then cast(?2 as integer) else ?2 end)",
)
"""Names and values in the file of any store, without those that are about this file only."""


class MovedTable(NamedTuple):
    """A table with its `columns`, and their `types` in the order of these; rows are in the order of `key`."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    types: tuple[type, ...] = ()

    @property
    def listed(self) -> str:
        """The columns, for a statement."""
        return ", ".join(self.columns)

    @property
    def order(self) -> str:
        return ", ".join(self.key)


class StoreState(NamedTuple):
    """A store as a move finds it; `secret` is drawn when a store is made, and goes wherever it is moved."""

    kind: str
    owner: str
    secret: str
    closure: MoveMark


class StoreEnd(Protocol):
    """A store, or a place for one, that no other process opens meanwhile."""

    @property
    def shown(self) -> str:
        """The address for people, without a password."""

    def state(self) -> StoreState | None:
        """None if there is no store; raises `StoreDamaged` for a store that this version cannot move."""

    def check_source(self) -> None:
        """Raise `Conflict` while a server uses the store, and `StoreDamaged` if it may not be moved."""

    def rows(self, table: MovedTable) -> Iterator[Row]:
        """The rows in order of key, as they are in the store, or as they were written to the target."""

    def begin_target(self, source: StoreState, move: str) -> None:
        """Make an empty store of the same kind and owner, which only `place` makes visible to others."""

    def write(self, table: MovedTable, rows: Iterable[Row]) -> None: ...

    def end_target(self) -> None:
        """Everything is written: `rows` gives it back from now on."""

    def place(self) -> None:
        """Put the target where servers find it: durable, and closed by its move."""

    def close_source(self, move: str, moved_to: str) -> None:
        """Mark the source as moved, durably."""

    def open_target(self, move: str) -> None:
        """Let servers begin on the target of `move`, durably."""


class TableContent(NamedTuple):
    """The number of rows of a table, and the hash of all of them in order."""

    rows: int
    digest: bytes


class Counted:
    """Rows on their way: each is checked, counted and hashed."""

    def __init__(self, table: MovedTable, rows: Iterable[Row]) -> None:
        self._table = table
        self._rows = rows
        self._hash = hashlib.blake2b()
        self._encode = msgspec.msgpack.Encoder().encode
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        types = self._table.types
        for row in self._rows:
            self.count += 1
            for value, kind in zip(row, types, strict=True):
                if value is not None and type(value) is not kind:
                    raise self._refused(row, f"a value is of the type {type(value).__name__}")
                if kind is str and value is not None and _NUL in value:  # type: ignore[operator]  # it is a text
                    raise self._refused(row, "PostgreSQL does not keep the NUL in a text")
            self._hash.update(self._encode(row))
            yield row

    @property
    def content(self) -> TableContent:
        return TableContent(self.count, self._hash.digest())

    def _refused(self, row: Row, what: str) -> StoreDamaged:
        key = dict(zip(self._table.columns, row, strict=True))
        named = ", ".join(f"{name} {str(key[name])[:80]!r}" for name in self._table.key)
        return StoreDamaged(
            f"{what}: row {self.count} of the table {self._table.name} ({named})",
            where="store",
            remedy="nothing was moved; report this fault, or restore a backup",
        )


def content_of(table: MovedTable, rows: Iterable[Row]) -> TableContent:
    """Read `rows` to their end."""
    counted = Counted(table, rows)
    for _ in counted:
        pass
    return counted.content


_NUL: Final = "\0"
