"""Calling other servers: how we prove who we are, and whom we believe to be who they say.

A token says by the clock from when to when it holds, and the server that is called compares that with its
own clock. So that no link hangs on two clocks agreeing, a server that refuses us says what its clock
shows (the header ``Date``), and from then on tokens for it are made for that time. Such a token is for
that server alone, and holds for `TOKEN_S` by that server's clock: a thief can use it there and
then, as any other. Who answers in that server's place can have tokens made for a time to come; that is
what TLS is for.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kalends.core.errors import InvalidInput
from kalends.serving.auth.callers import USER_HEADER
from kalends.serving.auth.keys import load_private_key
from kalends.serving.auth.tokens import mint
from kalends.serving.configuration import CallsConfiguration

TOKEN_S: Final = 300
"""A token is made for one call, or one proof in a session: its life only has to cover clocks that
differ."""


def _nothing_learned(date: str) -> None:
    """Ignore the clock, which matters only where tokens are signed."""


class Proof(NamedTuple):
    """Proof of our identity to one server. `token` makes a fresh one each time, or is "" where access is
    open and `user` is believed. `refused` gets the ``Date`` of a refusal, "" for none.
    """

    user: str
    token: Callable[[], str]
    refused: Callable[[str], None] = _nothing_learned

    def headers(self) -> dict[str, str]:
        """Return the headers of a call, or of the opening of a session."""
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {USER_HEADER: self.user}


def server_proofs(
    key: Path | None,
    *,
    user: str,
    issuer: str,
    now_s: Callable[[], int],
    scope: Literal["broker", "near"] = "broker",
) -> Callable[[str], Proof]:
    """Return for each server called the proof that we are `user` with our `scope` there.

    Without `key`, where access is open, just the name. Raises `InvalidInput` for a key that cannot be
    used.
    """
    if key is None:
        return lambda audience: Proof(user, str)
    private = load_private_key(key)

    def of_server(audience: str) -> Proof:
        clock = _ClockOf(now_s)
        return Proof(
            user,
            lambda: mint(
                private,
                user=user,
                groups=(),
                audience=(audience,),
                scopes=(scope,),
                issuer=issuer,
                lifetime_s=TOKEN_S,
                now_s=clock.now_s(),
            ),
            clock.read,
        )

    return of_server


class _ClockOf:
    """The clock of another server as far as it has reported it; otherwise ours."""

    def __init__(self, ours_s: Callable[[], int]) -> None:
        self._ours_s = ours_s
        self._ahead_s = 0

    def now_s(self) -> int:
        return max(self._ours_s() + self._ahead_s, 0)

    def read(self, date: str) -> None:
        """Take note of a ``Date``; one that is none changes nothing."""
        with contextlib.suppress(ValueError, OverflowError):
            self._ahead_s = int(parsedate_to_datetime(date).timestamp()) - self._ours_s()


def trust_in(
    authority: Path | None, where: str, shown: tuple[Path, Path] | None = None
) -> ssl.SSLContext | bool:
    """Return the certificates to believe: those that `authority` has signed, or without it the system's.

    `shown` is our own certificate and its key, for servers that ask for one. Raises `InvalidInput` at `where`
    for a file that cannot be used.
    """
    if authority is None and shown is None:
        return True
    try:
        context = ssl.create_default_context(cafile=authority)
        if shown is not None:
            # A key with a passphrase would stop a server until somebody types it.
            context.load_cert_chain(*shown, password="")
        return context
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"cannot use {authority if shown is None else shown[0]}: {error}",
            where=where,
            remedy="give files with certificates in PEM form, and a key without a passphrase",
        ) from error


def trust_for(
    calls: CallsConfiguration, authority: Path | None, where: str
) -> ssl.SSLContext | bool:
    """Return what a server that calls as in `calls` believes of one with a certificate by `authority`.

    Raises `InvalidInput` as `trust_in`.
    """
    pair = (calls.certificate, calls.key)
    shown = None if pair[0] is None or pair[1] is None else (pair[0], pair[1])
    return trust_in(authority or calls.ca, where, shown)
