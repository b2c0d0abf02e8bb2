"""What an OpenID provider says of itself: where a program asks it for tokens (OpenID Discovery, RFC 8414).

Pure: what came is handed in. Whoever could lead a program elsewhere would get its user's tokens, so each
address is https, or http on this host; and on this host only if the provider itself is.
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
    """Where the provider `issuer` is asked; "" where it has no such place.

    `revocation_endpoint` takes tokens back (RFC 7009).
    """

    issuer: str
    token_endpoint: str = ""
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""


def metadata_addresses(issuer: str) -> tuple[str, str]:
    """Return where a provider describes itself: the place of OpenID, and that of RFC 8414.

    Raises `InvalidInput` for an address that others on the way could answer for.
    """
    if not is_guarded(issuer) or "?" in issuer:
        raise InvalidInput(
            f"{issuer[:200]!a} is not the address of a provider",
            where="issuer",
            remedy="write its https:// address; http:// only for this host",
        )
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    return (
        issuer.rstrip("/") + OPENID_PATH,
        parts._replace(path=OAUTH_PATH + path).geturl(),
    )


def endpoints_in(content: bytes, issuer: str) -> Endpoints:
    """Return what `content`, fetched from `issuer`, says; raises `InvalidInput` where it cannot be so."""
    found = decoded(content, Endpoints, issuer)
    if found.issuer.rstrip("/") != issuer.rstrip("/"):
        raise InvalidInput(
            f"it is the configuration of {found.issuer[:200]!a}, not of {issuer!a}",
            where=issuer,
            remedy="write the issuer exactly as its provider does",
        )
    for url in (
        found.token_endpoint,
        found.device_authorization_endpoint,
        found.revocation_endpoint,
    ):
        if url and (not is_guarded(url) or (is_here(url) and not is_here(issuer))):
            raise InvalidInput(
                f"it says that tokens are asked for at {url[:200]!a}",
                where=issuer,
                remedy="tell its operator: https:// is needed there",
            )
    if not (found.token_endpoint and found.device_authorization_endpoint):
        raise InvalidInput(
            "this provider lets no program ask without a browser (device authorization, RFC 8628)",
            where=issuer,
            remedy="ask its operator to allow that, or get a token in another way: "
            "kalends login --token-file FILE",
        )
    return found


def decoded(content: bytes, kind: type[T], where: str) -> T:
    """Return what JSON of a provider says; raises `InvalidInput`."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"the answer is not what a provider answers: {error}",
            where=where,
            remedy="check the address of the issuer",
        ) from error
