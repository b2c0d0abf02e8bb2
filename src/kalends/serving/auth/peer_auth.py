"""Proof of identity in calls to other servers, and the certificates that these must show.

A token is valid between two times, which the called server compares with its own clock. Links must not
depend on two clocks agreeing. So a server that refuses a token reports its clock (the header ``Date``), and
further tokens for it are made for that time. Such a token is for that server alone, and valid for `TOKEN_S`
by that server's clock: a thief can use it only there and then, like any other token. An impostor of that
server could have tokens made for a future time; TLS prevents that.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Collection
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kalends.core.errors import InvalidInput, NotAuthenticated
from kalends.serving.auth.callers import USER_HEADER
from kalends.serving.auth.keys import load_private_key
from kalends.serving.auth.tokens import mint
from kalends.serving.configuration import CallsConfiguration

TOKEN_S: Final = 300
"""Life of a token for one call, or one proof in a session; it only has to cover differing clocks."""


def _nothing_learned(date: str) -> None:
    """Ignore the clock, which matters only for signed tokens."""


class Proof(NamedTuple):
    """Proof of this server's identity to one other. `token` makes a fresh token each time, or "" if access is
    open, and `user` is the name. `refused` gets the ``Date`` of a refusal, "" for none.
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
    """Return, for each called server, the proof that this server is `user` with `scope` there.

    Without `key`, for open access, it is just the name. Raises `InvalidInput` for an unusable key.
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
    """The clock of another server, if it has reported it; otherwise the own clock."""

    def __init__(self, ours_s: Callable[[], int]) -> None:
        self._ours_s = ours_s
        self._ahead_s = 0

    def now_s(self) -> int:
        return max(self._ours_s() + self._ahead_s, 0)

    def read(self, date: str) -> None:
        """Take note of a ``Date``; an invalid one changes nothing."""
        with contextlib.suppress(ValueError, OverflowError):
            self._ahead_s = int(parsedate_to_datetime(date).timestamp()) - self._ours_s()


def trust_in(
    authority: Path | None,
    where: str,
    shown: tuple[Path, Path] | None = None,
    pem: str = "",
) -> ssl.SSLContext | bool:
    """Return the TLS context that trusts certificates signed by `authority`, or by the system's without it.

    The authority may be given as the text `pem`, instead of a file.

    `shown` is the own certificate and its key, for servers that require one. Raises `InvalidInput` at `where`
    for an unusable file.
    """
    if authority is None and shown is None and not pem:
        return True
    try:
        context = ssl.create_default_context(cafile=authority, cadata=pem or None)
        if shown is not None:
            # A key with a passphrase would stop a server until an operator types it.
            context.load_cert_chain(*shown, password="")
        return context
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"cannot use {authority if shown is None else shown[0]}: {error}",
            where=where,
            remedy="give files with certificates in PEM form, and a key without a passphrase",
        ) from error


def trust_for(
    calls: CallsConfiguration, authority: Path | None, where: str, pem: str = ""
) -> ssl.SSLContext | bool:
    """Return the TLS context for calls, as in `calls`, to a server with a certificate by `authority`.

    Raises `InvalidInput` as `trust_in`.
    """
    pair = (calls.certificate, calls.key)
    shown = None if pair[0] is None or pair[1] is None else (pair[0], pair[1])
    return trust_in(None if pem else authority or calls.ca, where, shown, pem)


def check_certificate(transport: asyncio.BaseTransport | None, hosts: Collection[str] = ()) -> None:
    """Raises `NotAuthenticated` unless a certificate was shown, and for one of `hosts` if there are any."""
    shown = transport.get_extra_info("peercert") if transport is not None else None
    if not shown:
        raise NotAuthenticated(
            "other servers must show a certificate here, and none was shown",
            where="certificate",
            remedy="name its file, and that of its key, where the calling server is configured: calls",
        )
    names = {name for _, name in shown.get("subjectAltName", ())}
    if hosts and names.isdisjoint(hosts):
        raise NotAuthenticated(
            f"the certificate is for {', '.join(sorted(names))[:200] or 'no host'}, and the key is not",
            where="certificate",
            remedy="use the certificate of a host that this key is listed for",
        )
