"""Scripts that were compiled before: what a checker made of a source for a user, by the engine.

The host only keeps the bytes. Only workers ever read them: reading hostile bytecode is as
good as running it. Users share none of it: nobody runs what a worker in another's hands has made, and nobody
can tell from a quick answer that another has uploaded the same.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import NamedTuple

from kalends.agents.runs import Function


class Compiled(NamedTuple):
    bytecode: bytes
    functions: tuple[Function, ...]


class BytecodeCache:
    """A cache of at most `bytes_max` of bytecode; the least recently used is dropped first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: OrderedDict[tuple[str, str, str], Compiled] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, user: str, source: str, engine: str) -> Compiled | None:
        """Return the bytecode of `source` that was made for `user` by `engine`, if still known."""
        key = _key(user, source, engine)
        compiled = self._entries.get(key)
        if compiled is not None:
            self._entries.move_to_end(key)
        return compiled

    def put(self, user: str, source: str, engine: str, compiled: Compiled) -> None:
        """Remember it, unless it is larger than the whole cache."""
        key = _key(user, source, engine)
        old = self._entries.pop(key, None)
        if old is not None:
            self._bytes -= len(old.bytecode)
        if len(compiled.bytecode) > self._bytes_max:
            return
        self._entries[key] = compiled
        self._bytes += len(compiled.bytecode)
        while self._bytes > self._bytes_max:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= len(oldest.bytecode)


def _key(user: str, source: str, engine: str) -> tuple[str, str, str]:
    return user, hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest(), engine
