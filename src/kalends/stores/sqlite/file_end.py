"""A SQLite file as the source or the target of a move: see `kalends.stores.moves.tables.StoreEnd`."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from kalends.core.errors import Conflict, StoreDamaged, Unavailable
from kalends.stores.moves.closures import MoveMark
from kalends.stores.moves.tables import FileForm, MovedTable, Row, StoreState
from kalends.stores.sqlite import sqlite_file
from kalends.stores.sqlite.maintenance import kind_of
from kalends.stores.sqlite.sqlite_file import StoreKind, read_meta, write_meta


class FileKind(NamedTuple):
    """A kind of stores, and the forms of its tables that are moved otherwise than they are."""

    kind: StoreKind
    forms: Mapping[str, FileForm]


def tables_of(file_kind: FileKind) -> list[MovedTable]:
    """Return all tables of a kind of stores, without types; a form may change the columns of one."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(file_kind.kind.schema)
        names = connection.execute(
            "select name from sqlite_master where type = 'table' and name not glob 'sqlite_*' order by name"
        ).fetchall()
        return [_table(connection, name, file_kind.forms) for (name,) in names]
    finally:
        connection.close()


def _table(connection: sqlite3.Connection, name: str, forms: Mapping[str, FileForm]) -> MovedTable:
    found = connection.execute(f"select name, pk from pragma_table_info('{name}')").fetchall()
    key = [column for _, column in sorted((place, column) for column, place in found if place)]
    form = forms.get(name)
    columns = form.columns if form is not None else tuple(column for column, _ in found)
    return MovedTable(name, columns, tuple(key))


class FileEnd:
    """The store at `path`, or the place for one, which is kept from others."""

    def __init__(self, path: Path, kinds: Mapping[str, FileKind]) -> None:
        self.path = path.absolute()
        self.shown = str(self.path)
        self._kinds = kinds
        self._forms: Mapping[str, FileForm] = {}
        self._fresh = sqlite_file.fresh_path(self.path)
        self._reading = contextlib.ExitStack()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._is_target = False

    @classmethod
    @contextlib.contextmanager
    def kept(cls, path: Path, kinds: Mapping[str, FileKind]) -> Iterator[FileEnd]:
        """Raises `Conflict` while a server uses the store."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(sqlite_file.kept(path))
            except Conflict as error:
                error.remedy = "stop the server that uses it, then run the move again"
                raise
            end = cls(path, kinds)
            stack.callback(end._close)
            try:
                yield end
            except (OSError, sqlite3.Error) as error:
                raise _failed(end, error) from error

    def state(self) -> StoreState | None:
        if not sqlite_file.exists(self.path):
            return None
        kind = kind_of(self.path, [each.kind for each in self._kinds.values()])
        sqlite_file.check_header(self.path, kind)
        with sqlite_file.reading(self.path) as connection:
            version = int(connection.execute("pragma user_version").fetchone()[0])
            if version != kind.version:
                raise StoreDamaged(
                    f"the tables have version {version}, and this kalends moves version {kind.version}",
                    where=self.shown,
                    remedy="start its server with this kalends once, which brings the tables up to date;"
                    " then stop it, and move the store",
                )
            owner, secret = (str(read_meta(connection, name)) for name in ("owner", "secret"))
            return StoreState(kind.name, owner, secret, sqlite_file.read_closure(connection))

    def check_source(self) -> None:
        kind = kind_of(self.path, [each.kind for each in self._kinds.values()])
        with sqlite_file.reading(self.path) as connection:
            for problem in sqlite_file.whole_check(connection):
                raise StoreDamaged(
                    f"the store is damaged: {problem}",
                    where=self.shown,
                    remedy=f"bring it back from a backup and run: {sqlite_file.RECONCILE} {self.path}",
                )
        sqlite_file.check(self.path, kind)
        self._use(kind.name)
        self._read(self.path)

    def rows(self, table: MovedTable) -> Iterator[Row]:
        assert self._reader is not None
        form = self._forms.get(table.name)
        inner = form.select if form is not None else f"select * from {table.name}"
        columns = ", ".join(
            f"cast({name} as blob)" if kind is bytes else name
            for name, kind in zip(table.columns, table.types, strict=True)
        )
        flags = [index for index, kind in enumerate(table.types) if kind is bool]
        try:
            found = self._reader.execute(f"select {columns} from ({inner}) order by {table.order}")
            for row in found:
                yield _with_flags(row, flags) if flags else row
        except sqlite3.Error as error:
            raise StoreDamaged(
                f"the table {table.name} cannot be read: {error}",
                where=self.shown,
                remedy=f"see kalends admin doctor {quote(self.shown)}, and restore a backup",
            ) from error

    def begin_target(self, source: StoreState, move: str) -> None:
        kind = self._use(source.kind)
        self._is_target = True
        self._writer = sqlite_file.make_fresh(self._fresh, kind)
        # Nobody reads it before it is whole, and synced.
        self._writer.execute("pragma journal_mode = off")
        self._writer.execute("pragma synchronous = off")
        self._writer.execute("begin")
        for table in tables_of(self._kinds[source.kind]):
            self._writer.execute(f"delete from {table.name}")
        for name, value in zip(MoveMark._fields, MoveMark(move), strict=True):
            write_meta(self._writer, name, value)

    def write(self, table: MovedTable, rows: Iterable[Row]) -> None:
        assert self._writer is not None
        form = self._forms.get(table.name)
        insert = form.insert if form is not None and form.insert else self._insert(table)
        self._writer.executemany(insert, rows)

    def end_target(self) -> None:
        assert self._writer is not None
        self._writer.execute("commit")
        self._writer.execute("pragma journal_mode = wal").fetchall()
        self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()
        self._writer.close()
        self._writer = None
        descriptor = os.open(self._fresh, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._read(self._fresh)

    def place(self) -> None:
        self._stop_reading()
        if self.path.exists():
            # A log next to it would be taken for that of the new file.
            with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as old:
                old.execute("pragma journal_mode = delete").fetchall()
        self._fresh.replace(self.path)
        sqlite_file.sync_directory(self.path)

    def close_source(self, move: str, moved_to: str) -> None:
        self._stop_reading()
        with self._changing() as connection:
            for name, value in zip(MoveMark._fields, (move, moved_to), strict=True):
                write_meta(connection, name, value)

    def open_target(self, move: str) -> None:
        with sqlite_file.reading(self.path) as connection:
            epoch = int(read_meta(connection, "epoch"))
        # With another number it would be taken for an old copy of itself.
        sqlite_file.write_side_file(self.path, epoch)
        with self._changing() as connection:
            connection.execute("delete from meta where name in (?, ?)", MoveMark._fields)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One durable transaction, in the file itself."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("pragma synchronous = full")
            connection.execute("begin immediate")
            yield connection
            connection.execute("commit")
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    def _use(self, kind: str) -> StoreKind:
        found, self._forms = self._kinds[kind]
        return found

    def _insert(self, table: MovedTable) -> str:
        assert self._writer is not None
        asked = f"select name, lower(type) from pragma_table_info('{table.name}')"
        declared = dict(self._writer.execute(asked).fetchall())
        marks = ", ".join(
            "cast(? as text)" if kind is bytes and declared[name] == "text" else "?"
            for name, kind in zip(table.columns, table.types, strict=True)
        )
        return f"insert into {table.name} ({table.listed}) values ({marks})"

    def _read(self, path: Path) -> None:
        self._reader = self._reading.enter_context(sqlite_file.reading(path))

    def _stop_reading(self) -> None:
        self._reading.close()
        self._reader = None

    def _close(self) -> None:
        self._stop_reading()
        if self._writer is not None:
            self._writer.close()
        if self._is_target:
            self._fresh.unlink(missing_ok=True)


def _with_flags(row: Row, flags: Iterable[int]) -> Row:
    values = list(row)
    for index in flags:
        if values[index] is not None:
            values[index] = bool(values[index])
    return tuple(values)


def _failed(end: FileEnd, error: Exception) -> Unavailable:
    return Unavailable(
        f"the store cannot be read or written: {error}",
        where=end.shown,
        remedy="see that its directory may be written to and has room; the move can be run again",
    )
