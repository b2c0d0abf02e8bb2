"""Keys that identity providers publish at an address: fetched when a token needs them, and kept.

The last good set stays until the next one arrives, however long the provider is down. A token that names an
unknown key causes another fetch, but not directly after the last try, whatever unknown callers send. A
fetch is bounded in size and time, goes over https or to this host, and follows no redirect.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

import aiohttp
import msgspec

from kalends.core.errors import InvalidInput, KalendsError
from kalends.rim.broken_connections import broken_words
from kalends.rim.proxies import proxy_url
from kalends.rim.web_addresses import is_here
from kalends.serving.auth.addresses import check_fetched
from kalends.serving.auth.public_keys import (
    KEY_FILE_BYTES_MAX,
    KeyTerms,
    TrustedKey,
    key_id,
    keys_of_set,
)

FRESH_S: Final = 600.0
"""Age at which a set is fetched again; for this time a withdrawn key is still accepted."""

TRY_EVERY_S: Final = 30.0
"""The minimum time between two tries."""

FETCH_S_MAX: Final = 5.0

DISCOVERY: Final = "/.well-known/openid-configuration"


class FetchTimes(NamedTuple):
    """Times of the last request for a provider's keys, and of their last arrival (monotonic seconds)."""

    tried_s: float = float("-inf")
    fetched_s: float = float("-inf")

    def due(self, now_s: float, unknown: bool) -> bool:
        """Return whether to fetch now; `unknown`: a token names a key that is not in the set."""
        if now_s - self.tried_s < TRY_EVERY_S:
            return False
        return unknown or now_s - self.fetched_s >= FRESH_S


class _Discovery(msgspec.Struct):
    """The needed fields of an OpenID provider's configuration."""

    issuer: str
    jwks_uri: str


class Provider:
    """The keys of `issuer`, trusted on `terms`: the JWKS at `jwks`, or that of its OpenID discovery.

    `client` is the name of kalends programs there. `tls` is the trust for https. `trouble` gets the reason
    why keys do not arrive, and "" when they do.
    """

    def __init__(
        self,
        issuer: str,
        terms: KeyTerms,
        *,
        jwks: str = "",
        client: str = "",
        tls: ssl.SSLContext | bool = True,
        trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.issuer = issuer
        self.keys: tuple[TrustedKey, ...] = ()
        self._terms = terms
        self._jwks = jwks
        self._client = client
        self._tls = tls
        self._trouble = trouble
        self._times = FetchTimes()
        self._fetching: asyncio.Task[None] | None = None

    def security_scheme(self) -> dict[str, object] | None:
        """Return the OpenAPI description of how a user gets a token there; None for a bare set of keys.

        It has the address of the discovery, the realm, the audiences of a token, and the client name of
        kalends programs.
        """
        if self._jwks:
            return None
        return {
            "type": "openIdConnect",
            "openIdConnectUrl": self.issuer.rstrip("/") + DISCOVERY,
            "x-realm": self._terms.vouching.realm,
            "x-audiences": list(self._terms.claims.audiences),
            "x-client": self._client,
        }

    def take_over(self, older: Provider) -> None:
        """Take over the keys of `older` if it is the same provider, on the same terms."""
        if (older.issuer, older._jwks, older._terms) == (self.issuer, self._jwks, self._terms):
            self.keys, self._times = older.keys, older._times

    def has(self, key_id: str) -> bool:
        """Return whether the provider lists a key."""
        return any(key.key_id == key_id for key in self.keys)

    async def prepare(self, kid: object, monotonic_s: float) -> None:
        """Fetch the keys if that is due; wait for them only if `kid` is not among the present ones."""
        unknown = not (self.keys and (kid == "" or any(key.is_called(kid) for key in self.keys)))
        if self._fetching is None and self._times.due(monotonic_s, unknown):
            self._times = self._times._replace(tried_s=monotonic_s)
            self._fetching = asyncio.create_task(self._fetch(monotonic_s))
        if self._fetching is not None and unknown:
            await asyncio.wait({self._fetching})

    async def close(self) -> None:
        """Stop fetching."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    async def _fetch(self, monotonic_s: float) -> None:
        try:
            async with asyncio.timeout(FETCH_S_MAX):
                found = await self._published()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError, KalendsError) as error:
            reason = broken_words(error)
            self._trouble(f"cannot fetch the keys of {self.issuer}: {reason}")
        else:
            self.keys = found
            self._times = self._times._replace(fetched_s=monotonic_s)
            self._trouble("")
        finally:
            self._fetching = None

    async def _published(self) -> tuple[TrustedKey, ...]:
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        ) as http:
            jwks = self._jwks or await self._discovered(http)
            content = await self._get(http, jwks)
        return tuple(
            TrustedKey(public, key_id(public), self._terms, name)
            for name, public in keys_of_set(content, jwks)
        )

    async def _discovered(self, http: aiohttp.ClientSession) -> str:
        where = self.issuer.rstrip("/") + DISCOVERY
        try:
            found = msgspec.json.decode(await self._get(http, where), type=_Discovery)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"no OpenID configuration: {error}", where=where) from error
        if found.issuer != self.issuer:
            raise InvalidInput(
                f"the configuration is for {found.issuer[:200]!a}, not for {self.issuer!a}",
                where=where,
                remedy="write the issuer exactly as its provider does",
            )
        check_fetched(found.jwks_uri, where)
        if is_here(found.jwks_uri) and not is_here(self.issuer):
            raise InvalidInput(
                "the provider names an address on this host for its keys", where=where
            )
        return found.jwks_uri

    async def _get(self, http: aiohttp.ClientSession, url: str) -> bytes:
        """Return what is at `url`; raises `InvalidInput` for any other answer than a short 200."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with http.get(
            url, headers=headers, ssl=self._tls, proxy=proxy_url(url), allow_redirects=False
        ) as response:
            if response.status != 200:
                raise InvalidInput(f"the answer has status {response.status}", where=url)
            content = bytearray()
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > KEY_FILE_BYTES_MAX:
                    raise InvalidInput("the answer is too large", where=url)
        return bytes(content)
