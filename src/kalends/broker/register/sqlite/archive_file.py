"""The archive next to a register's file: one JSON object a line, for each request that has left the register.

A request is written there, and synced, before it leaves: after a crash between the two it is there twice.
What is asked about it later is answered as of a request that never was, and its key may be used again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record


def append(path: Path, records: Sequence[Record]) -> None:
    """Write `records` to the file at `path`, made if necessary; they are on disk when this returns.

    Replicas that share a store share the file. Raises `OSError`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with os.fdopen(os.dup(descriptor), "ab") as file:
            file.writelines(map(_line, records))
            file.flush()
            os.fsync(file.fileno())
    finally:
        os.close(descriptor)


def _line(record: Record) -> bytes:
    """Return `record` as one line of JSON, without the digest of its call."""
    return msgspec.json.encode(structs.replace(record, digest="")) + b"\n"
