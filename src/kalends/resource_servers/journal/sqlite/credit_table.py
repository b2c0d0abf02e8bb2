"""Entries of the ledger of credits, by their keys, in the site's own store.

Each has a row in the journal, too, so that the site's position counts it: a copy of the store that lacks a
grant is found out as one that lacks a promise.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from kalends.resource_servers.participation.credits.entries import CreditEntry, decode_entry
from kalends.resource_servers.participation.effects import EntriesFolded, EntryStored
from kalends.stores.store_part import StorePart

CREDIT: Final = "credit"
"""The event of a journal row that stands for an entry."""


def _store(connection: sqlite3.Connection, fact: EntryStored) -> None:
    connection.execute(
        "insert into credit (key, number, body) values (?, ?, ?) on conflict (key) do nothing",
        (fact.key, fact.number, fact.body),
    )


def _fold(connection: sqlite3.Connection, fact: EntriesFolded) -> None:
    connection.executemany("delete from credit where key = ?", [(key,) for key in fact.keys])
    for each in fact.carried:
        _store(connection, each)


def stored_entries(connection: sqlite3.Connection) -> list[CreditEntry]:
    """Read all in the order in which they were made; one that cannot be read raises `msgspec.DecodeError`."""
    rows = connection.execute("select cast(body as blob) from credit order by number, key")
    return [decode_entry(body) for (body,) in rows]


PART: Final = StorePart[sqlite3.Connection](
    "create table credit (key text primary key, number integer not null, body blob not null)"
    " without rowid;\n",
    {EntryStored: _store, EntriesFolded: _fold},
)
