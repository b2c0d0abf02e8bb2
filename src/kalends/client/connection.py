"""`kalends.connect`: a client, with its server and its zone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from kalends.client.client import Client
from kalends.client.client_settings import ClientSettings, TransportName
from kalends.client.inputs.given_values import every
from kalends.client.inputs.zones import local_zone
from kalends.client.logins.caller_identity import login_name
from kalends.client.logins.caller_proof import proof
from kalends.client.logins.destinations import Destination, destination
from kalends.client.transports.late_transport import TokenSource
from kalends.client.transports.retry import Backoff
from kalends.client.transports.transport import Access
from kalends.core.errors import InvalidInput
from kalends.core.zone_names import given_zone


def connect(
    url: str | list[str] | tuple[str, ...] | None = None,
    *,
    profile: str = "",
    token: str | TokenSource = "",
    user: str = "",
    groups: Sequence[str] = (),
    ca: str = "",
    zone: str = "",
    timeout_s: float = 30.0,
    transport: TransportName = "session",
    backoff: Backoff | None = None,
) -> Client:
    """Return a client of the broker or site at `url`.

    `url` is an address, or several of servers that stand for each other: a list, or a text with commas. A
    call goes on at the next one if one cannot answer; it begins with the last one that answered.

    Without `url`, or with a `profile`, it calls the same server as the command line, with the same
    token, zone and certificates: arguments override the environment, which overrides the user's profile.

    The client connects at its first call; ``async with connect(url) as client`` closes it at the end, and so
    does ``await client.close()``. `token` is sent if the server asks for one: a text, or a function that
    returns one and is called whenever the client connects. `user` and `groups` name the caller to a server
    in open mode. `ca` is a file of certificates to trust. Times given as text are read in `zone` (an IANA
    name; default this computer's). A call takes at most `timeout_s` beyond the wait it asks for, retries
    included. `transport` "session" sends many calls over one WebSocket, "http" each in a separate request.
    `backoff` sets how calls are retried.

    Raises `InvalidInput` for an address, a zone or a time that cannot be used.
    """
    url = ",".join(map(str, url)) if isinstance(url, list | tuple) else url
    meant = _meant(profile, url, token, user, ca, zone)
    token = token or proof(
        meant.token, meant.token_file, meant.login, meant.sources.get("token_file", "")
    )
    known, source = (token, None) if isinstance(token, str) else ("", token)
    access = Access(
        url=meant.broker,
        token=known,
        user=meant.user,
        groups=every(groups, where="groups"),
        ca=meant.ca,
    )
    if transport not in ("session", "http"):
        raise InvalidInput(
            f"{transport!r} is not a transport", where="transport", remedy="give session or http"
        )
    return Client(
        ClientSettings(
            access=access,
            token=source,
            zone=given_zone(meant.zone) if meant.zone else local_zone(),
            timeout_s=timeout_s,
            transport=transport,
            backoff=backoff or Backoff(),
        )
    )


def _meant(
    profile: str, url: str | None, token: str | TokenSource, user: str, ca: str, zone: str
) -> Destination:
    """Return the destination of these arguments; without an address, of the environment and a profile."""
    known = token if isinstance(token, str) else ""
    if url is not None and not profile:
        return Destination(url, token=known, user=user, zone=zone, ca=ca)
    given = {"profile": profile, "user": user, "ca": ca, "zone": zone, "token": known}
    given = {name: text for name, text in given.items() if text}
    if url is not None:
        # Also an empty address: an unset variable must not call another server by mistake.
        given["broker"] = url
    meant = destination(given, os.environ)
    return meant if meant.user else dataclasses.replace(meant, user=login_name())


def in_surroundings(client: Client, **changed: Any) -> Client:
    """Return a copy of `client` with other fields of its `Surroundings`, for tests."""
    settings = client.settings
    surroundings = settings.surroundings._replace(**changed)
    return Client(dataclasses.replace(settings, surroundings=surroundings))
