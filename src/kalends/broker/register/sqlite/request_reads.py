"""Reads of the register: one request, a reservation and its changes, a user's requests, or all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.reconciliation.reconciler import ComparedRows
from kalends.broker.register.contract import Row, WholeReservation
from kalends.broker.register.found_rows import (
    UNDECIDED,
    by_owner,
    row_of,
    took_their_place,
    until_enough,
    whole_reservations,
)
from kalends.broker.register.sqlite.request_rows import COLUMNS, OF_RESERVATION

LISTED_PAGE: Final = 200


def reservation(connection: sqlite3.Connection, rid: str) -> WholeReservation | None:
    """All rows of the reservation that `rid` is, or is a change of; most are never changed."""
    rows = _of_reservation(connection, rid)
    if rows and rows[0].reservation != rid:
        rows = _of_reservation(connection, rows[0].reservation)
    return WholeReservation(rows) if rows else None


def by_key(connection: sqlite3.Connection, user: str, key: str) -> WholeReservation | None:
    found = connection.execute(
        "select reservation from request where client = ? and key = ? and body is not null",
        (user, key),
    ).fetchone()
    rows = _of_reservation(connection, found[0]) if found is not None else ()
    return WholeReservation(rows) if rows else None


def _of_reservation(connection: sqlite3.Connection, rid: str) -> tuple[Row, ...]:
    rows = connection.execute(
        f"select {COLUMNS} from request where {OF_RESERVATION} and body is not null order by rid",
        (rid, rid),
    )
    return tuple(map(row_of, rows))


def reservations_of(connection: sqlite3.Connection, rids: Collection[str]) -> dict[str, str]:
    """The reservations of those of `rids` that are changes of one."""
    return dict(
        connection.execute(
            "select rid, reservation from request where reservation != rid and body is not null"
            " and rid in (select value from json_each(?))",
            (json.dumps([*rids]),),
        )
    )


def listed(
    connection: sqlite3.Connection, user: str, before: str, state: str, count_max: int
) -> list[WholeReservation]:
    """The newest reservations in this state. Its record has the state: so all are read, page by page.

    Those that are undecided are found by the index of pending ones; `+rid` stands in no other index.
    """
    found: list[WholeReservation] = []
    before = before or "g"
    size = LISTED_PAGE if state else count_max
    of_state, rid = (
        ("done = 0 and state = 'open' and ", "+rid") if state in UNDECIDED else ("", "rid")
    )
    of_user, values = (" and client = ?", (user,)) if user else ("", ())
    while len(found) < count_max:
        page = _reservations(
            connection,
            f"{of_state}{rid} < ?{of_user} order by {rid} desc",
            (before, *values),
            size,
        )
        found += (each for each in reversed(page) if state in ("", each.current.public_state))
        if len(page) < size:
            break
        before = page[0].id
    return found[:count_max]


def reservations(
    connection: sqlite3.Connection, after: str, count_max: int
) -> list[WholeReservation]:
    """The first reservations after the id `after`, oldest first."""
    return _reservations(connection, "rid > ? order by rid", (after,), count_max)


def _reservations(
    connection: sqlite3.Connection, which: str, values: tuple[object, ...], count_max: int
) -> list[WholeReservation]:
    """The first reservations of `which`, in order of id."""
    rows = connection.execute(
        "with first (id) as materialized (select rid from request"
        f" where rid = reservation and body is not null and {which} limit ?)"
        f" select {COLUMNS} from request where rid in (select id from first)"
        f" union all select {COLUMNS} from request where reservation in (select id from first)"
        " and reservation != rid and body is not null order by rid",
        (*values, count_max),
    )
    return whole_reservations(map(row_of, rows))


def ids(connection: sqlite3.Connection, user: str, part: str, count_max: int) -> list[str]:
    """The newest `count_max` ids of requests and changes of `user` that `is_part` says `part` is of.

    All columns are in one index: a user's hundred thousand requests take a tenth of a second.
    """
    rows = connection.execute(
        "select rid from request where client = ?1 and ?2 in (substr(rid, 1, length(?2)),"
        " substr(rid, -length(?2)), substr(substr(rid, -8), 1, length(?2)))"
        " order by rid desc limit ?3",
        (user, part, count_max),
    )
    return [rid for (rid,) in rows]


def orphans(connection: sqlite3.Connection, alive: Collection[str], count_max: int) -> list[Row]:
    """Unfinished requests whose owner is not among those `alive`, by owner."""
    rows = connection.execute(
        f"select {COLUMNS} from request where done = 0 and body is not null"
        " and owner not in (select value from json_each(?)) order by owner, rid",
        (json.dumps([*alive]),),
    )
    return until_enough(map(row_of, rows), count_max)


def unattended(
    connection: sqlite3.Connection, me: str, attended: Collection[str], count_max: int
) -> list[Row]:
    """Unfinished requests of `me`, who lives, but works on those of `attended` alone."""
    rows = connection.execute(
        f"select {COLUMNS} from request where done = 0 and owner = ? and body is not null"
        " and rid not in (select value from json_each(?)) order by rid",
        (me, json.dumps([*attended])),
    )
    return until_enough(map(row_of, rows), count_max)


def open_requests(connection: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Return the number of unfinished requests of each user, by their owner."""
    return by_owner(
        connection.execute(
            "select owner, client, count(*) from request where done = 0 group by owner, client"
        )
    )


def every(connection: sqlite3.Connection) -> Iterator[Row]:
    """All rows but tombstones (see `Ask`), in order of id."""
    rows = connection.execute(f"select {COLUMNS} from request where body is not null order by rid")
    return map(row_of, rows)


def page(connection: sqlite3.Connection, after: str, count_max: int) -> list[Row]:
    """All records with an id after `after`, in order of id."""
    rows = connection.execute(
        f"select {COLUMNS} from request where rid > ? and body is not null order by rid limit ?",
        (after, count_max),
    )
    return [row_of(columns) for columns in rows]


def compared(
    connection: sqlite3.Connection,
    after: str,
    until: str,
    rids: Sequence[str],
    count_max: int,
) -> ComparedRows:
    """Rows for a comparison, in order of id; see the contract."""
    marks = ", ".join("?" * len(rids))
    rows = connection.execute(
        f"select {COLUMNS} from request where body is not null and (rid in ({marks})"
        " or (rid > ? and rid <= ? and state in ('commit', 'cancelled', 'replaced')))"
        " order by rid limit ?",
        (*rids, after, until or "g", count_max),
    )
    found = [row_of(row) for row in rows]
    return ComparedRows(found, _changes_of(connection, found))


def _changes_of(connection: sqlite3.Connection, found: Sequence[Row]) -> dict[str, Record]:
    replaced = [row.reservation for row in found if row.state == "replaced"]
    rows = connection.execute(
        f"select {COLUMNS} from request where reservation in (select value from json_each(?))"
        " and reservation != rid and state in ('commit', 'cancelled', 'replaced') order by rid",
        (json.dumps(replaced),),
    )
    return took_their_place(found, map(row_of, rows))
