"""Files that hold a secret: checks of owner and rights, reading and writing."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from shlex import quote
from typing import Final

from kalends.core.errors import Conflict, InvalidInput

PRIVATE: Final = 0o600

_BEYOND_OWNER: Final = stat.S_IWGRP | stat.S_IRWXO
"""Forbidden rights of a secret file: its group may only read it, and others may do nothing."""


def check_private(path: Path, where: str = "") -> None:
    """Raise `InvalidInput` (at `where`, or the path) for a file that others can read or have made.

    The file must exist, and belong to this process's user or to root.
    """
    named = str(path) if where else "it"
    try:
        found = path.stat()
    except OSError as error:
        raise InvalidInput(
            f"cannot read {named}: {error.strerror}",
            where=where or str(path),
            remedy="correct the path, or let the server's user read the file",
        ) from error
    if found.st_uid not in (0, os.geteuid()):
        raise InvalidInput(
            f"{named} belongs to another user (number {found.st_uid}), who can change it",
            where=where or str(path),
            remedy=f"give it to the user that runs this, or to root: chown $USER {quote(str(path))}",
        )
    if found.st_mode & _BEYOND_OWNER:
        whose = "every user of this machine" if found.st_mode & stat.S_IRWXO else "its group"
        can = "read" if found.st_mode & stat.S_IROTH else "change"
        raise InvalidInput(
            f"{whose} can {can} {named}",
            where=where or str(path),
            remedy=f"chmod 600 {quote(str(path))}, and make a new secret if others may have read it",
        )


def write_new(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Write `path` with the rights `mode`, whatever the umask takes away.

    Raises `Conflict` if the file exists, `InvalidInput` if it cannot be made; then nothing is left.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as error:
        raise Conflict(
            "the file exists, and is never overwritten",
            where=str(path),
            remedy="choose another name, or move the old one away",
        ) from error
    except OSError as error:
        raise InvalidInput(f"cannot create the file: {error.strerror}", where=str(path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def replace(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Replace `path` by a file with `content`, at once: a reader sees the old file or the new one.

    Raises `InvalidInput` if that fails; then the old file is unchanged.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    write_new(new, content, mode)
    try:
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise InvalidInput(
            f"the file cannot be written: {error.strerror}", where=str(path)
        ) from error


SECRET_BYTES_MAX: Final = 4_096


def read_secret(path: Path, where: str) -> str:
    """Return the text in `path`; raises `InvalidInput` if it cannot be read, or others can read it."""
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot read {path}: {getattr(error, 'strerror', '') or 'it is not text'}",
            where=where,
            remedy="name a file that this server may read",
        ) from error
    check_private(path, where)
    if len(content) > SECRET_BYTES_MAX:
        raise InvalidInput(f"{path} is too long for a secret", where=where)
    return text.strip()
