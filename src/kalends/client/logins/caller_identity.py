"""Identity of a caller: the token in a file, or the login name if a server asks for no token."""

from __future__ import annotations

from pathlib import Path

from kalends.core.errors import InvalidInput
from kalends.rim.private_files import check_private


def token_in(path: str, where: str) -> str:
    """Return the token in a file; "" without a path.

    Raises `InvalidInput`, also if other users can read the file; its `where` is the source of the path.
    """
    if not path:
        return ""
    try:
        token = Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {getattr(error, 'strerror', '') or 'the file is not a token'}",
            where=where,
            remedy="give a file that holds your token and nothing else",
        ) from error
    check_private(Path(path), where)
    return token


def login_name() -> str:
    """Return the login name, or an empty text if the system knows none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
