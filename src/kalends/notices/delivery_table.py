"""Deliveries that are neither sent nor given up, stored in one transaction with what they tell of."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

import msgspec

from kalends.notices.delivery import Delivery

DELIVERIES: Final = """
create table letter (
    number integer primary key,
    id     text not null unique,
    body   blob not null
);
"""


class DeliveriesDone(NamedTuple):
    """To be stored: the deliveries with these ids are sent, or given up."""

    ids: tuple[str, ...]


class StoredDeliveries(NamedTuple):
    deliveries: list[Delivery]
    unreadable: list[str]
    """The ids of those that cannot be read."""


def store_delivery(connection: sqlite3.Connection, delivery: Delivery) -> None:
    """Store `delivery` within the caller's transaction."""
    connection.execute(
        "insert or replace into letter (id, body) values (?, ?)",
        (delivery.id, msgspec.msgpack.encode(delivery)),
    )


def remove_deliveries(connection: sqlite3.Connection, done: DeliveriesDone) -> None:
    """Remove deliveries within the caller's transaction."""
    connection.executemany("delete from letter where id = ?", [(each,) for each in done.ids])


def stored_deliveries(connection: sqlite3.Connection) -> StoredDeliveries:
    """Read all of them, oldest first."""
    rows = connection.execute("select id, cast(body as blob) from letter order by number")
    deliveries, unreadable = [], []
    for name, body in rows:
        try:
            deliveries.append(msgspec.msgpack.decode(body, type=Delivery))
        except msgspec.DecodeError:
            unreadable.append(name)
    return StoredDeliveries(deliveries, unreadable)
