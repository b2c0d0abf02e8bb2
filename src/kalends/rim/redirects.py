"""Additions to aiohttp: refusal of redirects, and the headers of the answer that opened a socket.

Without the refusal, a server could send the caller's rights to another server.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import aiohttp


class RedirectRefused(aiohttp.ClientError):
    """A redirect, with `status`, by the called server."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the server answers with a redirect (status {status})")
        self.status = status


def refused_redirects() -> aiohttp.TraceConfig:
    """Return a configuration by which calls and sockets of a session fail with `RedirectRefused`.

    For plain calls `allow_redirects=False` is enough; aiohttp has no such option for sockets.
    """
    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(_refuse)
    return config


async def _refuse(
    session: aiohttp.ClientSession,
    context: SimpleNamespace,
    params: aiohttp.TraceRequestRedirectParams,
) -> None:
    raise RedirectRefused(params.response.status)


def answer_headers(socket: aiohttp.ClientWebSocketResponse[bool]) -> Mapping[str, str]:
    """Return the headers of the answer that opened `socket`."""
    # aiohttp stores the answer without a public name.
    return socket._response.headers
