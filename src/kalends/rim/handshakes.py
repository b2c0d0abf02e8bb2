"""The headers of the answer that opened a WebSocket."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp


def answer_headers(socket: aiohttp.ClientWebSocketResponse[bool]) -> Mapping[str, str]:
    """Return the headers of the answer that opened `socket`."""
    # aiohttp stores the answer without a public name.
    return socket._response.headers
