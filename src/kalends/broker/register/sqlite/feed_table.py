"""Calendar feeds in a broker's register: found by the hash of the secret in their address."""

from __future__ import annotations

import sqlite3
from typing import Final

from kalends.broker.register.writes import Feed

FEEDS: Final = """
create table feed (
    client   text not null,
    name     text not null,
    hash     text not null unique,
    added_at integer not null,
    primary key (client, name)
);
"""

_FEEDS: Final = "select client, name, hash, added_at from feed"


def feeds_of(connection: sqlite3.Connection, user: str) -> list[Feed]:
    """Return the feeds of `user`, in order of name."""
    return [
        Feed(*row)
        for row in connection.execute(f"{_FEEDS} where client = ? order by name", (user,))
    ]


def feed_of(connection: sqlite3.Connection, hash: str) -> Feed | None:
    """Return the feed with this hash."""
    row = connection.execute(f"{_FEEDS} where hash = ?", (hash,)).fetchone()
    return Feed(*row) if row is not None else None
