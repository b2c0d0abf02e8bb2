"""An identity provider on loopback: discovery, a JWKS, and tokens by keys that a test makes and changes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()

_KINDS: Any = {
    "RS256": (RSAAlgorithm, RSA_KEY), "ES256": (ECAlgorithm, EC_KEY), "EdDSA": (OKPAlgorithm, ED_KEY),
}  # fmt: skip


def jwk(algorithm: str, kid: str, key: Any = None) -> dict[str, Any]:
    """Return a public key as PyJWT writes it, which is no code of ours."""
    kind, usual = _KINDS[algorithm]
    members: dict[str, Any] = json.loads(kind.to_jwk((key or usual).public_key()))
    members.pop("key_ops", None)
    return {**members, "kid": kid, "use": "sig", "alg": algorithm}


def signed(
    claims: dict[str, Any], algorithm: str = "RS256", kid: str = "one", key: Any = None
) -> str:
    """Return a token; `claims` are added to those that every token has."""
    now_s = int(time.time())
    whole = {"iat": now_s, "exp": now_s + 600, "aud": "npaci", "sub": "ada", **claims}
    return jwt.encode(whole, key or _KINDS[algorithm][1], algorithm, {"kid": kid} if kid else None)


class IdentityProvider:
    """`keys` are published; `asked` counts how often; `answer` stands for the JWKS where a test sets it."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: list[dict[str, Any]] = [jwk("RS256", "one")]
        self.asked = 0
        self.answer: web.StreamResponse | None = None
        self.discovery: dict[str, Any] = {}

    async def configuration(self, request: web.Request) -> web.StreamResponse:
        said = {"issuer": self.url, "jwks_uri": f"{self.url}/jwks", **self.discovery}
        return web.json_response(said)

    async def jwks(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        if self.answer is not None:
            return self.answer
        return web.json_response({"keys": self.keys})


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    provider = IdentityProvider()
    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", provider.configuration)
    application.router.add_get("/jwks", provider.jwks)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield provider
    finally:
        await runner.cleanup()
