"""Secrets that the owner keeps in files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.rim.private_files import check_private

SECRET_BYTES_MAX: Final = 4_096


def read_secret(path: Path, where: str) -> str:
    """Return the text in `path`; raises `InvalidInput` where it cannot be read, or others can read it."""
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot read {path}: {getattr(error, 'strerror', '') or 'it is not text'}",
            where=where,
            remedy="name a file that this server may read",
        ) from error
    check_private(path, where)
    if len(content) > SECRET_BYTES_MAX:
        raise InvalidInput(f"{path} is too long for a secret", where=where)
    return text.strip()
