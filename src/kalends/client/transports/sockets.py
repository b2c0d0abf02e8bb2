"""WebSockets of a client: opening, probing and closing."""

from __future__ import annotations

from typing import Final

import aiohttp

from kalends.client.transports.retry import ConnectionFailed
from kalends.client.transports.transport import (
    ANSWER_BYTES_MAX,
    SAID,
    Access,
    error_from_status,
    failure,
    retry_after_s,
)
from kalends.rim.proxies import proxy_url
from kalends.rim.redirects import RedirectRefused, refused_redirects

HEARTBEAT_S: Final = 10.0
"""Seconds of silence after which a connection is probed; it is given up if there is no answer."""

CLOSE_S: Final = 2.0
"""Seconds to wait at closing until the server closes its side."""


def socket_session(access: Access) -> aiohttp.ClientSession:
    """Return an opener of sockets for `access`, to be closed after use. Raises `InvalidInput`."""
    return aiohttp.ClientSession(
        headers=access.headers() | SAID,
        connector=aiohttp.TCPConnector(ssl=access.tls()),
        proxy=proxy_url(access.url),
        trace_configs=[refused_redirects()],
    )


async def open_socket(
    http: aiohttp.ClientSession, access: Access, path: str
) -> aiohttp.ClientWebSocketResponse[bool]:
    """Open the WebSocket at `path`; raises `ConnectionFailed`, or the error of a refusal."""
    try:
        return await http.ws_connect(
            access.address(path),
            heartbeat=HEARTBEAT_S,
            max_msg_size=ANSWER_BYTES_MAX,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
        )
    except aiohttp.WSServerHandshakeError as error:
        wait_s = retry_after_s(error.headers.get("Retry-After") if error.headers else None)
        if error.status in (502, 504):
            raise ConnectionFailed(
                f"a gateway before the server failed ({error.status})", sent=False
            ) from error
        raise error_from_status(error.status, access.url, wait_s) from error
    except RedirectRefused as error:
        raise error_from_status(error.status, access.url) from error
    except aiohttp.ClientError as error:
        raise failure(error, sent=False) from error
