"""Calling other servers: how we prove who we are, and whom we believe to be who they say."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from kalends.core.errors import InvalidInput
from kalends.serving.callers import USER_HEADER
from kalends.serving.keys import load_private_key
from kalends.serving.tokens import mint

TOKEN_S: Final = 300
"""A token is made for one call, or one proof in a session: its life only has to cover clocks that
differ."""


class Proof(NamedTuple):
    """What proves to one server who we are. `token` makes a fresh one each time, or is "" where access
    is open and `user` is believed.
    """

    user: str
    token: Callable[[], str]

    def headers(self) -> dict[str, str]:
        """For a call, or the opening of a session."""
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {USER_HEADER: self.user}


def broker_proofs(
    key: Path | None, *, user: str, issuer: str, now_s: Callable[[], int]
) -> Callable[[str], Proof]:
    """For each server called, what proves that `user` vouches for others: scope ``broker`` there.

    Without `key`, where access is open, just the name. Raises `InvalidInput` for a key that cannot be
    used.
    """
    if key is None:
        return lambda audience: Proof(user, str)
    private = load_private_key(key)

    def of_server(audience: str) -> Proof:
        return Proof(
            user,
            lambda: mint(
                private,
                user=user,
                groups=(),
                audience=(audience,),
                scopes=("broker",),
                issuer=issuer,
                lifetime_s=TOKEN_S,
                now_s=now_s(),
            ),
        )

    return of_server


def trust_in(authority: Path | None, where: str) -> ssl.SSLContext | bool:
    """The certificates to believe: those that `authority` has signed, or without it the system's.

    Raises `InvalidInput` at `where` for a file that cannot be used.
    """
    if authority is None:
        return True
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"{authority} cannot be used: {error}",
            where=where,
            remedy="name a file with certificates in PEM form",
        ) from error
