"""The file of tokens and keys that an owner has revoked, which is read again whenever it changes.

Servers on PostgreSQL have them in their databases instead: see `stored_revocations`.

Each line has the kind and the id: ``token 3f2a9c...`` by the claim ``jti``, or ``key kPrK_qmx...`` by the id
of the key. After a ``#`` follows a comment. `kalends admin revoke` or any editor adds lines. If the file is
lost, or a line cannot be read, all revocations stay, the other lines apply, and there is an alarm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kalends.core.errors import InvalidInput

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
ID_CHARS_MAX: Final = 512

KINDS: Final = ("token", "key")


class Revocation(NamedTuple):
    """One line: the kind and id of a revoked token or key."""

    kind: Literal["token", "key"]
    id: str


class Revocations:
    """The revocations in the file `path`; `trouble` gets errors of reading, and "" when they have ended.

    Raises `InvalidInput` for a file that cannot be read at the start. Without `path` nothing is revoked.
    """

    def __init__(self, path: Path | None, trouble: Callable[[str], None] = lambda _: None) -> None:
        self._path = path
        self._trouble = trouble
        self._revoked: frozenset[Revocation] = frozenset()
        self._seen: tuple[int, ...] = ()
        if path is not None:
            self._seen = _state_of(path)
            self._revoked = frozenset(revocations_in(_content(path), str(path)))

    def __call__(self, token_id: str, key_id: str) -> bool:
        """Return whether the token, or the key that signed it, is revoked."""
        if self._path is None:
            return False
        self._look_again(self._path)
        revoked = self._revoked
        return Revocation("token", token_id) in revoked or Revocation("key", key_id) in revoked

    def _look_again(self, path: Path) -> None:
        try:
            seen = _state_of(path)
            if seen == self._seen:
                return
            self._seen = seen
            found, wrong = _lines_of(_content(path), str(path))
        except InvalidInput as error:
            self._trouble(str(error))
            return
        self._revoked = frozenset(found) | (self._revoked if wrong else frozenset())
        self._trouble(str(wrong[0]) if wrong else "")


def revocations_in(content: bytes, where: str) -> list[Revocation]:
    """Return the lines of a file; raises `InvalidInput` for the first that cannot be read."""
    found, wrong = _lines_of(content, where)
    if wrong:
        raise wrong[0]
    return found


def _lines_of(content: bytes, where: str) -> tuple[list[Revocation], list[InvalidInput]]:
    """Return the lines of a file, and the faults of those that cannot be read."""
    found = []
    wrong = []
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        match line.partition("#")[0].split():
            case []:
                pass
            case ["token" | "key" as kind, id] if len(id) <= ID_CHARS_MAX:
                found.append(Revocation(kind, id))
            case _:
                wrong.append(
                    InvalidInput(
                        f"{line[:80]!a} is not a revocation",
                        where=f"{where}:{number}",
                        remedy="write `token ID` or `key ID`, one a line",
                    )
                )
    return found, wrong


def revoke(path: Path, revoked: Sequence[Revocation], note: str = "") -> None:
    """Add lines to the file `path`, created if necessary; they are on disk when this returns.

    Raises `InvalidInput` for an invalid line, and for a file that cannot be read or written.
    """
    check(revoked)
    note = " ".join(note.split())
    added = "".join(f"{kind} {id}{f'  # {note}' if note else ''}\n" for kind, id in revoked)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        with os.fdopen(descriptor, "r+b") as file:
            content = file.read(FILE_BYTES_MAX)
            revocations_in(content, str(path))
            # A last line without a line end must not swallow the next one.
            whole = not content or content.endswith(b"\n")
            file.write((added if whole else f"\n{added}").encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unreadable(path, error) from error


def check(revoked: Sequence[Revocation]) -> None:
    """Raise `InvalidInput` for an id that no line can hold."""
    lines = "".join(f"{kind} {id}\n" for kind, id in revoked)
    if revocations_in(lines.encode(), "revoke") != list(revoked):
        raise InvalidInput(
            "an id has no spaces, no '#', and at most 512 characters", where="revoke"
        )


def _state_of(path: Path) -> tuple[int, ...]:
    """Return a value that changes whenever the file does."""
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(content) > FILE_BYTES_MAX:
        raise InvalidInput("the revocation list is too long", where=str(path))
    return content


def _unreadable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"cannot read the revocation list: {error.strerror or error}",
        where=str(path),
        remedy="make the file, which may be empty, and let the server read it",
    )
