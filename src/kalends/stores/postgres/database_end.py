"""A database as the source or the target of a move: see `kalends.stores.moves.tables.StoreEnd`.

All of it is one transaction, until a target is placed, or a source closed. A closed store lets no owner
enrol, not even one that has looked before, and comes late.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from psycopg import RawCursor

from kalends.core.errors import Conflict, StoreDamaged
from kalends.stores.moves.tables import DatabaseForm, MovedTable, Row, StoreState
from kalends.stores.postgres import migrations, settings
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import StoreSchema
from kalends.stores.postgres.session import BEGIN, SOUNDING, Statement, WriterSession, asked

ROWS_A_MESSAGE: Final = 500
OPEN_S_MAX: Final = 10.0

_CLOSE: Final = "alter table replica add constraint closed_by_a_move check (false) not valid"
_OPEN: Final = "alter table replica drop constraint closed_by_a_move"

_TYPES: Final[Mapping[int, type]] = {16: bool, 17: bytes, 20: int, 23: int, 25: str, 701: float}
"""By the numbers that PostgreSQL has for types."""


class DatabaseKind(NamedTuple):
    """A kind of stores, and the forms of its tables that are not those of a file.

    Rows are stored in the order of `forms`, and then `after` is carried out. `secret` finds what was drawn
    when the store was made.
    """

    schema: StoreSchema
    secret: str
    forms: Mapping[str, DatabaseForm]
    after: Sequence[str] = ()


class DatabaseEnd:
    """The store at `address`, or the place for one, which is kept from others that would open it."""

    def __init__(
        self, session: WriterSession, address: Address, kinds: Mapping[str, DatabaseKind]
    ) -> None:
        self.shown = address.shown
        self._session = session
        self._address = address
        self._kinds = kinds
        self._forms: Mapping[str, DatabaseForm] = {}
        self._after: Sequence[str] = ()

    @classmethod
    @contextlib.contextmanager
    def kept(cls, address: Address, kinds: Mapping[str, DatabaseKind]) -> Iterator[DatabaseEnd]:
        """Raises `Unavailable` where the database cannot be reached, or others keep the store locked."""
        with migrations.alone(address) as session:
            yield cls(session, address, kinds)

    def state(self) -> StoreState | None:
        if not migrations.is_made(self._session, self._address):
            return None
        kind, owner = self._named()
        if kind not in self._kinds:
            raise StoreDamaged(f"the store of a {kind} cannot be moved", where=self.shown)
        migrations.check_version(self._session, self._address, self._kinds[kind].schema)
        secret = self._session.message([Statement(self._kinds[kind].secret)])[0][0][0]
        return StoreState(kind, owner, str(secret), migrations.closure_of(self._session))

    def check_source(self) -> None:
        # Nobody may enrol from now on; who only reads is not kept waiting.
        self._session.message([Statement("lock table replica in exclusive mode")])
        migrations.check_unused(self._session, self._address)
        kind, owner = self._named()
        migrations.check_store(self._session, self._address, self._use(kind), owner)

    def typed(self, tables: Iterable[MovedTable]) -> Iterator[MovedTable]:
        """Give `tables` with the types that their columns have here."""
        for table in tables:
            cursor = self._session.connection.execute(f"{self._select(table)} limit 0".encode())
            assert cursor.description is not None
            types = tuple(_TYPES[column.type_code] for column in cursor.description)
            yield table._replace(types=types)

    def rows(self, table: MovedTable) -> Iterator[Row]:
        select = f"{self._select(table)} order by {table.order}"
        fetch = Statement(f"fetch {ROWS_A_MESSAGE} from moved")
        with asked(self._address):
            self._session.message([Statement(f"declare moved no scroll cursor for {select}")])
            while rows := self._session.message([fetch])[0]:
                yield from rows
            self._session.message([Statement("close moved")])

    def begin_target(self, source: StoreState, move: str) -> None:
        schema = self._use(source.kind)
        asyncio.run(check_commits(self._address))
        dropped = [f"drop table if exists {name} cascade" for name in schema.tables]
        dropped += [f"drop sequence if exists {name}" for name in schema.sequences]
        self._session.message([Statement(each) for each in dropped])
        migrations.make(self._session, schema, source.owner, move)
        self._session.message([Statement(_CLOSE)])

    def write(self, table: MovedTable, rows: Iterable[Row]) -> None:
        name = table.name
        if table.name in self._forms:
            name = f"moved_{table.name}"
            make = f"create temporary table {name} on commit drop as {self._select(table)} with no data"
            self._session.message([Statement(make)])
        with RawCursor(self._session.connection).copy(
            f"copy {name} ({table.listed}) from stdin".encode()
        ) as copy:
            for row in rows:
                copy.write_row(row)

    def end_target(self) -> None:
        stored = [each for form in self._forms.values() for each in form.store]
        self._session.message([Statement(each) for each in (*stored, *self._after)])

    def place(self) -> None:
        self._session.commit([])
        migrations.begin_alone(self._session)

    def close_source(self, move: str, moved_to: str) -> None:
        mark = Statement("update store set move = $1, moved_to = $2", (move, moved_to))
        # Who is enrolled, and stopped, adds nothing when it goes on.
        self._session.commit([Statement("delete from replica"), Statement(_CLOSE), mark])

    def open_target(self, move: str) -> None:
        mark = "update store set move = '' where move = $1 and moved_to = '' returning 1"
        if not self._session.message([Statement(mark, (move,))])[0]:
            raise Conflict(
                "another move has come in between",
                where=self.shown,
                remedy="run no two moves to one place at a time; run this one again",
            )
        self._session.commit([Statement(_OPEN)])

    def _use(self, kind: str) -> StoreSchema:
        schema, _, self._forms, self._after = self._kinds[kind]
        return schema

    def _select(self, table: MovedTable) -> str:
        form = self._forms.get(table.name)
        inner = form.select if form is not None else f"select * from {table.name}"
        return f"select {table.listed} from ({inner}) as kept"

    def _named(self) -> tuple[str, str]:
        """Return the kind and the owner of the store."""
        kind, owner = self._session.message([Statement("select kind, owner from store")])[0][0]
        return str(kind), str(owner)


async def check_commits(address: Address) -> None:
    """Raise `Unavailable` unless a server would serve with the settings of the database, and it commits."""
    session = WriterSession.open(address)
    late = asyncio.get_running_loop().call_later(OPEN_S_MAX, session.cut)
    try:
        settings.check(session, address)
        with asked(address):
            await asyncio.to_thread(session.commit, [BEGIN, SOUNDING])
    finally:
        late.cancel()
        session.close()
