"""Files that a command writes: complete or not at all, and over another file only where that is wanted."""

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
_TRIAL = "\0" * 4_096
"""A full disk lets empty files be made: only a block that is written shows it."""

_UNFIT = re.compile(r"[^A-Za-z0-9.]+")


@contextmanager
def new_file(path: Path, *, force: bool | None = None) -> Iterator[TextIO]:
    """Open a new text file, hidden until it is complete; with `force` it then takes the place of another.

    `force` is None for commands that have no such option. A refusal names it where there is one.

    Raises `InvalidInput` if it exists or cannot be made, and `KalendsError` if there is no room for it;
    nothing is left of it then, nor if the block fails, and one that was there is as it was.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        _check_free(path, force)
        stream = part.open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise _refused(path, error, force) from error
    try:
        with stream:
            yield stream
        _give_name(part, path, force)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise KalendsError(
            f"cannot be written: {error.strerror}", where=str(path), remedy="free some space there"
        ) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a name beside `path`, with its suffix, for a file that takes its place when it is complete."""
    part = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_new(path: Path, *, force: bool | None = None) -> None:
    """Raise `InvalidInput` if no file can be made at `path`, and `KalendsError` if there is no room for it.

    Called before a long run, whose results would be lost. What is there is left as it is.
    """
    try:
        _check_free(path, force)
    except OSError as error:
        raise _refused(path, error, force) from error
    trial = path.with_name(f".{path.name}.{os.getpid()}.trial") if path.exists() else path
    with new_file(trial, force=force) as stream:
        stream.write(_TRIAL)
    trial.unlink()


def _check_free(path: Path, force: bool | None) -> None:
    """Raise `OSError` if `path` is there and may not be replaced."""
    if path.exists():
        if not force:
            raise FileExistsError
        if not path.is_file():
            raise OSError(errno.EINVAL, "what is there is no regular file")


def _give_name(part: Path, path: Path, force: bool | None) -> None:
    """Give the file its name by a link, which never replaces another file as a renaming would."""
    if force:
        part.replace(path)
        return
    try:
        path.hardlink_to(part)
    except FileExistsError as error:
        raise _refused(path, error, force) from error


def beside(path: Path, name: str) -> Path:
    """Insert a policy's `name` into `path`: ``out.csv`` becomes ``out-easy.csv``."""
    fit = _UNFIT.sub("-", name.replace("*", "-star")).strip("-")
    return path.with_name(f"{path.stem}-{fit}{path.suffix}")


def _refused(path: Path, error: OSError, force: bool | None) -> InvalidInput:
    if isinstance(error, FileExistsError):
        return InvalidInput(
            "the file exists already",
            where=str(path),
            remedy="give another name, or "
            + ("remove the file" if force is None else "--force to replace it"),
        )
    return InvalidInput(
        f"cannot be made: {error.strerror}",
        where=str(path),
        remedy="give a file in an existing directory that you may write to",
    )
