"""Keys by address: fetched when they are needed, kept when they are not to be had, and never too often."""

from __future__ import annotations

import asyncio
import re
import time
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from identity_provider import EC_KEY, IdentityProvider, identity_provider, jwk, signed
from serving_support import serving

from kalends.core.errors import InvalidInput, NotAuthenticated
from kalends.core.principals import VouchedNames
from kalends.serving.auth.addresses import check_fetched
from kalends.serving.auth.authenticator import authenticator_of
from kalends.serving.auth.claim_names import ClaimNames
from kalends.serving.auth.keys import write_key_pair
from kalends.serving.auth.providers import FRESH_S, TRY_EVERY_S, FetchTimes, Provider
from kalends.serving.auth.public_keys import KEY_FILE_BYTES_MAX, KeyTerms
from kalends.serving.auth.tokens import KeyRing
from kalends.serving.configuration import load_configuration

CLAIMS = ClaimNames(scopes={"use": ("*",)}, many_groups=True)


class Desk:
    """A server's ring with one provider, asked at times that a test chooses."""

    def __init__(self, provider: IdentityProvider, **options: Any) -> None:
        self.provider = provider
        self.troubles: list[str] = []
        self.now_s = 1_000.0
        terms = KeyTerms(provider.url, vouching=VouchedNames(realm="kit.edu"), claims=CLAIMS)
        self.keys = Provider(provider.url, terms, trouble=self.troubles.append, **options)
        self.ring = KeyRing([], "npaci", providers=[self.keys])

    async def user(self, **options: Any) -> str:
        """Return who a fresh token is believed to be of; "" for one that is refused."""
        headers = self.headers(**options)
        await self.ring.prepare(headers, self.now_s)
        try:
            return self.ring.authenticate(headers, int(time.time())).principal.user
        except NotAuthenticated:
            return ""

    def headers(self, **options: Any) -> dict[str, str]:
        text = signed({"iss": self.provider.url}, **options)
        return {"Authorization": f"Bearer {text}"}


async def test_the_first_token_has_the_keys_fetched_and_the_next_ones_do_not() -> None:
    async with identity_provider() as provider:
        desk = Desk(provider)
        assert [await desk.user() for _ in range(3)] == ["ada@kit.edu"] * 3
        assert provider.asked == 1


async def test_callers_at_the_same_time_wait_for_one_answer() -> None:
    async with identity_provider() as provider:
        desk = Desk(provider)
        assert set(await asyncio.gather(*(desk.user() for _ in range(20)))) == {"ada@kit.edu"}
        assert provider.asked == 1


async def test_a_key_that_is_not_known_is_asked_for_but_not_at_every_try_of_a_stranger() -> None:
    async with identity_provider() as provider:
        desk = Desk(provider)
        assert await desk.user()
        provider.keys.append(jwk("ES256", "two"))
        new = {"algorithm": "ES256", "kid": "two"}
        for _ in range(50):
            assert await desk.user(**new) == "", "too soon after the last try"
        assert provider.asked == 1
        desk.now_s += TRY_EVERY_S
        assert await desk.user(**new) == "ada@kit.edu"
        for number in range(50):
            assert await desk.user(kid=f"stranger{number}") == "ada@kit.edu", (
                "the key decides, not its name"
            )
        assert provider.asked == 2


async def test_a_key_that_was_withdrawn_is_believed_no_longer_than_a_set_is_fresh() -> None:
    async with identity_provider() as provider:
        desk = Desk(provider)
        old = desk.headers()
        assert await desk.user()
        caller = desk.ring.authenticate(old, int(time.time()))
        provider.keys = [jwk("ES256", "two")]
        desk.now_s += FRESH_S
        await desk.user()  # Has them fetched, and does not wait.
        await desk.keys.prepare("two", desk.now_s)
        with pytest.raises(NotAuthenticated):
            desk.ring.authenticate(old, int(time.time()))
        assert caller.is_revoked(), "sessions by that key are over"


BAD: dict[str, Any] = {
    "an error": lambda: web.Response(status=500),
    "not JSON": lambda: web.Response(body=b"<html>"),
    "no keys": lambda: web.json_response({"keys": []}),
    "too large": lambda: web.Response(body=b" " * (KEY_FILE_BYTES_MAX + 1)),
    "compressed": lambda: web.Response(body=b"x", headers={"Content-Encoding": "gzip"}),
    "a redirect": lambda: web.Response(status=302, headers={"Location": "/jwks"}),
    "deep": lambda: web.Response(body=b'{"keys":' + b"[" * 100_000),
}  # fmt: skip


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
async def test_the_last_good_keys_stay_whatever_comes_later(answer: Any) -> None:
    async with identity_provider() as provider:
        desk = Desk(provider)
        assert await desk.user()
        provider.answer = answer()
        desk.now_s += FRESH_S
        await desk.keys.prepare("unknown", desk.now_s)
        assert "cannot fetch the keys" in desk.troubles[-1]
        assert await desk.user() == "ada@kit.edu"
        provider.answer = None
        desk.now_s += TRY_EVERY_S
        await desk.keys.prepare("unknown", desk.now_s)
        assert desk.troubles[-1] == ""


async def test_a_provider_that_is_away_is_not_believed_and_holds_nobody_up() -> None:
    async with identity_provider() as provider:
        pass
    desk = Desk(provider)
    assert await desk.user() == ""
    assert "cannot fetch the keys" in desk.troubles[-1]


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "http://127.0.0.1:1"}, {"jwks_uri": "http://keys.example/jwks"},
        {"jwks_uri": "file:///etc/passwd"}, {"jwks_uri": "https://user:pass@keys.example/jwks"},
        {"jwks_uri": 5}, {"issuer": None},
    ],
)  # fmt: skip
async def test_a_discovery_that_is_anothers_or_leads_astray_is_refused(
    said: dict[str, Any],
) -> None:
    async with identity_provider() as provider:
        provider.discovery = said
        desk = Desk(provider)
        assert await desk.user() == ""
        assert provider.asked == 0


async def test_a_jwks_by_its_own_address_needs_no_discovery() -> None:
    async with identity_provider() as provider:
        provider.discovery = {"issuer": "of another"}
        desk = Desk(provider, jwks=f"{provider.url}/jwks")
        assert await desk.user() == "ada@kit.edu"


async def test_a_providers_keys_sign_for_its_own_issuer_only() -> None:
    async with identity_provider() as provider, identity_provider() as other:
        desk = Desk(provider)
        assert await desk.user()
        posing = {"Authorization": "Bearer " + signed({"iss": other.url})}
        await desk.ring.prepare(posing, desk.now_s)
        with pytest.raises(NotAuthenticated, match="issuer"):
            desk.ring.authenticate(posing, int(time.time()))
        assert other.asked == 0


async def test_a_server_fetches_keys_for_its_callers_and_stops_with_none_under_way() -> None:
    async with identity_provider() as provider:
        desk = Desk(provider)
        async with serving(authenticator=desk.ring) as server:
            asked = {"json": {}, "headers": desk.headers()}
            status, _, body = await server.call("POST", "/v1/requests/list", **asked)
            assert status == 200
            strange = desk.headers(kid="two", algorithm="ES256", key=EC_KEY)
            status, _, body = await server.call(
                "POST", "/v1/requests/list", json={}, headers=strange
            )
            assert (status, body["code"]) == (401, "not-authenticated")


@pytest.mark.filterwarnings("ignore")
async def test_the_tokens_of_a_real_openid_provider_are_believed() -> None:
    """Another project's provider: discovery, the code flow of a browser, and an ID token by RS256."""
    with warnings.catch_warnings(record=True):  # Of what it imports itself.
        import oidc_provider_mock

    with oidc_provider_mock.run_server_in_thread() as running:
        issuer = f"http://localhost:{running.server_port}"
        terms = KeyTerms(
            issuer,
            vouching=VouchedNames(realm="campus"),
            claims=ClaimNames(audiences=("kalends-cli",), scopes={"use": ("*",)}),
            longest_s=3_600,
        )
        ring = KeyRing([], "npaci", providers=[Provider(issuer, terms)])
        headers = {"Authorization": f"Bearer {await _id_token(issuer)}"}
        await ring.prepare(headers, 0.0)
        caller = ring.authenticate(headers, int(time.time()))
        assert caller.principal.user == "ada@campus"
        assert caller.scopes == {"use"}
        await ring.close()


async def _id_token(issuer: str) -> str:
    back = "http://localhost:1/back"
    asked = {
        "client_id": "kalends-cli",
        "redirect_uri": back,
        "response_type": "code",
        "scope": "openid",
    }
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{issuer}/.well-known/openid-configuration") as response:
            found = await response.json()
        async with http.post(
            found["authorization_endpoint"],
            params=asked,
            data={"sub": "ada"},
            allow_redirects=False,
        ) as response:
            [code] = parse_qs(urlsplit(response.headers["Location"]).query)["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back,
                "client_id": "kalends-cli", "client_secret": "any"}  # fmt: skip
        async with http.post(found["token_endpoint"], data=form) as response:
            token: str = (await response.json())["id_token"]
            assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token)
            return token


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.booleans(), st.booleans()), max_size=60))
def test_tries_keep_their_distance_and_old_sets_are_tried_again(
    steps: list[tuple[float, bool, bool]],
) -> None:
    times, now_s, tried = FetchTimes(), 0.0, []
    for pause_s, unknown, comes in steps:
        now_s += pause_s
        if times.due(now_s, unknown):
            assert not tried or now_s - tried[-1] >= TRY_EVERY_S
            tried.append(now_s)
            times = times._replace(tried_s=now_s, fetched_s=now_s if comes else times.fetched_s)
        elif now_s - times.fetched_s >= FRESH_S or unknown:
            assert now_s - tried[-1] < TRY_EVERY_S
    assert FetchTimes().due(0.0, False)


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://login.kit.edu/realms/main", True), ("http://127.0.0.1:8080", True),
        ("http://localhost/x", True), ("http://[::1]:1/x", True), ("http://login.kit.edu", False),
        ("http://127.0.0.1.evil.example", False), ("ftp://localhost", False), ("https://", False),
        ("https://login.kit.edu/keys?p=main", True), ("https://login.kit.edu/keys?p=a#b", False),
        ("", False), ("https://a@b.example", False), ("https://[::1", False), ("file:///etc/passwd", False),
    ],
)  # fmt: skip
def test_keys_are_fetched_over_tls_or_from_this_host(url: str, fine: bool) -> None:
    if fine:
        check_fetched(url, "here")
        return
    with pytest.raises(InvalidInput):
        check_fetched(url, "here")


async def test_a_server_says_where_its_users_may_get_a_token(tmp_path: Path) -> None:
    """What a program needs for a login, in the description that is open to all."""
    write_key_pair(tmp_path / "people")
    text = (
        '[broker]\nname = "npaci"\nstore = "b.db"\n[[broker.keys]]\nfile = "people.pub"\n'
        '[[broker.keys]]\nopenid = "https://login.kit.example/main/"\nrealm = "kit.example"\n'
        'client = "kalends"\nclaims = { audiences = ["npaci-api"] }\n'
        '[[broker.keys]]\njwks = "https://keys.example/jwks"\nissuer = "https://other.example"\n'
    )
    broker = load_configuration(text, tmp_path).broker
    assert broker is not None
    authenticator = authenticator_of(broker, lambda about, problem: None)
    async with serving(authenticator=authenticator) as server:
        _, _, described = await server.call("GET", "/v1/openapi.json", headers={})
    schemes = described["components"]["securitySchemes"]
    assert schemes["openid-1"] == {
        "type": "openIdConnect",
        "openIdConnectUrl": "https://login.kit.example/main/.well-known/openid-configuration",
        "x-realm": "kit.example", "x-audiences": ["npaci-api"], "x-client": "kalends",
    }  # fmt: skip
    assert schemes.keys() == {"token", "openid-1"}
    security = described["paths"]["/v1/requests"]["post"]["security"]
    assert security == [{"token": ["use"]}, {"openid-1": ["use"]}]
