"""Deliveries that are neither sent nor given up, stored in one transaction with what they tell of."""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec

from kalends.notices.delivery import (
    DeliveriesDone,
    Delivery,
    StoredDeliveries,
    read_deliveries,
)
from kalends.stores.sqlite.upserts import upsert
from kalends.stores.store_part import StorePart

DELIVERIES: Final = """
create table letter (
    number integer primary key,
    id     text not null unique,
    body   blob not null
);
"""


_KEEP: Final = upsert("letter", ("id",), ("body",))


def store_delivery(connection: sqlite3.Connection, delivery: Delivery) -> None:
    """Store `delivery` within the caller's transaction."""
    connection.execute(_KEEP, (delivery.id, msgspec.msgpack.encode(delivery)))


def remove_deliveries(connection: sqlite3.Connection, done: DeliveriesDone) -> None:
    """Remove deliveries within the caller's transaction."""
    connection.executemany("delete from letter where id = ?", [(each,) for each in done.ids])


PART: Final = StorePart[sqlite3.Connection](
    DELIVERIES, {Delivery: store_delivery, DeliveriesDone: remove_deliveries}
)


def stored_deliveries(connection: sqlite3.Connection) -> StoredDeliveries:
    """Read all of them, in the order in which each was first stored."""
    rows = connection.execute("select id, cast(body as blob) from letter order by number")
    return read_deliveries(rows)
