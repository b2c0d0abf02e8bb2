"""The OpenID providers that a kalends server trusts, from its description (`/v1/openapi.json`)."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from kalends.client.logins.openid.endpoints import OPENID_PATH, decoded
from kalends.client.logins.openid.exchange import Exchange
from kalends.contract.paths import OPENAPI_PATH
from kalends.core.errors import NotFound, Unavailable
from kalends.rim.web_addresses import addresses_in


class AnnouncedProvider(msgspec.Struct, frozen=True):
    """A provider: its `issuer`, the `client` id of kalends there, and the `realm` of its users."""

    issuer: str
    client: str = ""
    realm: str = ""


class WaysIn(msgspec.Struct, frozen=True):
    """A server's way to identify callers: it `is_open`, or asks for tokens, also those of `providers`."""

    is_open: bool
    providers: tuple[AnnouncedProvider, ...] = ()


class _Scheme(msgspec.Struct, frozen=True):
    type: str
    url: str = msgspec.field(default="", name="openIdConnectUrl")
    client: str = msgspec.field(default="", name="x-client")
    realm: str = msgspec.field(default="", name="x-realm")


class _Components(msgspec.Struct, frozen=True):
    schemes: dict[str, _Scheme] = msgspec.field(default_factory=dict, name="securitySchemes")


class _Description(msgspec.Struct, frozen=True):
    components: _Components = _Components()


async def ways_into(servers: str, exchange: Exchange) -> WaysIn:
    """Return how the first of the servers that answers identifies callers.

    Raises `NotFound`, `Unavailable` and `InvalidInput`.
    """
    *others, last = addresses_in(servers)
    for server in others:
        with suppress(Unavailable):
            return await _ways_into(server, exchange)
    return await _ways_into(last, exchange)


async def _ways_into(server: str, exchange: Exchange) -> WaysIn:
    where = server.rstrip("/") + OPENAPI_PATH
    try:
        content = await exchange.fetched(where)
    except NotFound as error:
        raise NotFound(
            "no kalends server at this address", where=server, remedy="check the address"
        ) from error
    return ways_in(content, where)


def ways_in(content: bytes, where: str) -> WaysIn:
    """Return the logins in a description; raises `InvalidInput` if it is not a description."""
    schemes = decoded(content, _Description, where).components.schemes
    providers = (each for each in schemes.values() if each.type == "openIdConnect")
    return WaysIn(
        is_open=any(each.type == "apiKey" for each in schemes.values()),
        providers=tuple(
            AnnouncedProvider(each.url.removesuffix(OPENID_PATH), each.client, each.realm)
            for each in providers
            if each.url.endswith(OPENID_PATH)
        ),
    )
