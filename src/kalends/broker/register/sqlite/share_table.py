"""Shares of reservations in a broker's register: found by the reservation, and by the party."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Final

from kalends.broker.register.writes import ShareRow

SHARES: Final = """
create table share (
    reservation text not null,
    party       text not null,
    may         text not null,
    client      text not null,
    at          integer not null,
    until       integer not null,
    primary key (reservation, party)
);
create index share_party on share (party, reservation);
"""

_SHARES: Final = "select reservation, party, may, client, at, until from share"


def shares_of(connection: sqlite3.Connection, reservations: Collection[str]) -> list[ShareRow]:
    rows = connection.execute(
        f"{_SHARES} where reservation in (select value from json_each(?))"
        " order by reservation, party",
        (json.dumps([*reservations]),),
    )
    return [ShareRow(*row) for row in rows]


def shares_with(
    connection: sqlite3.Connection, parties: Collection[str], before: str, count_max: int
) -> list[ShareRow]:
    rows = connection.execute(
        f"{_SHARES} where party in (select value from json_each(?)) and reservation < ?"
        " order by reservation desc, party limit ?",
        (json.dumps([*parties]), before or "g", count_max),
    )
    return [ShareRow(*row) for row in rows]
