"""What stores hold, read from their files by statements of our own: the product is asked nothing."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.shells.connections import real_connect
from tests.shells.facility import Facility
from tests.support.register_rows import Row


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of nobody's to the store at `path`."""
    connection = real_connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()


def store_of(facility: Facility, host: str) -> Path:
    return facility.world.disk_of(host) / f"{host}.sqlite"


def stakes(facility: Facility, site: str) -> dict[str, dict[str, Any]]:
    """The stakes that `site` has stored."""
    query = "select stake.rid, body from stake join journal using (seq)"
    with reading(store_of(facility, site)) as connection:
        return {rid: msgspec.msgpack.decode(body) for rid, body in connection.execute(query)}


def rows(facility: Facility, broker: str) -> dict[str, Row]:
    """The rows of `broker`'s register."""
    query = "select rid, client, key, att, state, owner, done, body from request"
    with reading(store_of(facility, broker)) as connection:
        return {rid: row_of(*columns) for rid, *columns in connection.execute(query)}


def step_starts(facility: Facility, broker: str) -> dict[str, tuple[str, ...]]:
    """The machines whose parts start together, by request, as `broker` has decided; none: given up."""
    query = "select rid, site from start where site like '[%'"
    with reading(store_of(facility, broker)) as connection:
        return {
            rid: tuple(part["machine"] for part in json.loads(parts))
            for rid, parts in connection.execute(query)
        }


def row_of(
    client: str, key: str, att: int, state: str, owner: str, done: int, body: bytes | None
) -> Row:
    """A row from its columns; a body that cannot be read counts as empty."""
    try:
        read = msgspec.msgpack.decode(body) if body is not None else {}
    except msgspec.DecodeError:
        read = {}
    return Row(client, key, att, state, owner, bool(done), read if isinstance(read, dict) else {})
