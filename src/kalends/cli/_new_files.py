"""Files that a command writes: complete or not at all, and never over another file."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from kalends.core.errors import InvalidInput, KalendsError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO})
_UNFIT = re.compile(r"[^A-Za-z0-9.]+")


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """Open a new text file, hidden until it is complete.

    Raises `InvalidInput` if it exists or cannot be made, and `KalendsError` if there is no room for it;
    nothing is left of it then, nor if the block fails.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists():
            raise FileExistsError
        stream = part.open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise _refused(path, error) from error
    try:
        with stream:
            yield stream
        _give_name(part, path)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise KalendsError(
            f"cannot be written: {error.strerror}", where=str(path), remedy="free some space there"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def check_new(path: Path) -> None:
    """Raise `InvalidInput` if no new file can be made at `path`; leave none there."""
    with new_file(path):
        pass
    path.unlink()


def _give_name(part: Path, path: Path) -> None:
    """Give the file its name by a link, which never replaces another file as a renaming would."""
    try:
        path.hardlink_to(part)
    except FileExistsError as error:
        raise _refused(path, error) from error


def beside(path: Path, name: str) -> Path:
    """Insert a policy's `name` into `path`: ``out.csv`` becomes ``out-easy.csv``."""
    fit = _UNFIT.sub("-", name.replace("*", "-star")).strip("-")
    return path.with_name(f"{path.stem}-{fit}{path.suffix}")


def _refused(path: Path, error: OSError) -> InvalidInput:
    if isinstance(error, FileExistsError):
        return InvalidInput(
            "the file exists already",
            where=str(path),
            remedy="give another name, or remove the file",
        )
    return InvalidInput(
        f"cannot be made: {error.strerror}",
        where=str(path),
        remedy="give a file in an existing directory that you may write to",
    )
