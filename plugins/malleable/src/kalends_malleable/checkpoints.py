"""A program's arrays and state in a file, from which it continues at any size.

The file is an uncompressed `.npz` archive (`numpy.load` reads it): one member for each whole array, and
one with stage, SOP and state. It is written next to the old file, synced, and renamed over it; a process
killed in between leaves the old file unchanged.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from kalends.core.errors import InvalidInput, StoreDamaged
from kalends_malleable.program import Program
from kalends_malleable.rank import Values

VERSION: Final = 1
ABOUT: Final = "kalends-about"
ABOUT_BYTES_MAX: Final = 1_000_000


UNREADABLE: Final = (
    zipfile.BadZipFile, zlib.error, struct.error, KeyError, ValueError, EOFError, RuntimeError, MemoryError,
    msgspec.MsgspecError,
)  # fmt: skip
"""Errors from reading a damaged archive; `RuntimeError` if the damage looks like encryption."""


class Position(msgspec.Struct, frozen=True):
    """The progress of a program: its stage, its SOP counted from the start, and its state."""

    stage: int = 0
    sop: int = 0
    state: bytes = b""
    version: int = VERSION


class Checkpoints:
    """The checkpoint file of one run, written every `every_s` seconds and on request."""

    def __init__(self, path: Path, every_s: float | None, clock_s: Callable[[], float]) -> None:
        """`every_s` is None: only before changes of size."""
        self.path, self._every_s, self._clock_s = path, every_s, clock_s
        self._last_s = clock_s()

    def due(self) -> bool:
        return self._every_s is not None and self._clock_s() - self._last_s >= self._every_s

    def save(self, position: Position, arrays: Iterable[tuple[str, Values]]) -> str:
        """Write the file; return why it could not be written, or "". After a failure the old file stays."""
        self._last_s = self._clock_s()
        try:
            write_checkpoint(self.path, position, arrays)
        except OSError as error:
            return f"the checkpoint {self.path} cannot be written: {error.strerror or error}"
        return ""


def write_checkpoint(path: Path, position: Position, arrays: Iterable[tuple[str, Values]]) -> None:
    """Replace the file at `path` by a checkpoint; raises `OSError`, and then the old file is still there."""
    beside = path.with_name(f".{path.name}.new")
    try:
        with open(beside, "wb") as file:
            with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
                archive.writestr(ABOUT, msgspec.msgpack.encode(position))
                for name, values in arrays:
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, values, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class CheckpointFile:
    """A checkpoint to continue from, checked against the program."""

    def __init__(self, path: Path, program: Program) -> None:
        """Raises `InvalidInput` if it cannot be read or belongs to another program, and `StoreDamaged`."""
        self.path = path
        with self._readable() as archive:
            about = archive.getinfo(ABOUT)
            if about.file_size > ABOUT_BYTES_MAX:
                raise ValueError("too long")
            self.position = msgspec.msgpack.decode(archive.read(ABOUT), type=Position)
            names = {name.removesuffix(".npy") for name in archive.namelist()} - {ABOUT}
        fits = self.position.version == VERSION and 0 <= self.position.stage < len(program.stages)
        if not fits or names != set(program.arrays):
            raise self._of_another_program()
        self._arrays = program.arrays

    def read_into(self, arrays: Mapping[str, Values]) -> None:
        """Fill the whole `arrays`; raises `InvalidInput` and `StoreDamaged`."""
        for name, values in arrays.items():
            values[...] = self.read(name)

    def read(self, name: str) -> Values:
        """Return one whole array; raises `InvalidInput` and `StoreDamaged`."""
        array = self._arrays[name]
        with self._readable() as archive, archive.open(f"{name}.npy") as member:
            found: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
            member.read(1)
        if found.shape != array.shape or found.dtype != array.type:
            raise self._of_another_program()
        return found

    @contextlib.contextmanager
    def _readable(self) -> Any:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except OSError as error:
            raise InvalidInput(
                f"the checkpoint cannot be read: {error.strerror}", where=str(self.path)
            ) from None
        except UNREADABLE:
            raise StoreDamaged(
                "this is not a checkpoint, or it is damaged",
                where=str(self.path),
                remedy="start without --restart",
            ) from None

    def _of_another_program(self) -> InvalidInput:
        return InvalidInput(
            "the checkpoint belongs to another program, or to this one with other arrays",
            where=str(self.path),
            remedy="run the program that wrote it, with the same arguments",
        )
