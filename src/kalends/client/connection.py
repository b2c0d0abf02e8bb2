"""`kalends.connect`: how a client finds its server and its zone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kalends.client.client import Client
from kalends.client.client_settings import ClientSettings, TransportName
from kalends.client.given_values import every
from kalends.client.retry import Backoff
from kalends.client.transport import Access
from kalends.client.zones import local_zone
from kalends.core.errors import InvalidInput
from kalends.core.times import zone_named


def connect(
    url: str,
    *,
    token: str = "",
    user: str = "",
    groups: Sequence[str] = (),
    ca: str = "",
    zone: str = "",
    timeout_s: float = 30.0,
    transport: TransportName = "session",
    backoff: Backoff | None = None,
) -> Client:
    """Return a client of the broker or site at `url`.

    It connects at its first call; ``async with connect(url) as client`` closes it in the end, and so does
    ``await client.close()``. `token` is sent where the server asks for one; `user` and `groups` name the
    caller to a server in open mode. `ca` is a file of certificates to trust. Times given as text are
    read in `zone` (an IANA name; default this computer's). A call takes at most `timeout_s` beyond
    the wait it asks for, retries included. `transport` "session" sends many calls over one
    WebSocket, "http" each in a request of its own. `backoff` says how calls are tried again.

    Raises `InvalidInput` for an address, a zone or a time that cannot be used.
    """
    access = Access(url=url, token=token, user=user, groups=every(groups, where="groups"), ca=ca)
    if transport not in ("session", "http"):
        raise InvalidInput(
            f"{transport!r} is not a transport", where="transport", remedy="give session or http"
        )
    return Client(
        ClientSettings(
            access=access,
            zone=zone_named(zone) if zone else local_zone(),
            timeout_s=timeout_s,
            transport=transport,
            backoff=backoff or Backoff(),
        )
    )


def in_surroundings(client: Client, **changed: Any) -> Client:
    """Return a client as `client` with other fields of its `Surroundings`: for tests."""
    settings = client.settings
    surroundings = settings.surroundings._replace(**changed)
    return Client(dataclasses.replace(settings, surroundings=surroundings))
