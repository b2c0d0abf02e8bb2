"""As whom somebody calls: the token in a file, or the login name where servers ask for no token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kalends.core.errors import InvalidInput
from kalends.rim.private_files import check_private

if TYPE_CHECKING:
    from kalends.client.kept_logins import KeptLogin


def token_in(path: str, where: str) -> str:
    """Return the token in a file; "" without a path.

    Raises `InvalidInput`, in which `where` says what named the file; also where others can read it.
    """
    if not path:
        return ""
    try:
        token = Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {getattr(error, 'strerror', '') or 'it is not a token'}",
            where=where,
            remedy="name the file that holds your token, and nothing else",
        ) from error
    check_private(Path(path), where)
    return token


def proof(
    token: str, token_file: str, login: KeptLogin | None, where: str
) -> str | Callable[[], Awaitable[str]]:
    """Return what proves who calls: `token`, what is in the file, or what returns it, renewed, of a `login`.

    Raises `InvalidInput` as `token_in`.
    """
    if login is None:
        return token or token_in(token_file, where)
    # Imported here because most users have a token that somebody has given them.
    from kalends.client.openid.logins import fresh_token

    return partial(fresh_token, login)


def login_name() -> str:
    """Return the login name, or an empty text where the system knows none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
