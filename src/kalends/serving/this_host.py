"""The host on which this process runs."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import Final

from kalends.core.hosts import Host

MACHINE_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
"""See machine-id(5). It is not to be shown to others, so only a digest of it is stored."""

ID_BYTES: Final = 8


def this_host() -> Host:
    """Return this host; where it has no machine id, as in many containers, its name stands for it."""
    name = socket.gethostname()
    told = next(filter(_is_id, map(_read, MACHINE_IDS)), name)
    digest = hashlib.blake2b(told.encode(), digest_size=ID_BYTES, person=b"kalends host")
    return Host(digest.hexdigest(), name)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _is_id(text: str) -> bool:
    """Whether it is the id of a host that has been started once: images have none yet."""
    return text not in ("", "uninitialized")
