"""A probe for TLS at a port that closes connections without an answer, because it may need https."""

from __future__ import annotations

import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from kalends.rim.proxies import proxy_url

PROBE_S: Final = 2.0


def speaks_tls(url: str) -> bool:
    """Return whether the server at ``http://HOST:PORT`` agrees to a TLS handshake within `PROBE_S`.

    Does not probe a server behind a proxy. Sends nothing afterwards, so the certificate need not be trusted.
    """
    if proxy_url(url) is not None:
        return False
    parts = urlsplit(url)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((parts.hostname or "", parts.port or 80), PROBE_S) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname),
        ):
            return True
    except (OSError, ValueError):
        return False
