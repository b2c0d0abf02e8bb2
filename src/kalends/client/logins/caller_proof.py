"""The caller's proof to a server: a token, or a function that returns it, renewed if need be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kalends.client.logins.caller_identity import token_in

if TYPE_CHECKING:
    from kalends.client.logins.kept_logins import KeptLogin
    from kalends.client.transports.late_transport import TokenSource


def proof(token: str, token_file: str, login: KeptLogin | None, where: str) -> str | TokenSource:
    """Return `token`, the token in the file, or a function that returns the renewed token of a `login`.

    Raises `InvalidInput` as `token_in`.
    """
    if login is None:
        return token or token_in(token_file, where)
    # Imported here because most users have a token that is not renewed.
    from kalends.client.logins.openid.logins import fresh_token

    return partial(fresh_token, login)
