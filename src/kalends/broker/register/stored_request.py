"""A request as a store keeps it: what conditions look at, and its record as it was encoded."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    NO_JOB,
    Record,
    RecordState,
    Unreadable,
    decode_record,
)
from kalends.contract.calls import PlacedEnd
from kalends.core.conversion import UNREADABLE


class StoredRequest(NamedTuple):
    """A row, whose other fields are right if they differ from `body`; a tombstone (see `Ask`) has no body.

    `rid`, `user`, `key` and `reservation` stay what they were when the row was made. `begins` is that of
    the record once it is committed; before, it is 0.
    """

    rid: str
    user: str
    key: str
    reservation: str
    att: int
    state: RecordState
    owner: str
    done: bool
    body: bytes | None
    begins: int = 0


def read_record(
    request: StoredRequest, started: str | None, ended: bytes | None
) -> Record | Unreadable:
    """Return the record as it is now; `started` and `ended` are what is stored of its job."""
    try:
        record = decode_record(request.body)  # type: ignore[arg-type]  # A tombstone cannot be read.
        if started is not None or ended is not None or record.job is not NO_JOB:
            end = msgspec.msgpack.decode(ended, type=PlacedEnd) if ended else None
            record.job = structs.replace(record.job, started=started, ended=end)
    except (*UNREADABLE, TypeError) as error:
        return _unreadable(request, f"its record cannot be read: {error}")
    if record.rid != request.rid:
        return _unreadable(request, f"its row holds the record of {record.rid}")
    record.att, record.state, record.owner = request.att, request.state, request.owner
    record.done = request.done
    return record


def _unreadable(request: StoredRequest, reason: str) -> Unreadable:
    return Unreadable(*request[:8], reason)
