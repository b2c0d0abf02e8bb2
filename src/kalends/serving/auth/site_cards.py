"""Cards of sites: what an owner says of a site to the operators of brokers, signed with the site's own key.

A card names the site, its addresses, and the key that has signed it. So it proves nothing but that whoever
has the private key has made it: an operator compares the id of the key with what the owner has told them in
another way. A later card by the same key may name other addresses.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from typing import Annotated, Final, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from kalends.contract.messages import SiteName, Url
from kalends.contract.site_calls import CARD_CHARACTERS_MAX
from kalends.core.conversion import UNREADABLE
from kalends.core.errors import InvalidInput
from kalends.rim.web_addresses import addresses_in, server_parts
from kalends.serving.auth.public_keys import key_id

KIND: Final = "kalends-site-card"
AHEAD_S_MAX: Final = 86_400
"""How far in the future a card may be made: a later one by a right clock would not be taken before then."""

_ALGORITHM: Final = "EdDSA"
_JWS: Final = jwt.PyJWS(algorithms=[_ALGORITHM])


class _Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: SiteName
    url: Url
    public_key: Annotated[str, Meta(max_length=64)]
    made_at: Annotated[int, Meta(ge=0)]
    ca: str = ""
    passes: bool = True


class SiteCard(NamedTuple):
    """A card that was verified: site `name` is at `url`, says the owner of the key with the id `key`.

    `ca` are the certificates, in PEM form, that sign the site's own ("": a usual authority). Users' `passes`
    are accepted there. The card was made at `made_at` (seconds UTC).
    """

    name: str
    url: str
    ca: str
    passes: bool
    made_at: int
    key: str


def sign_card(
    private: Ed25519PrivateKey, *, name: str, url: str, ca: str, passes: bool, now_s: int
) -> str:
    """Return the card of site `name` at `url`; raises `InvalidInput` where `read_card` would."""
    public = base64.urlsafe_b64encode(private.public_key().public_bytes_raw()).decode()
    said = _Said(name, url, public, now_s, ca, passes)
    card = _JWS.encode(msgspec.json.encode(said), private, _ALGORITHM, {"typ": KIND})
    read_card(card, now_s)
    return card


def read_card(text: str, now_s: int) -> SiteCard:
    """Return what `text` says; raises `InvalidInput` unless it is a card that its own key has signed."""
    said, public = _signed(text.strip())
    urls = addresses_in(said.url)
    for url in urls:
        if server_parts(url) is None:
            raise _refused(
                f"{url!r} is not the address of a server", "write http:// or https:// and a host"
            )
    if said.made_at > now_s + AHEAD_S_MAX:
        raise _refused("it is from the future", "set the clock of the host that makes the card")
    if said.ca:
        try:
            ssl.create_default_context(cadata=said.ca)
        except (ssl.SSLError, ValueError) as error:
            raise _refused(
                "its authority is not a certificate", "give certificates in PEM form"
            ) from error
    return SiteCard(said.name, said.url, said.ca, said.passes, said.made_at, key_id(public))


def _signed(text: str) -> tuple[_Said, Ed25519PublicKey]:
    if len(text) > CARD_CHARACTERS_MAX:
        raise _refused(f"it is longer than {CARD_CHARACTERS_MAX} characters")
    try:
        if jwt.get_unverified_header(text).get("typ") != KIND:
            raise _refused("it is something else, such as a token")
        payload = text.split(".")[1]
        content = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        said = msgspec.json.decode(content, type=_Said)
        public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(said.public_key))
    except (jwt.InvalidTokenError, binascii.Error, ValueError, *UNREADABLE) as error:
        raise _refused("it cannot be read") from error
    try:
        _JWS.decode(text, public, [_ALGORITHM])
    except jwt.InvalidTokenError as error:
        raise _refused("the key that it names has not signed it") from error
    return said, public


def _refused(
    why: str, remedy: str = "ask the owner of the site for what `kalends admin sites card` prints"
) -> InvalidInput:
    return InvalidInput(f"this is not the card of a site: {why}", where="card", remedy=remedy)
