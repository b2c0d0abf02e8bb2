"""Lives of the register, its replicas and its sites: how far each is known to have come."""

from __future__ import annotations

import sqlite3

from kalends.contract.messages import Mark
from kalends.stores.sqlite.maintenance import RECOVERING
from kalends.stores.sqlite.sqlite_file import read_meta


def marks(connection: sqlite3.Connection) -> dict[str, Mark]:
    """How far each site was when it was last heard of by any replica."""
    rows = connection.execute("select name, life, position, proof from site")
    return {name: Mark(*mark) for name, *mark in rows}


def position_of(connection: sqlite3.Connection, life: str) -> int | None:
    """How far `life` is known to have come; None where it is not known."""
    found = connection.execute("select position from life where life = ?", (life,)).fetchone()
    return found[0] if found else None


def is_put_back(connection: sqlite3.Connection) -> bool:
    """Whether the register has forgotten something, and is not compared with all its sites yet."""
    return bool(read_meta(connection, RECOVERING))


def beats(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of beats of each owner."""
    return dict(connection.execute("select owner, beats from replica"))


def secret(connection: sqlite3.Connection) -> str:
    """From what everything is derived that proves the register's word to sites; told to nobody."""
    return str(read_meta(connection, "secret"))


def identity(connection: sqlite3.Connection) -> str:
    """Return the register's identity among all registers: drawn at random when its file was made."""
    return str(read_meta(connection, "register"))


def clock_bound(connection: sqlite3.Connection) -> int:
    return int(read_meta(connection, "clock"))
