"""A move of a store from one place to another, while no server uses it.

The target is filled and compared with the source, row by row, before the source is touched. Then the source
is closed and the target opened, each by one durable step: see `closures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kalends.core.errors import Conflict, NotFound, StoreDamaged
from kalends.stores.moves.closures import OPEN, MoveMark, closed
from kalends.stores.moves.tables import (
    Counted,
    MovedTable,
    Row,
    StoreEnd,
    StoreState,
    content_of,
)

TELL_EVERY_ROWS: Final = 10_000

COPYING: Final = "copying"
COMPARING: Final = "comparing"
PLACING: Final = "making the copy durable"
CLOSING: Final = "closing the source"
OPENING: Final = "opening the target"
STEPS: Final = (COPYING, COMPARING, PLACING, CLOSING, OPENING)
"""Until the fourth has succeeded, the store is at its source, and from then on at its target."""

Tell = Callable[[str, str, int], None]
"""Called with the step that is taken now, its table, and the number of rows that are done."""


class Moved(NamedTuple):
    """The store that was moved, and its rows by table; None if an interrupted move was ended."""

    kind: str
    owner: str
    rows: Mapping[str, int] | None


def move(
    source: StoreEnd,
    target: StoreEnd,
    tables_of: Callable[[str], Iterable[MovedTable]],
    name: str,
    tell: Tell,
) -> Moved:
    """Move the store at `source` to `target`; `name` is drawn at random.

    `tables_of` gives the tables of a kind of stores, once the target is begun. Raises `NotFound` if there is
    no store, `Conflict` if a server uses it or there is another one at the target, `StoreDamaged` if it may
    not be moved, and `Unavailable`. Whatever was raised, the move can be run again.
    """
    found, there = source.state(), target.state()
    if found is None:
        raise NotFound(
            "there is no store",
            where=source.shown,
            remedy="name the store as its server's configuration does",
        )
    if (
        found.closure.moved_to
        and there is not None
        and there.closure == MoveMark(found.closure.move)
    ):
        tell(OPENING, "", 0)
        target.open_target(found.closure.move)
        return Moved(found.kind, found.owner, None)
    if found.closure != OPEN:
        raise closed(source.shown, found.closure)
    source.check_source()
    _check_target(target, there, found)
    target.begin_target(found, name)
    rows = _copied(source, target, tables_of(found.kind), tell)
    tell(PLACING, "", 0)
    target.place()
    tell(CLOSING, "", 0)
    source.close_source(name, target.shown)
    tell(OPENING, "", 0)
    target.open_target(name)
    return Moved(found.kind, found.owner, rows)


def _check_target(target: StoreEnd, there: StoreState | None, source: StoreState) -> None:
    """A store is written over only if it is an earlier place of the same one, or an unfinished one."""
    if there is not None and (there._replace(closure=OPEN) != source or there.closure == OPEN):
        raise Conflict(
            f"the target is not empty: it is the store of the {there.kind} {there.owner!r}",
            where=target.shown,
            remedy="name a file that does not exist, or a database, or a schema of one, without tables",
        )


def _copied(
    source: StoreEnd, target: StoreEnd, tables: Iterable[MovedTable], tell: Tell
) -> dict[str, int]:
    """Copy all rows, and compare what the target then has; returns their numbers."""
    contents = {}
    for table in tables:
        counted = Counted(table, source.rows(table))
        target.write(table, _told(COPYING, table, counted, tell))
        contents[table] = counted.content
    target.end_target()
    for table, content in contents.items():
        found = content_of(table, _told(COMPARING, table, target.rows(table), tell))
        if found != content:
            raise StoreDamaged(
                f"the table {table.name} did not arrive as it is: {content.rows} rows became {found.rows},"
                " or others",
                where=source.shown,
                remedy="nothing was moved; report this fault",
            )
    return {table.name: content.rows for table, content in contents.items()}


def _told(step: str, table: MovedTable, rows: Iterable[Row], tell: Tell) -> Iterator[Row]:
    tell(step, table.name, 0)
    for number, row in enumerate(rows, 1):
        if not number % TELL_EVERY_ROWS:
            tell(step, table.name, number)
        yield row
