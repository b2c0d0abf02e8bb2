"""Standard input instead of a file (``-``), stored while the command runs.

A workload is read more than once: its header first, then all of it for every policy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from kalends.core.errors import InvalidInput, KalendsError

DASH: Final = Path("-")

BYTES_MAX: Final = 1 << 30
"""Ten million jobs as plain text; many more as gzip."""

_BLOCK_BYTES: Final = 1 << 20

_NAME: Final = "standard-input"
_WHERE: Final = "standard input"


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
        raise InvalidInput("is closed", where=_WHERE, remedy="give a file, or pipe one in")
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
            error.where = error.where.replace(str(file), _WHERE)
            raise


def _keep(stream: BinaryIO, file: Path) -> None:
    size = 0
    with _no_room_told(), file.open("xb") as out:
        while block := _read(stream):
            size += len(block)
            if size > BYTES_MAX:
                raise InvalidInput(
                    f"is longer than {BYTES_MAX:,} bytes",
                    where=_WHERE,
                    remedy="give a file, which may have any length, and may be gzip",
                )
            out.write(block)
    if not size:
        raise InvalidInput("is empty", where=_WHERE, remedy="give a file, or pipe one in")


def _read(stream: BinaryIO) -> bytes:
    try:
        return stream.read(_BLOCK_BYTES)
    except OSError as error:
        raise InvalidInput(
            f"cannot be read: {error.strerror}", where=_WHERE, remedy="give a file, or pipe one in"
        ) from error


@contextmanager
def _no_room_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KalendsError(
            f"cannot be stored: {error.strerror}",
            where=_WHERE,
            remedy="set TMPDIR to a directory with room, or give a file",
        ) from error
