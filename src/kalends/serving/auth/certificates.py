"""Certificates that other servers show (mutual TLS): whether there is one, and the hosts that it names.

TLS has already checked that it is signed by the authority that the owner lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from kalends.core.errors import NotAuthenticated


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
