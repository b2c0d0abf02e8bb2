"""Files of a command: those that it writes, complete or not at all, and standard input in place of one.

Standard input (``-``) is stored while the command runs, because a workload is read more than once: its header
first, then all of it for every policy.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from kalends.core.errors import InvalidInput, KalendsError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO})
_TRIAL = "\0" * 4_096
"""Bytes written as a test, because even a full disk can have a new empty file."""

_UNFIT = re.compile(r"[^A-Za-z0-9.]+")

DASH: Final = Path("-")

BYTES_MAX: Final = 1 << 30
"""Ten million jobs as plain text; many more as gzip."""

_BLOCK_BYTES: Final = 1 << 20

_NAME: Final = "standard-input"

_STANDARD_INPUT: Final = "standard input"


@contextmanager
def new_file(path: Path, *, force: bool | None = None) -> Iterator[TextIO]:
    """Open a new text file, hidden until it is complete; with `force` it may replace an existing file.

    `force` is None for commands that have no such option. A refusal names the option if there is one.

    Raises `InvalidInput` if the file exists or cannot be made, and `KalendsError` if the disk is full. After
    an error, here or in the block, there is no new file, and an existing file is unchanged.
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
    """Yield a name next to `path`, with its suffix, for a file that replaces it when complete."""
    part = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_new(path: Path, *, force: bool | None = None) -> None:
    """Raise `InvalidInput` if no file can be made at `path`, and `KalendsError` if the disk is full.

    Called before a long run, so that its results are not lost. An existing file is left unchanged.
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
    """Raise `OSError` if `path` exists and may not be replaced."""
    if path.exists():
        if not force:
            raise FileExistsError
        if not path.is_file():
            raise OSError(errno.EINVAL, "it exists and is not a regular file")


def _give_name(part: Path, path: Path, force: bool | None) -> None:
    """Name the file by a link because, unlike a rename, that never replaces another file."""
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


@contextmanager
def kept(path: Path) -> Iterator[Path]:
    """Yield `path`, or for ``-`` a temporary file with all of standard input.

    Errors name standard input instead of that file. Raises `InvalidInput` if the input is empty or
    longer than `BYTES_MAX`, and `KalendsError` if the disk is full.
    """
    if path != DASH:
        yield path
        return
    if sys.stdin is None:
        raise InvalidInput("is closed", where=_STANDARD_INPUT, remedy="give a file, or pipe one in")
    # Imported here because few commands read standard input.
    import tempfile

    with _no_room_told():
        directory = tempfile.TemporaryDirectory(prefix="kalends-")
    with directory:
        file = Path(directory.name) / _NAME
        _keep(sys.stdin.buffer, file)
        try:
            yield file
        except KalendsError as error:
            error.where = error.where.replace(str(file), _STANDARD_INPUT)
            raise


def _keep(stream: BinaryIO, file: Path) -> None:
    size = 0
    with _no_room_told(), file.open("xb") as out:
        while block := _read(stream):
            size += len(block)
            if size > BYTES_MAX:
                raise InvalidInput(
                    f"is longer than {BYTES_MAX:,} bytes",
                    where=_STANDARD_INPUT,
                    remedy="give a file, which may have any length, and may be gzip",
                )
            out.write(block)
    if not size:
        raise InvalidInput("is empty", where=_STANDARD_INPUT, remedy="give a file, or pipe one in")


def _read(stream: BinaryIO) -> bytes:
    try:
        return stream.read(_BLOCK_BYTES)
    except OSError as error:
        raise InvalidInput(
            f"cannot be read: {error.strerror}",
            where=_STANDARD_INPUT,
            remedy="give a file, or pipe one in",
        ) from error


@contextmanager
def _no_room_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KalendsError(
            f"cannot be stored: {error.strerror}",
            where=_STANDARD_INPUT,
            remedy="set TMPDIR to a directory with room, or give a file",
        ) from error
