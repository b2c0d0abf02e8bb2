"""Rights to a store: only its server's Unix user may read it, as it holds programs and environments."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

LOG_ENDS: Final = ("-wal", "-shm")
"""What SQLite appends to the name of a database for its log, and the index of that."""


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read: SQLite gives its log the same rights."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def shut_others_out(path: Path) -> None:
    """Remove all other users' rights to a store and its log, if we may change them."""
    for each in (path, *(path.with_name(path.name + end) for end in LOG_ENDS)):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            rights = stat.S_IMODE(each.stat().st_mode)
            if rights & stat.S_IRWXO:
                each.chmod(rights & ~stat.S_IRWXO)
