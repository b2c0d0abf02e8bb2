"""The processes of the ranks, which their lead forks, reads, commands and ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from kalends_malleable.rank_process import BARRIER, DONE, FAILED, PACKET_BYTES_MAX, SOP, Failure
from kalends_malleable.run import RankFailed

LEAVE_S: Final = 10.0
"""The time in which a rank must leave; its program may clean up in that time."""

Body = Callable[[int, socket.socket], NoReturn]
"""The main function of a forked process, with its number and its end of the connection to the lead."""


class _Process:
    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid, self.link = pid, link
        self.handle = os.pidfd_open(pid)

    def wait(self, seconds: float) -> int | None:
        """Return the wait status if the process ended within `seconds`; it is then reaped."""
        waiter = select.poll()
        waiter.register(self.handle, select.POLLIN)
        if not waiter.poll(1_000 * seconds):
            return None
        _, status = os.waitpid(self.pid, 0)
        self._close()
        return status

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._close()

    def _close(self) -> None:
        os.close(self.handle)
        self.link.close()


class RankSet:
    """Processes numbered from 0. The creator must end the set with `kill`, whatever happens."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._processes: list[_Process] = []
        self._where = ""

    def __len__(self) -> int:
        return len(self._processes)

    def pid(self, rank: int) -> int:
        return self._processes[rank].pid

    def now_in(self, where: str) -> None:
        """Name the stage, for messages."""
        self._where = where

    def grow(self, size: int) -> None:
        """Fork ranks up to `size`, and wait until they have started.

        Raises `OSError`, and then there are as many as before, and `RankFailed`.
        """
        before = len(self)
        try:
            while len(self) < size:
                self._fork()
        except OSError:
            self._kill_down_to(before)
            raise
        self._words(self._processes[before:])

    def shrink(self, size: int, last_word: bytes) -> None:
        """Send `last_word` to the ranks from `size` on, and wait until they have ended."""
        for process in self._processes[size:]:
            with contextlib.suppress(OSError):
                process.link.send(last_word)
        while len(self) > size:
            process = self._processes[-1]
            if process.wait(LEAVE_S) is None:
                process.kill()
            self._processes.pop()

    def tell(self, word: bytes) -> None:
        """Send `word` to all ranks. A dead rank is detected when its answer is awaited."""
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.link.send(word)

    def agreed(self) -> bytes:
        """Wait until all ranks have sent the same message, and return it; raises `RankFailed`."""
        words = self._words(self._processes)
        for rank, word in enumerate(words):
            if word != words[0]:
                raise self._disagreement(rank, words[0], word)
        return words[0]

    def kill(self) -> None:
        """End all remaining processes; none exists any more when this returns."""
        self._kill_down_to(0)

    def _fork(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        rank = len(self)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            try:
                ours.close()
                for other in self._processes:
                    other.link.close()
                    os.close(other.handle)
                self._body(rank, theirs)
            finally:
                os._exit(1)
        theirs.close()
        self._processes.append(_Process(pid, ours))

    def _kill_down_to(self, size: int) -> None:
        while len(self) > size:
            self._processes.pop().kill()

    def _words(self, processes: list[_Process]) -> list[bytes]:
        """Return the next message of each of `processes`, the last ranks of the set or all of them."""
        first = len(self) - len(processes)
        words: dict[int, bytes] = {}
        waiter = select.poll()
        by_file = {process.link.fileno(): number for number, process in enumerate(processes, first)}
        for file in by_file:
            waiter.register(file, select.POLLIN)
        while len(words) < len(processes):
            for file, _ in waiter.poll():
                rank = by_file[file]
                words[rank] = self._word(rank)
                waiter.unregister(file)
        return [words[rank] for rank in sorted(words)]

    def _word(self, rank: int) -> bytes:
        try:
            word = self._processes[rank].link.recv(PACKET_BYTES_MAX)
        except OSError:
            word = b""
        if not word:
            raise self._death(rank)
        if word[:1] == FAILED:
            failure = msgspec.msgpack.decode(word[1:], type=Failure)
            failed = RankFailed(f"{self._named(rank)} has failed: {failure.error}")
            failed.add_note(failure.traceback)
            raise failed
        return word

    def _death(self, rank: int) -> RankFailed:
        named = self._named(rank)
        status = self._processes[rank].wait(LEAVE_S)
        if status is None:
            return RankFailed(f"{named} has closed its connection to its lead")
        del self._processes[rank]
        if os.WIFSIGNALED(status):
            how = f"was ended by {signal.Signals(os.WTERMSIG(status)).name}"
        else:
            how = f"has ended with status {os.waitstatus_to_exitcode(status)}"
        return RankFailed(
            f"{named} {how}; the others have been ended",
            remedy="if it was SIGKILL, the host may have run out of memory",
        )

    def _disagreement(self, rank: int, first: bytes, other: bytes) -> RankFailed:
        if first[:1] == other[:1] != BARRIER:
            what = f"rank 0 and rank {rank} have different state at {_told(first)}"
        else:
            what = f"rank 0 is at {_told(first)} and rank {rank} at {_told(other)}"
        return RankFailed(
            f"{what}{self._where}",
            remedy="have all ranks make the same calls in the same order, with the same state",
        )

    def _named(self, rank: int) -> str:
        return f"rank {rank} of {len(self)}{self._where}"


def _told(word: bytes) -> str:
    if word[:1] == BARRIER:
        return word[1:].decode()
    return {SOP: "sop()", DONE: "the end of the stage"}.get(word[:1], "its beginning")
