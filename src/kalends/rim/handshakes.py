"""What the other side of a WebSocket has said in its answer to the request for it."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp


def answer_headers(socket: aiohttp.ClientWebSocketResponse[bool]) -> Mapping[str, str]:
    """Return the headers of the answer that has opened `socket`."""
    # aiohttp keeps the answer, and has no public name for it.
    return socket._response.headers
