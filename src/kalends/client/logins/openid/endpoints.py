"""An OpenID provider's endpoints, from its own description (OpenID Discovery, RFC 8414).

Pure: the received content is a parameter. An attacker who could change an address would get users' tokens.
So each address is https, or http on this host; and on this host only if the provider itself is.
"""

from __future__ import annotations

from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from kalends.core.errors import InvalidInput
from kalends.rim.web_addresses import is_guarded, is_here

T = TypeVar("T")

OPENID_PATH: Final = "/.well-known/openid-configuration"
OAUTH_PATH: Final = "/.well-known/oauth-authorization-server"


class Endpoints(msgspec.Struct, frozen=True):
    """The endpoints of the provider `issuer`; "" for one that it does not have.

    `revocation_endpoint` revokes tokens (RFC 7009).
    """

    issuer: str
    token_endpoint: str = ""
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""


def metadata_addresses(issuer: str) -> tuple[str, str]:
    """Return the URLs of a provider's description: that of OpenID, and that of RFC 8414.

    Raises `InvalidInput` for an address that is not protected from others on the network.
    """
    if not is_guarded(issuer) or "?" in issuer:
        raise InvalidInput(
            f"{issuer[:200]!a} is not the address of a provider",
            where="issuer",
            remedy="write its https:// address; http:// is only for this host",
        )
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    return (
        issuer.rstrip("/") + OPENID_PATH,
        parts._replace(path=OAUTH_PATH + path).geturl(),
    )


def endpoints_in(content: bytes, issuer: str) -> Endpoints:
    """Return the endpoints in `content`, fetched from `issuer`; raises `InvalidInput` if invalid."""
    found = decoded(content, Endpoints, issuer)
    if found.issuer.rstrip("/") != issuer.rstrip("/"):
        raise InvalidInput(
            f"the configuration is that of {found.issuer[:200]!a}, not of {issuer!a}",
            where=issuer,
            remedy="write the issuer exactly as the provider does",
        )
    for url in (
        found.token_endpoint,
        found.device_authorization_endpoint,
        found.revocation_endpoint,
    ):
        if url and (not is_guarded(url) or (is_here(url) and not is_here(issuer))):
            raise InvalidInput(
                f"the provider's token address is not https: {url[:200]!a}",
                where=issuer,
                remedy="ask its operator for an https:// address",
            )
    if not (found.token_endpoint and found.device_authorization_endpoint):
        raise InvalidInput(
            "this provider does not allow logins with a code (device authorization, RFC 8628)",
            where=issuer,
            remedy="ask its operator to allow it, or get a token in another way: "
            "kalends login --token-file FILE",
        )
    return found


def decoded(content: bytes, kind: type[T], where: str) -> T:
    """Return a provider's JSON as a value of a type; raises `InvalidInput`."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"the answer is not that of a provider: {error}",
            where=where,
            remedy="check the address of the issuer",
        ) from error
