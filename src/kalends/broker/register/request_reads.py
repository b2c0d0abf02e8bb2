"""Reads of the register: one request, a reservation and its changes, a user's requests, or all."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

from kalends.broker.coordination.record.decision_record import (
    Record,
)
from kalends.broker.register.request_rows import (
    BY_KEY,
    COLUMNS,
    OF_RESERVATION,
    Row,
    first_row,
    history,
    of_columns,
    readable,
    row,
)


def read(connection: sqlite3.Connection, rid: str) -> Record | None:
    found = row(connection, rid)
    return readable(found) if found is not None else None


def by_key(connection: sqlite3.Connection, user: str, key: str) -> Record | None:
    found = first_row(connection, BY_KEY, (user, key))
    return readable(found) if found is not None else None


def current(connection: sqlite3.Connection, reservation: str) -> Row | None:
    """The newest record of `reservation` that was ever committed, else its first record."""
    return first_row(
        connection,
        f"where {OF_RESERVATION} order by state in ('commit', 'cancelled') desc, rid = ? desc, rid",
        (reservation, reservation, reservation),
    )


def reservations_of(connection: sqlite3.Connection, rids: Iterable[str]) -> dict[str, str]:
    """The reservations of those of `rids` that are changes of one."""
    query = "select reservation from request where rid = ? and reservation != rid"
    found = ((rid, connection.execute(query, (rid,)).fetchone()) for rid in rids)
    return {rid: str(columns[0]) for rid, columns in found if columns is not None}


def of_user(
    connection: sqlite3.Connection, user: str, before: str, everyone: bool
) -> Iterator[Row]:
    """Records that stand for a reservation, newest first: changes are shown under their first id."""
    cursor = connection.execute(
        f"select {COLUMNS} from request where rid < ? and rid = reservation"
        f"{'' if everyone else ' and client = ?'} order by rid desc",
        (before or "g",) if everyone else (before or "g", user),
    )
    yield from map(of_columns, cursor)


def orphans(connection: sqlite3.Connection, alive: Collection[str], count_max: int) -> list[Row]:
    """Unfinished requests whose owner is not among those `alive`.

    At most `count_max` of those that can be read: the others stand in nobody's way.
    """
    cursor = connection.execute(
        f"select {COLUMNS} from request where done = 0"
        f" and owner not in ({', '.join('?' * len(alive))})",
        tuple(alive),
    )
    found: list[Row] = []
    to_adopt = 0
    for each in map(of_columns, cursor):
        found.append(each)
        to_adopt += isinstance(each, Record)
        if to_adopt == count_max:
            break
    return found


def unattended(
    connection: sqlite3.Connection, me: str, attended: Container[str], count_max: int
) -> list[Row]:
    """Unfinished requests of `me`, who lives, but works on those of `attended` alone."""
    owned = connection.execute("select rid from request where done = 0 and owner = ?", (me,))
    missing = [rid for (rid,) in owned if rid not in attended][:count_max]
    found = (row(connection, rid) for rid in missing)
    return [each for each in found if each is not None]


def every(connection: sqlite3.Connection) -> Iterator[Row]:
    """All rows but tombstones (see `Ask`), in order of id."""
    rows = connection.execute(f"select {COLUMNS} from request where body is not null order by rid")
    return map(of_columns, rows)


def page(connection: sqlite3.Connection, after: str, count_max: int) -> list[Row]:
    """All records with an id after `after`, in order of id."""
    rows = connection.execute(
        f"select {COLUMNS} from request where rid > ? and body is not null order by rid limit ?",
        (after, count_max),
    )
    return [of_columns(columns) for columns in rows]


def reservations(connection: sqlite3.Connection, after: str, count_max: int) -> list[list[Row]]:
    """The first requests after `after`, in order of id, each followed by all its changes."""
    rows = connection.execute(
        f"select {COLUMNS} from request"
        " where rid > ? and body is not null and rid = reservation order by rid limit ?",
        (after, count_max),
    ).fetchall()
    firsts = map(of_columns, rows)
    return [[each, *history(connection, each.rid)[1:]] for each in firsts]


def between(
    connection: sqlite3.Connection,
    after: str,
    until: str,
    rids: Sequence[str],
    count_max: int,
) -> list[Row]:
    """What a comparison needs: the rows of `rids`, and those after `after` and up to `until`
    ("": the last) that were ever committed; in order of id, the first `count_max` of them.
    """
    marks = ", ".join("?" * len(rids))
    rows = connection.execute(
        f"select {COLUMNS} from request where body is not null and (rid in ({marks})"
        " or (rid > ? and rid <= ? and state in ('commit', 'cancelled', 'replaced')))"
        " order by rid limit ?",
        (*rids, after, until or "g", count_max),
    )
    return [of_columns(row) for row in rows]
