"""Conclusions of a server from a record and its lock, and the two lines that it may write itself."""

from __future__ import annotations

import os
from enum import Enum
from typing import NamedTuple

from kalends.batch.shepherds import facts, linux
from kalends.batch.shepherds.facts import Begun, Ended, Fact, Main, Void
from kalends.batch.shepherds.record import AttemptRecord, create, read, take


class State(Enum):
    """State of an attempt."""

    ABSENT = "absent"
    """No record: it was never asked for."""
    UNDECIDED = "undecided"
    """Nothing has begun, and nobody is at it: it may be made void, or may begin yet."""
    STARTING = "starting"
    """Somebody holds the lock of an empty record: ask again in a moment."""
    RUNNING = "running"
    ENDED = "ended"
    VOID = "void"
    LOST = "lost"
    """It has begun, its shepherd is gone, and nobody has written how it ended."""


class Conclusion(NamedTuple):
    """The state of an attempt, and the facts of its record."""

    state: State
    facts: tuple[Fact, ...] = ()

    @property
    def begun(self) -> Begun | None:
        return next((each for each in self.facts if isinstance(each, Begun)), None)

    @property
    def main(self) -> Main | None:
        return next((each for each in self.facts if isinstance(each, Main)), None)

    @property
    def ended(self) -> Ended | None:
        return next((each for each in self.facts if isinstance(each, Ended)), None)


def look(path: str) -> Conclusion:
    """Return how the attempt with the record at `path` stands; raises `OSError` if that cannot be read."""
    try:
        content = read(path)
        state = _final(content.facts)
        if state is not None:
            return Conclusion(state, content.facts)
        record = take(path)
    except FileNotFoundError:
        return Conclusion(State.ABSENT)
    if record is None:
        return Conclusion(State.RUNNING if content.size else State.STARTING, content.facts)
    try:
        return _unlocked(record)
    finally:
        record.close()


def make_void(path: str, at_s: float) -> Conclusion:
    """Write `Void` unless the attempt has begun, durably, and return how it stands then.

    Raises `OSError` when that cannot be written: nothing is decided then.
    """
    missing = not os.path.exists(path)
    if missing:
        create(path)
    record = take(path)
    if record is None:
        return look(path)
    try:
        if not record.content.size:
            record.append(Void(at_s))
            if missing:
                sync_folder(os.path.dirname(path))
            return Conclusion(State.VOID, (Void(at_s),))
        return _unlocked(record)
    finally:
        record.close()


def close_lost(record: AttemptRecord, at_s: float, strays: int) -> Ended:
    """Write the end of an attempt whose shepherd died, now that nothing of it is left; raises `OSError`."""
    ended = Ended(
        facts.LOST, 0, "its supervisor was killed, and the job with it", at_s, 0.0, 0.0, 0, strays
    )
    record.append(ended)
    return ended


def adopt(begun: Begun) -> int | None:
    """Return a descriptor that becomes readable when the shepherd ends (pidfd_open(2)); None if it has.

    The number may be another's by now: boot id and ticks tell. Raises `OSError` for want of descriptors.
    """
    if begun.boot != linux.boot_id():
        return None
    try:
        descriptor = os.pidfd_open(begun.shepherd)
    except ProcessLookupError:
        return None
    if linux.start_ticks(begun.shepherd) == begun.ticks:
        return descriptor
    os.close(descriptor)
    return None


def sync_folder(path: str) -> None:
    """Make the names in the folder `path` durable; raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlocked(record: AttemptRecord) -> Conclusion:
    """Return how an attempt stands whose lock we have."""
    found = record.content
    state = _final(found.facts)
    if state is None:
        state = State.LOST if found.size else State.UNDECIDED
    return Conclusion(state, found.facts)


def _final(found: tuple[Fact, ...]) -> State | None:
    if found and isinstance(found[0], Void):
        return State.VOID
    return State.ENDED if found and isinstance(found[-1], Ended) else None
