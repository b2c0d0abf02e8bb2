"""Stakes to store, and copies of whole directories to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kalends.contract.messages import Part
from kalends.core.identifiers import request_id
from kalends.core.principals import Principal
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.resource_servers.participation.claims.claim_sets import (
    Claim,
    Stake,
    StakeStored,
    stored,
)

PARTS = (Part("sdsc", "http://127.0.0.1:7101"), Part("ctc", "http://127.0.0.1:7102"))


def rid(number: int) -> str:
    return request_id(1_700_000_000_000 + number, number)


def stake(number: int, state: str = "prepared", **changes: object) -> Stake:
    fields: dict[str, object] = {
        "rid": rid(number),
        "att": 1,
        "principal": Principal("anna"),
        "secret": "s" * 22,
        "need": 2,
        "parts": PARTS,
        "coords": ("http://127.0.0.1:7100",),
        "claims": [Claim(number + 1, "sdsc/sp2", number * 60, number * 60 + 60, 1, state)],  # type: ignore[arg-type]  # states as plain texts
        "ends_at": number * 60 + 60,
        **changes,
    }
    return Stake(**fields)  # type: ignore[arg-type]  # the fields are those of a stake


def fact(number: int, state: str = "prepared", event: str = "visit-vote") -> StakeStored:
    return stored(stake(number, state), event)


def store_facts(store: SiteStore, operations: Sequence[Any], at_ms: int) -> None:
    """Store `operations` in one transaction; when this raises, none of them is stored."""
    connection = store.file.connection
    connection.execute("begin immediate")
    try:
        store.carry_out(connection, operations, at_ms)
        connection.execute("commit")
    except BaseException:
        connection.rollback()
        raise


def contents(directory: Path) -> dict[str, bytes]:
    """Every file in `directory`, by name."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
