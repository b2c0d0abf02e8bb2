"""What proves to a server who calls: a token, or what renews one before it returns it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kalends.client.logins.caller_identity import token_in

if TYPE_CHECKING:
    from kalends.client.logins.kept_logins import KeptLogin
    from kalends.client.transports.late_transport import TokenSource


def proof(token: str, token_file: str, login: KeptLogin | None, where: str) -> str | TokenSource:
    """Return `token`, or what is in the file, or what returns the token of a `login`, renewed.

    Raises `InvalidInput` as `token_in`.
    """
    if login is None:
        return token or token_in(token_file, where)
    # Imported here because most users have a token that somebody has given them.
    from kalends.client.logins.openid.logins import fresh_token

    return partial(fresh_token, login)
