"""An OpenID provider that lets programs without a browser ask (RFC 8628), on loopback: Authlib's server side.

A test is the person in the browser: it answers codes by `answers`, before or after they are asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flask
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc8628 import (
    DeviceAuthorizationEndpoint,
    DeviceCodeGrant,
    DeviceCredentialDict,
)
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from identity_provider import RSA_KEY, jwk
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

CLIENT = "kalends"


class Client(ClientMixin):
    """The one program that may ask: it has no secret, for everybody can read what is installed."""

    def get_client_id(self) -> str:
        return CLIENT

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in (DeviceCodeGrant.GRANT_TYPE, "refresh_token")

    def get_allowed_scope(self, scope: str) -> str:
        return scope


class User:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_user_id(self) -> str:
        return self.name


class RefreshToken(TokenMixin):
    def __init__(self, scope: str, user: User) -> None:
        self.scope, self.user = scope, user

    def get_scope(self) -> str:
        return self.scope

    def check_client(self, client: Client) -> bool:
        return True


class DeviceProvider:
    """What it has given, and how it answers; a test changes it at will."""

    def __init__(self) -> None:
        self.url = ""
        self.life_s = 3_600
        self.interval_s = 1
        self.answers: dict[str, bool] = {}
        """What the person has said to a code, or to all (""): yes or no."""
        self.hurried = 0
        """How many of the next questions come too early."""
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.codes: dict[str, DeviceCredentialDict] = {}
        self.asked: list[dict[str, Any]] = []
        """Every form that was sent."""
        self.renewals = 0
        self.discovery: dict[str, Any] = {}
        self.lacks_openid = False
        """It describes itself only where RFC 8414 has that."""

    def application(self) -> flask.Flask:
        app = flask.Flask("device-provider")
        server = AuthorizationServer(app, self._client, self._save)
        server.register_token_generator("default", _generator(self))
        for grant in (_device_grant(self), _refresh_grant(self)):
            server.register_grant(grant)
        for endpoint in (_device_endpoint(self), _revocation(self)):
            server.register_endpoint(endpoint)

        @app.get("/.well-known/openid-configuration")
        def openid() -> Any:
            return ("no", 404) if self.lacks_openid else self._description()

        app.add_url_rule("/.well-known/oauth-authorization-server", "oauth", self._description)
        app.add_url_rule("/jwks", "jwks", lambda: {"keys": [jwk("RS256", "one")]})

        @app.before_request
        def remember() -> None:
            if flask.request.method == "POST":
                self.asked.append(dict(flask.request.form))

        @app.post("/token")
        def token() -> Any:
            return server.create_token_response()

        @app.post("/device")
        def device() -> Any:
            return server.create_endpoint_response("device_authorization")

        @app.post("/revoke")
        def revoke() -> Any:
            return server.create_endpoint_response("revocation")

        return app

    def _description(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device",
            "revocation_endpoint": f"{self.url}/revoke",
            **self.discovery,
        }

    def _client(self, client_id: str) -> Client | None:
        return Client() if client_id == CLIENT else None

    def _save(self, token: dict[str, Any], request: Any) -> None:
        self.refresh_tokens[token["refresh_token"]] = RefreshToken("openid", request.user)


def _generator(provider: DeviceProvider) -> JWTBearerTokenGenerator:
    class Generator(JWTBearerTokenGenerator):
        def get_jwks(self) -> Any:
            pem = RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            return RSAKey.import_key(pem)

        def get_audiences(self, client: Any, user: Any, scope: Any) -> list[str]:
            return ["kalends"]

    refreshes = (f"refresh-{number}" for number in range(1_000))
    return Generator(
        provider.url, "RS256", lambda **_: next(refreshes), lambda client, grant: provider.life_s
    )


def _device_endpoint(provider: DeviceProvider) -> type[DeviceAuthorizationEndpoint]:
    class Endpoint(DeviceAuthorizationEndpoint):
        INTERVAL = property(lambda self: provider.interval_s)

        def get_verification_uri(self) -> str:
            return f"{provider.url}/enter"

        def save_device_credential(self, client_id: str, scope: str, data: dict[str, Any]) -> None:
            end = time.time() + data["expires_in"]
            provider.codes[data["device_code"]] = DeviceCredentialDict(
                client_id=client_id, scope=scope, expires_at=end, **data
            )

    return Endpoint


def _device_grant(provider: DeviceProvider) -> type[DeviceCodeGrant]:
    class Grant(DeviceCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

        def query_device_credential(self, device_code: str) -> DeviceCredentialDict | None:
            return provider.codes.get(device_code)

        def query_user_grant(self, user_code: str) -> tuple[User, bool] | None:
            said = provider.answers.get(user_code, provider.answers.get(""))
            return None if said is None or provider.hurried else (User("ada"), said)

        def should_slow_down(self, credential: Any) -> bool:
            hurried = provider.hurried > 0
            provider.hurried -= hurried
            return hurried

    return Grant


def _refresh_grant(provider: DeviceProvider) -> type[grants.RefreshTokenGrant]:
    class Grant(grants.RefreshTokenGrant):
        """Each token does once: whoever sends it again is refused."""

        TOKEN_ENDPOINT_AUTH_METHODS = ["none"]
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> RefreshToken | None:
            provider.renewals += 1
            return provider.refresh_tokens.pop(refresh_token, None)

        def authenticate_user(self, refresh_token: RefreshToken) -> User:
            return refresh_token.user

        def revoke_old_credential(self, refresh_token: RefreshToken) -> None:
            pass

    return Grant


def _revocation(provider: DeviceProvider) -> type[RevocationEndpoint]:
    class Endpoint(RevocationEndpoint):
        CLIENT_AUTH_METHODS = ["none"]

        def query_token(self, token_string: str, token_type_hint: str) -> RefreshToken | None:
            return provider.refresh_tokens.get(token_string)

        def revoke_token(self, token: RefreshToken, request: Any) -> None:
            provider.refresh_tokens.pop(request.form["token"], None)

    return Endpoint


@contextmanager
def device_provider() -> Iterator[DeviceProvider]:
    provider = DeviceProvider()
    server = make_server("127.0.0.1", 0, lambda *_: [], threaded=True)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    server.app = provider.application()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
