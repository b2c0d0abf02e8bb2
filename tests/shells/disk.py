"""Disks that forget: what was written and not synced may be gone, in part or torn, after a loss of power.

The bytes lie in real files. Of each write that was not synced the disk remembers what was there before,
so that a loss of power can undo it. Which of these writes survive is chance's choice: a beginning of
them, or any; of the last one that survives perhaps only some sectors.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tests.shells.stage import NOBODY

if TYPE_CHECKING:
    from tests.shells.nodes import Node
    from tests.shells.world import World

Kind = Literal["write", "truncate", "sync"]

OK: Final = 0
IO_ERROR: Final = 10
FULL: Final = 13
SYNC_FAILED: Final = IO_ERROR | 4 << 8
CRASH: Final = -1
"""The power goes, before this write or sync."""

SECTOR_BYTES: Final = 512
ANY_ORDER: Final = 0.3
"""So often writes survive in any choice, and not from the first on."""

open_descriptor = os.open
close_descriptor = os.close
"""As they are before `substitutes` takes their place."""


class Write(NamedTuple):
    """`before` is what was there, in a file of `size_before`; `after` is None for a truncation."""

    offset: int
    before: bytes
    size_before: int
    after: bytes | None


class Disk:
    """All files of a world. `fault` may answer any operation with an error, or with `CRASH`."""

    def __init__(self, world: World) -> None:
        self.operations = 0
        self.fault: Callable[[Node, Kind, str], int] | None = None
        self._world = world
        self._unsynced: dict[str, list[Write]] = {}
        self._without_power: set[Node] = set()

    def refuses(self, node: Node | None) -> bool:
        """Nothing reaches the disk from a process that is no more."""
        return node is not None and (node.dead or node in self._without_power)

    def asked(self, node: Node | None, kind: Kind, path: str) -> int:
        """A code of SQLite's: whether `node` may do this now."""
        if self.refuses(node):
            return IO_ERROR
        if node is None:
            return OK
        self.operations += 1
        code = self.fault(node, kind, path) if self.fault is not None else OK
        if code == CRASH:
            self._without_power.add(node)
            self._world.loop.call_soon(self._world.power_fails, node.host, context=NOBODY)
            return IO_ERROR
        return code

    def writing(self, path: str, offset: int, after: bytes | None, size: int = 0) -> None:
        """`after` goes to `offset` of `path`; without it, the file is cut at `offset`."""
        descriptor = open_descriptor(path, os.O_RDONLY)
        try:
            size_before = os.fstat(descriptor).st_size
            length = len(after) if after is not None else size_before - offset
            before = os.pread(descriptor, max(length, 0), offset)
        finally:
            close_descriptor(descriptor)
        self._unsynced.setdefault(path, []).append(Write(offset, before, size_before, after))

    def synced(self, path: str) -> None:
        self._unsynced.pop(path, None)

    def lose_unsynced(self, folder: Path) -> int:
        """The power of the host whose disk is `folder` has gone: so many writes are lost."""
        lost = 0
        for path in sorted(self._unsynced):
            if Path(path).is_relative_to(folder):
                lost += self._lose(path, self._unsynced.pop(path))
        for shared_memory in sorted(folder.glob("*-shm")):
            shared_memory.unlink()
        return lost

    def _lose(self, path: str, writes: list[Write]) -> int:
        chance = self._world.chance
        if not os.path.exists(path):
            return 0
        if chance.random() < ANY_ORDER:
            survive = [chance.random() < 0.5 for _ in writes]
        else:
            count = chance.randrange(len(writes) + 1)
            survive = [number < count for number in range(len(writes))]
        torn_at = max((number for number, kept in enumerate(survive) if kept), default=-1)
        torn = chance.random() < 0.5
        descriptor = open_descriptor(path, os.O_RDWR)
        try:
            for write in reversed(writes):
                os.pwrite(descriptor, write.before, write.offset)
                os.ftruncate(descriptor, write.size_before)
            for number, write in enumerate(writes):
                if survive[number]:
                    sectors = -1
                    if torn and number == torn_at and write.after:
                        sectors = chance.randrange(len(write.after) // SECTOR_BYTES + 1)
                    _write_again(descriptor, write, sectors)
        finally:
            close_descriptor(descriptor)
        return survive.count(False)

    # Images of whole disks

    def image(self, folder: Path, into: Path) -> None:
        """Keep `folder` as it is at this instant, with all its side files."""
        shutil.copytree(folder, into, ignore=shutil.ignore_patterns("*-shm"))

    def put_back(self, folder: Path, image: Path) -> None:
        """`folder` is again what it was when `image` was made; nobody may have files of it open."""
        for path in [path for path in self._unsynced if Path(path).is_relative_to(folder)]:
            del self._unsynced[path]
        shutil.rmtree(folder)
        shutil.copytree(image, folder)


def _write_again(descriptor: int, write: Write, sectors: int) -> None:
    if write.after is None:
        os.ftruncate(descriptor, write.offset)
    elif sectors < 0:
        os.pwrite(descriptor, write.after, write.offset)
    else:
        os.pwrite(descriptor, write.after[: sectors * SECTOR_BYTES], write.offset)
