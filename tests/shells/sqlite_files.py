"""A file system below the SQLite that the standard library's `sqlite3` uses: every write passes the `Disk`.

It is a VFS (https://www.sqlite.org/vfs.html), registered by ctypes, that hands everything on to the
usual one. Names of files stay pointers: behind their end lie parameters that SQLite looks for.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from ctypes import c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.shells.disk import IO_ERROR, Disk
from tests.shells.nodes import Node
from tests.shells.stage import NODE, playing, world

OPEN = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
DELETE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
RANDOM = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
CLOSE = ctypes.CFUNCTYPE(c_int, c_void_p)
WRITE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
TRUNCATE = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
SYNC = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)


class Vfs(ctypes.Structure):
    """``sqlite3_vfs``, as far as we change it."""

    _fields_ = [
        ("version", c_int),
        ("file_bytes", c_int),
        ("path_bytes_max", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("access", c_void_p),
        ("full_path", c_void_p),
        ("dynamic_loading", c_void_p * 4),
        ("randomness", c_void_p),
        ("rest", c_void_p * 7),
    ]


class FileMethods(ctypes.Structure):
    """``sqlite3_io_methods``, as far as we change it."""

    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("rest", c_void_p * 12),
    ]


class OpenFile(NamedTuple):
    path: str
    node: Node | None


class NotDynamic(Exception):
    """Python's SQLite is part of its binary, where nothing can be put below it."""


def _library() -> ctypes.CDLL:
    sqlite3.connect(":memory:").close()
    for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        if "libsqlite3" in line:
            return ctypes.CDLL(line.split()[-1])
    raise NotDynamic("this Python's sqlite3 is not linked to a libsqlite3")


class ForgetfulFiles:
    """The registered VFS, for the life of this process."""

    def __init__(self) -> None:
        self._library = _library()
        self._open_files: dict[int, OpenFile] = {}
        self._methods: dict[int, FileMethods] = {}
        self._kept: list[Any] = []
        """Functions that C calls, which must not be collected."""
        find = self._library.sqlite3_vfs_find
        find.restype, find.argtypes = ctypes.POINTER(Vfs), [c_char_p]
        usual = find(None).contents
        self._usual_open, self._usual_delete = OPEN(usual.open), DELETE(usual.delete)
        self._vfs = Vfs.from_buffer_copy(usual)
        self._vfs.name = b"forgetful"
        self._vfs.open = self._address_of(OPEN(self._open))
        self._vfs.delete = self._address_of(DELETE(self._delete))
        self._vfs.randomness = self._address_of(RANDOM(self._randomness))
        code = self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)
        assert code == 0, code

    def begin(self) -> None:
        """A world begins: SQLite's own chance begins anew, from the world's."""
        self._library.sqlite3_randomness(0, None)

    def _address_of(self, function: Any) -> Any:
        self._kept.append(function)
        return ctypes.cast(function, c_void_p)

    def _open(self, vfs: int, name: int, file: int, flags: int, out: int) -> int:
        code: int = self._usual_open(vfs, name, file, flags, out)
        methods = ctypes.cast(file, ctypes.POINTER(c_void_p))
        table = methods[0]
        if code == 0 and table and name and playing():
            if table not in self._methods:
                self._methods[table] = self._methods_over(FileMethods.from_address(table))
            methods[0] = ctypes.addressof(self._methods[table])
            path = os.fsdecode(ctypes.string_at(name))
            self._open_files[file] = OpenFile(path, NODE.get())
        return code

    def _delete(self, vfs: int, name: int, sync: int) -> int:
        if playing():
            if world().disk.refuses(NODE.get()):
                return IO_ERROR
            world().disk.synced(os.fsdecode(ctypes.string_at(name)))
        code: int = self._usual_delete(vfs, name, sync)
        return code

    def _randomness(self, vfs: int, count: int, out: int) -> int:
        ctypes.memmove(out, os.urandom(count), count)
        return count

    def _methods_over(self, usual: FileMethods) -> FileMethods:
        """`usual`, with the disk between; there is one table for each kind of file."""
        usual_write, usual_truncate = WRITE(usual.write), TRUNCATE(usual.truncate)
        usual_close = CLOSE(usual.close)

        def write(file: int, data: int, count: int, offset: int) -> int:
            path, node = self._open_files[file]
            disk: Disk = world().disk
            if code := disk.asked(node, "write", path):
                return code
            world().note("writes", node and node.name, os.path.basename(path), offset, count)
            disk.writing(path, offset, ctypes.string_at(data, count))
            done: int = usual_write(file, data, count, offset)
            return done

        def truncate(file: int, size: int) -> int:
            path, node = self._open_files[file]
            disk: Disk = world().disk
            if code := disk.asked(node, "truncate", path):
                return code
            disk.writing(path, size, None)
            done: int = usual_truncate(file, size)
            return done

        def sync(file: int, flags: int) -> int:
            path, node = self._open_files[file]
            disk: Disk = world().disk
            if code := disk.asked(node, "sync", path):
                return code
            world().note("syncs", node and node.name, os.path.basename(path))
            disk.synced(path)
            return 0

        def close(file: int) -> int:
            self._open_files.pop(file, None)
            done: int = usual_close(file)
            return done

        methods = FileMethods.from_buffer_copy(usual)
        methods.write = self._address_of(WRITE(write))
        methods.truncate = self._address_of(TRUNCATE(truncate))
        methods.sync = self._address_of(SYNC(sync))
        methods.close = self._address_of(CLOSE(close))
        return methods


FILES: Final = ForgetfulFiles()
