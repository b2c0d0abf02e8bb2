"""Files next to a site's store with the states of its queues, so that a restart is short.

A `follower` writes them. One is used only by the program that has made it, and only with the journal that it
was made of: after an update, or with a store that was brought back, the whole journal is gone through. It
may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sqlite3
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from kalends.batch.journal.job_journal import journal_mark
from kalends.batch.queue.checkpoint import OURS, QueueState, decode_state, encode_state
from kalends.core.errors import InvalidInput


class StoredState(msgspec.Struct, frozen=True, array_like=True):
    made_by: str
    journal: bytes
    """The mark of the journal up to the last fact in it."""
    number: int
    body: bytes


@cache
def made_by() -> str:
    """Return a digest of the code that decides and keeps the state: another program has another digest."""
    root = Path(str(resources.files("kalends")))
    folders = [root.joinpath(*name.split(".")[1:-1]) for name in OURS]
    digest = hashlib.blake2b(platform.python_version().encode(), digest_size=16)
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def state_path(store: Path, machine: str) -> Path:
    return store.with_name(f"{store.stem}.{machine.partition('/')[2]}.state")


def load_state(store: Path, connection: sqlite3.Connection, machine: str) -> QueueState | None:
    """Return the last state of a queue that was kept; None if there is none of use."""
    try:
        kept = msgspec.msgpack.decode(state_path(store, machine).read_bytes(), type=StoredState)
        if kept.made_by != made_by():
            return None
        if kept.journal != journal_mark(connection, machine, kept.number):
            return None
        return decode_state(kept.body)
    except (OSError, msgspec.DecodeError, InvalidInput):
        return None


def save_state(
    store: Path, connection: sqlite3.Connection, machine: str, state: QueueState
) -> None:
    """Keep the state in place of the last. Raises `OSError` and `InvalidInput`: then that is still there."""
    mark = journal_mark(connection, machine, state.number)
    kept = StoredState(made_by(), mark, state.number, encode_state(state))
    path = state_path(store, machine)
    beside = path.with_name(f".{path.name}.new")
    try:
        with open(beside, "wb", opener=_private) as file:
            file.write(msgspec.msgpack.encode(kept))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
