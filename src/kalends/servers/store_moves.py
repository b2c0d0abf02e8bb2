"""Moves of the stores of brokers and sites between files and databases."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kalends.broker.register.sqlite import broker_store
from kalends.resource_servers.journal.sqlite import site_store
from kalends.stores.moves.move import Moved, Tell, move
from kalends.stores.moves.tables import StoreEnd
from kalends.stores.sqlite.file_end import FileEnd, tables_of

if TYPE_CHECKING:
    from kalends.stores.postgres.address import Address

FILES: Final = {each.kind.name: each for each in (broker_store.MOVED, site_store.MOVED)}


def move_store(file: Path, address: Address, *, to_database: bool, tell: Tell) -> Moved:
    """Move the store in `file` to the database at `address`, or (not `to_database`) from there to `file`.

    Raises as `kalends.stores.moves.move.move`, and nothing was moved then, unless its last step was reached.
    """
    # Imported here because of the driver, which other stores do not need.
    from kalends.broker.register.postgres import moved_tables as register
    from kalends.resource_servers.journal.postgres import moved_tables as journal
    from kalends.stores.postgres.database_end import DatabaseEnd

    databases = {each.schema.kind: each for each in (register.MOVED, journal.MOVED)}
    source: StoreEnd
    target: StoreEnd
    with FileEnd.kept(file, FILES) as one, DatabaseEnd.kept(address, databases) as other:
        source, target = (one, other) if to_database else (other, one)
        return move(
            source,
            target,
            lambda kind: other.typed(tables_of(FILES[kind])),
            secrets.token_hex(16),
            tell,
        )
