"""Files that a command writes: never over another one, and never half of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from kalends.core.errors import InvalidInput, KalendsError

_UNFIT = re.compile(r"[^A-Za-z0-9.]+")


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A new text file. Raises `InvalidInput` if it cannot be made or is there; gone if the block fails."""
    try:
        stream = path.open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise _refused(path, error) from error
    with stream:
        try:
            yield stream
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        try:
            stream.flush()
        except OSError as error:
            path.unlink(missing_ok=True)
            raise KalendsError(
                f"cannot be written: {error.strerror}", where=str(path), remedy="make room there"
            ) from error


def check_new(path: Path) -> None:
    """Raise `InvalidInput` where no new file can be made at `path`; makes none."""
    with new_file(path):
        pass
    path.unlink()


def beside(path: Path, name: str) -> Path:
    """`path` with a policy's `name` put in: ``out.csv`` is ``out-easy.csv``."""
    fit = _UNFIT.sub("-", name.replace("*", "-star")).strip("-")
    return path.with_name(f"{path.stem}-{fit}{path.suffix}")


def _refused(path: Path, error: OSError) -> InvalidInput:
    if isinstance(error, FileExistsError):
        return InvalidInput(
            "is there already", where=str(path), remedy="name another file, or remove that one"
        )
    return InvalidInput(
        f"cannot be made: {error.strerror}",
        where=str(path),
        remedy="name a file in a directory that is there and that you may write to",
    )
