"""Calls that are not led elsewhere: who is called cannot send the caller, and its rights, to another."""

from __future__ import annotations

from types import SimpleNamespace

import aiohttp


class RedirectRefused(aiohttp.ClientError):
    """The server that was called, which answered with `status`, wanted the caller to go elsewhere."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it answers with status {status}, to go elsewhere")
        self.status = status


def refused_redirects() -> aiohttp.TraceConfig:
    """Return what lets calls of a session, and above all its sockets, fail with `RedirectRefused`.

    For plain calls `allow_redirects=False` does; aiohttp gives no such choice for sockets.
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
