"""The record of one attempt: a file that tells whether it has begun, and how it ended.

A record is a register that is written once. Its lines are appended by whoever holds its lock (flock(2)):
the attempt's shepherd, or a server that found the lock free. The first line, `Begun` or `Void`, decides.
The lock is never given back while its holder lives, so that the kernel itself says who lives, whatever
has become of process ids. Half a line was never synced, and counts as not written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Final, NamedTuple

from kalends.batch.shepherds.facts import Fact, decode, encode

RECORD_BYTES_MAX: Final = 4 * 1024 * 1024
"""A record that is read: some ten thousand changes of a program's size."""

_OPEN: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Content(NamedTuple):
    """The facts of a record. A whole line that cannot be read tells none, but that it is there."""

    facts: tuple[Fact, ...]
    size: int
    """Bytes of its whole lines."""


EMPTY: Final = Content((), 0)


class AttemptRecord:
    """A record whose lock this process holds until it closes it, or dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.content = _read(descriptor)
        self._size = self.content.size

    def append(self, fact: Fact, *, sync: bool = True) -> None:
        """Append `fact`, durably with `sync`. After an `OSError` nothing of it stands, if the disk obeys.

        Raises `ValueError` for a fact that could not be read again; then nothing is written.
        """
        line = encode(fact)
        os.ftruncate(self._descriptor, self._size)
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
            if sync:
                os.fdatasync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(line)

    @property
    def full(self) -> bool:
        """Whether it holds so much that only an end should be added."""
        return self._size > RECORD_BYTES_MAX // 2

    def close(self) -> None:
        """Give the lock back; a process that ends does so by itself."""
        os.close(self._descriptor)


def create(path: str) -> None:
    """Make an empty record, unless it is there; durable once its folder has been synced."""
    os.close(os.open(path, _OPEN | os.O_CREAT, 0o600))


def take(path: str) -> AttemptRecord | None:
    """Return the record with its lock; None while somebody else has it. Raises `OSError`."""
    descriptor = os.open(path, _OPEN)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return AttemptRecord(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        # Also at a signal: nobody else knows of the descriptor, and its lock would outlive us.
        os.close(descriptor)
        raise


def read(path: str) -> Content:
    """Read a record that somebody else may be writing; raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Content:
    data = os.pread(descriptor, RECORD_BYTES_MAX, 0)
    if not data:
        return EMPTY
    whole = data[: data.rfind(b"\n") + 1]
    facts: list[Fact] = []
    for line in whole.splitlines(keepends=True):
        # Were all behind it not read, nobody would ever hear that the attempt has ended.
        with contextlib.suppress(ValueError):
            facts.append(decode(line))
    return Content(tuple(facts), len(whole))
