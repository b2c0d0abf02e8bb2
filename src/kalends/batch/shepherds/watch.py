"""The attempts that a server follows: looks at their records when there may be something new in them.

A hint, the end of a shepherd's process and the passing of time say when to look; only the records say what
is true. An attempt that nobody has begun in time is made void, and what a dead shepherd has left is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kalends.batch.shepherds import conclusion, linux
from kalends.batch.shepherds.conclusion import Conclusion, State
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.facts import Begun, Fact
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.hints import HINT_BYTES_MAX, Hint, decode_hint
from kalends.batch.shepherds.orphans import end_orphans
from kalends.batch.shepherds.record import take

BEGIN_S_MAX: Final = 2.0
"""So long after its fork a shepherd is left in peace to begin; after that the attempt is made void."""

POLL_S: Final = 0.25
"""How often those are looked at of whose shepherd's end nothing would tell us."""

CHECK_S: Final = 2.0
"""How often all others are, in case a hint was lost."""

HINTS_AT_ONCE: Final = 64


class Wanted(NamedTuple):
    """A running program would like to go on with `ranks`; a hint that may be lost or repeated."""

    ranks: int


Heard = Callable[[str, Fact | Wanted], None]
"""Called with the name of an attempt and each fact of its record: in order, and once in the life of a server.
What was heard in an earlier life is heard again after an adoption."""

Failed = Callable[[str, OSError], None]
"""Called with the name of an attempt whose record takes no line, once until it takes one."""


@dataclass(slots=True)
class _Watched:
    heard: int = 0
    """Facts that the caller has been told."""
    size: int = -1
    forked_s: float | None = None
    """Since when nothing but its shepherd's own beginning is waited for."""
    shepherd: int = -1
    """A descriptor that becomes readable when it ends."""
    busy: bool = False
    """It is being made void, or what is left of it is being ended."""
    failed: bool = False
    """That could not be written the last time."""


class AttemptWatch:
    """Attempts by name, from when they were asked for until they are over."""

    def __init__(self, folders: Folders, groups: str, heard: Heard, failed: Failed) -> None:
        self._folders = folders
        self._groups = groups
        self._heard = heard
        self._failed = failed
        self._watched: dict[str, _Watched] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hints: socket.socket | None = None

    def start(self) -> None:
        """Listen for hints, and begin to look; raises `OSError`."""
        self._hints = _hint_socket(self._folders.hints)
        asyncio.get_running_loop().add_reader(self._hints.fileno(), self._hear_hints)
        self._spawn(self._poll())

    async def close(self) -> None:
        """Stop looking; writes under way are finished."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for name in list(self._watched):
            self.forget(name)
        if self._hints is not None:
            asyncio.get_running_loop().remove_reader(self._hints.fileno())
            self._hints.close()
            self._hints = None

    def add(self, name: str) -> None:
        """Watch an attempt that is about to be asked for."""
        self._watched.setdefault(name, _Watched())

    def adopt(self, name: str, found: Conclusion) -> None:
        """Watch an attempt of an earlier life, perhaps in this process, which stands as was `found`."""
        self.forget(name)
        self._watched[name] = _Watched(forked_s=-BEGIN_S_MAX)
        self.look(name, found)

    def forked(self, name: str) -> None:
        """Give its shepherd `BEGIN_S_MAX` to begin, from now on."""
        watched = self._watched.get(name)
        if watched is not None and watched.forked_s is None:
            watched.forked_s = time.monotonic()

    def zygote_gone(self, waiting: set[str]) -> None:
        """A zygote has died: all but the `waiting` may have been with it, forked or not."""
        for name in self._watched.keys() - waiting:
            self.forked(name)

    def forget(self, name: str) -> None:
        watched = self._watched.pop(name, None)
        if watched is not None:
            _let_go(watched)

    def look(self, name: str, found: Conclusion | None = None) -> None:
        """Tell what is new of an attempt, and do what follows from how it stands."""
        watched = self._watched.get(name)
        if watched is None:
            return
        try:
            found = found or conclusion.look(self._folders.record(name))
        except OSError:
            # A want of descriptors, say. The next poll looks again.
            return
        self._tell(name, watched, found)
        if found.state in (State.ENDED, State.VOID):
            self.forget(name)
        elif found.state is State.RUNNING:
            self._follow(name, watched, found.begun)
        elif found.state is State.LOST:
            self._do(name, watched, self._close_lost)
        elif watched.forked_s is not None and _past(watched.forked_s + BEGIN_S_MAX):
            self._do(name, watched, self.make_void)

    def _tell(self, name: str, watched: _Watched, found: Conclusion) -> None:
        if found.state is State.RUNNING and len(found.facts) == 1:
            # It is being made durable. What follows it tells that it is.
            return
        if found.state is State.VOID:
            # It may stand in the place of a record that told more, and was removed.
            watched.heard = 0
        new = found.facts[watched.heard :]
        watched.heard += len(new)
        for fact in new:
            self._heard(name, fact)

    def _follow(self, name: str, watched: _Watched, begun: Begun | None) -> None:
        """Notice the shepherd's end by its descriptor; without a free descriptor, by the poll."""
        if watched.shepherd >= 0 or begun is None:
            return
        with contextlib.suppress(OSError):
            descriptor = conclusion.adopt(begun)
            if descriptor is not None:
                watched.shepherd = descriptor
                asyncio.get_running_loop().add_reader(descriptor, self._shepherd_gone, name)

    def _shepherd_gone(self, name: str) -> None:
        _let_go(self._watched[name])
        self.look(name)

    def _do(self, name: str, watched: _Watched, what: Callable[[str], object]) -> None:
        """Do `what` in a thread, unless something is being done already; then look again.

        When the disk is full, that is told, and the poll finds that it is still to be done.
        """
        if watched.busy:
            return
        watched.busy = True

        async def do() -> None:
            try:
                await asyncio.to_thread(what, name)
                watched.failed = False
            except OSError as error:
                if not watched.failed:
                    self._failed(name, error)
                watched.failed = True
            finally:
                watched.busy = False
            self.look(name)

        self._spawn(do())

    def make_void(self, name: str) -> Conclusion:
        """Make an attempt void unless it has begun, and return how it stands then; raises `OSError`.

        A shepherd that died before may have forked what waited for leave: nothing is left of that either.
        Nor of one that had begun, if somebody has removed its record.
        """
        path = self._folders.record(name)
        missing = not os.path.exists(path)
        found = conclusion.make_void(path, time.time())
        if found.state is State.VOID:
            group = ControlGroup(self._groups, name)
            if missing:
                end_orphans(self._folders.own(name), None, group)
            else:
                group.end()
        return found

    def _close_lost(self, name: str) -> None:
        """End what a dead shepherd has left, and then write that the attempt was lost."""
        record = take(self._folders.record(name))
        if record is None:
            return
        try:
            found = Conclusion(State.LOST, record.content.facts)
            if found.ended is None:
                strays = self._end_remains(name, found)
                conclusion.close_lost(record, time.time(), strays)
        finally:
            record.close()

    def _end_remains(self, name: str, found: Conclusion) -> int:
        """End the processes left of an attempt, unless its host has restarted; return their number."""
        begun = found.begun
        if begun is not None and begun.boot != linux.boot_id():
            return 0
        # Without the boot a number of a process says nothing: another may have it by now.
        main = found.main if begun is not None else None
        return end_orphans(self._folders.own(name), main, ControlGroup(self._groups, name))

    async def _poll(self) -> None:
        """Look at whatever may have changed without a hint."""
        checked_s = time.monotonic()
        while True:
            await asyncio.sleep(POLL_S)
            check = _past(checked_s + CHECK_S)
            if check:
                checked_s = time.monotonic()
            for name, watched in list(self._watched.items()):
                if watched.shepherd < 0 or (check and self._grown(name, watched)):
                    self.look(name)

    def _grown(self, name: str, watched: _Watched) -> bool:
        before = watched.size
        with contextlib.suppress(OSError):
            watched.size = os.stat(self._folders.record(name)).st_size
        return watched.size != before

    def _hear_hints(self) -> None:
        """Look at the records that hints name. Nothing else in the records is trusted."""
        assert self._hints is not None
        for _ in range(HINTS_AT_ONCE):
            try:
                hint = decode_hint(self._hints.recv(HINT_BYTES_MAX))
            except OSError:
                return
            except ValueError:
                continue
            self._take_hint(hint)

    def _take_hint(self, hint: Hint) -> None:
        if hint.name not in self._watched:
            return
        if hint.ranks:
            self._heard(hint.name, Wanted(hint.ranks))
        else:
            self.look(hint.name)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _let_go(watched: _Watched) -> None:
    if watched.shepherd >= 0:
        asyncio.get_running_loop().remove_reader(watched.shepherd)
        os.close(watched.shepherd)
        watched.shepherd = -1


def _past(monotonic_s: float) -> bool:
    return time.monotonic() >= monotonic_s


def _hint_socket(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    hints = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        hints.bind(path)
    except OSError:
        hints.close()
        raise
    hints.setblocking(False)
    return hints
