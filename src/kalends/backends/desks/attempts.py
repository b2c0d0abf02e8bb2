"""One attempt of a job, as files in a folder of its user that the nodes see, too.

The process that makes the file ``turn`` decides: the job itself, as its first act when it runs, or the desk,
which then rules the job out for ever. So an attempt runs once at most, however often it was submitted. And if
it is unknown whether an attempt was submitted, the desk can decide that it never runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

TURN, ENDED, NATIVE, OUTPUT = "turn", "ended", "native", "output"
VOID: Final = "void"
WORDS_MAX: Final = 4_096


EndKind = Literal["exit", "killed", "lost", "not-started"]


class Turn(NamedTuple):
    """The decision about an attempt: whether its job has begun, and when.

    `native` is the job's number in the batch system; "" if it is not known.
    """

    begun: bool
    native: str
    at_s: float


class End(NamedTuple):
    """The end of an attempt: a kind of `JobEnding`, its exit status, and a text."""

    kind: EndKind
    status: int
    detail: str


def why_not_writable(folders: str) -> str:
    """Return why attempts cannot be written below `folders`; "" if they can, as a nameless file shows."""
    try:
        os.makedirs(folders, mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folders) as file:
            file.write(b"kalends")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class AttemptFolder:
    """The files of one attempt at `path`. Calls raise `OSError`."""

    path: str

    @property
    def there(self) -> bool:
        return os.path.isdir(self.path)

    def make(self) -> None:
        """Make the folder, private to its user; an existing one stays as it is."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other desks of this host, e.g. one that a killed site has left behind."""
        descriptor = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        """Write a file durably, whole or not at all."""
        made = f"{self.path}/{name}.{os.getpid()}"
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(made, f"{self.path}/{name}")
        self._sync()

    def native(self) -> str:
        """Return its number in the batch system; "" if that is not known."""
        return self._read(NATIVE) or ""

    def turn(self) -> Turn | None:
        """Return the decision about it; None if there is none."""
        said = self._read(TURN)
        if said is None:
            return None
        word, _, native = said.partition(" ")
        at_s = os.stat(f"{self.path}/{TURN}").st_mtime
        return Turn(word == "begun", native, at_s)

    def take_turn(self) -> bool:
        """Decide that it never begins; return whether that holds."""
        self._first(TURN, VOID)
        turn = self.turn()
        return turn is not None and not turn.begun

    def end(self) -> End | None:
        """Return how it ended, if that is known."""
        said = self._read(ENDED)
        if said is None:
            return None
        kind, _, rest = said.partition(" ")
        if kind == "exit" and rest.isdecimal() and len(rest) <= 3:
            return End("exit", min(int(rest), 255), "")
        if kind == "not-started":
            return End("not-started", 0, rest)
        if kind == "lost":
            return End("lost", 0, rest)
        return End("lost", 0, "its record of its end cannot be read")

    def close(self, kind: EndKind, detail: str) -> None:
        """Record how it ended, unless that is known."""
        self._first(ENDED, f"{kind} {' '.join(detail.split())}")

    def old(self, keep_s: float) -> bool:
        """Return whether it ended at least this long ago."""
        over = self.end() is not None or ((turn := self.turn()) is not None and not turn.begun)
        return over and time.time() - os.stat(self.path).st_mtime > keep_s

    def remove(self) -> None:
        """A job that starts later finds no folder, and ends."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _first(self, name: str, text: str) -> None:
        """Make a file with this text, unless it exists; if several processes try, exactly one succeeds."""
        made = f"{self.path}/{name}.{os.getpid()}"
        self.write(os.path.basename(made), text)
        with contextlib.suppress(FileExistsError):
            os.link(made, f"{self.path}/{name}")
        os.unlink(made)
        self._sync()

    def _read(self, name: str) -> str | None:
        try:
            with open(f"{self.path}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read(WORDS_MAX).strip()
        except FileNotFoundError:
            return None

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
