"""A workload log as a file, plain or gzip: its header, then blocks of whole lines."""

from __future__ import annotations

import gzip
import stat
import zlib
from codecs import BOM_UTF8
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, Final, cast

from kalends.core.errors import InvalidInput

BLOCK_BYTES: Final = 1 << 16
"""Bytes of about 800 job lines: enough to hide the cost of a block, and small next to Python itself."""

LINE_BYTES_MAX: Final = 1 << 12
"""A job line has about a hundred characters; what is longer than this is no log."""

HEADER_BYTES_MAX: Final = 1 << 20
"""The longest header in the archive has a few kilobytes."""

_GZIP_MAGIC: Final = b"\x1f\x8b"


def read_log_file(path: Path) -> Generator[tuple[int, bytes]]:
    """Yield the header (empty and ``;`` lines), then the rest: ``(number of the first line, lines)``.

    Whether it is gzip, its first bytes tell, not its name. Raises `InvalidInput` for a file that cannot
    be read, ends inside its gzip data, or is not text; blocks before the damage have been handed out.
    """
    lines = 0
    try:
        must_be_regular(path)
        with _opened(path) as stream:
            header, rest = _header(path, stream)
            yield 1, b"".join(header)
            lines = len(header)
            while read := stream.read(BLOCK_BYTES):
                block = rest + read
                end = block.rfind(b"\n") + 1
                whole, rest = block[:end], block[end:]
                if whole:
                    _must_be_text(path, whole, lines)
                    yield lines + 1, whole
                    lines += whole.count(b"\n")
                _must_be_text(path, rest, lines)
            if rest:
                yield lines + 1, rest
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        where = f"{path}, after line {lines}" if lines else str(path)
        raise InvalidInput(
            reason, where=where, remedy="give a whole log, plain or gzip, that can be read"
        ) from error


def must_be_regular(path: Path) -> None:
    """Raise `InvalidInput` for a pipe, a device or a folder, and `OSError` if there is no such file."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise _refused(
            path,
            "is not a regular file",
            "give a log on disk, because it is read repeatedly; commands accept - for a pipe",
        )


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as stream:
        magic = stream.read(len(_GZIP_MAGIC))
    if magic == _GZIP_MAGIC:
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _header(path: Path, stream: BinaryIO) -> tuple[list[bytes], bytes]:
    """Return the header's lines, and the first line after them."""
    header: list[bytes] = []
    size = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        if not header:
            # Some editors begin a file with an invisible mark.
            line = line.removeprefix(BOM_UTF8)
        _must_be_text(path, line, len(header))
        text = line.strip()
        if text and not text.startswith(b";"):
            return header, line
        header.append(line)
        size += len(line)
        if size > HEADER_BYTES_MAX:
            raise _refused(path, "has no job in its first megabyte", "give a workload log")
    return header, b""


def _must_be_text(path: Path, block: bytes, lines_before: int) -> None:
    at = block.find(b"\0")
    if at < 0:
        _, _, last = block.rpartition(b"\n")
        if len(last) <= LINE_BYTES_MAX:
            return
        at = len(block)
    line = lines_before + block.count(b"\n", 0, at) + 1
    raise InvalidInput(
        "is not text" if at < len(block) else f"has more than {LINE_BYTES_MAX} characters",
        where=f"{path}, line {line}",
        remedy="give a workload log in the Standard Workload Format, plain or gzip",
    )


def _refused(path: Path, detail: str, remedy: str) -> InvalidInput:
    return InvalidInput(detail, where=str(path), remedy=remedy)
