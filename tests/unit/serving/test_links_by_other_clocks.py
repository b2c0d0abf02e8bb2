"""A link between servers does not hang on their clocks agreeing: a token is made for the other's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.unit.broker.test_broker_site_link import HELLO, Site, linked
from tests.unit.serving.test_sessions_that_last import Clocks, site_with

from kalends.core.errors import NotAuthenticated
from kalends.serving.auth.keys import write_key_pair
from kalends.serving.auth.peer_auth import TOKEN_S, Proof, server_proofs
from kalends.serving.auth.public_keys import KeyTerms, load_trusted_keys
from kalends.serving.auth.tokens import KeyRing

DAY_S = 86_400
NOW_S = 1_800_000_000


class StrictSite(Site):
    """Believes tokens of the key `public` by a clock that is `ahead_s` ahead."""

    def __init__(self, public: Path, ahead_s: int) -> None:
        super().__init__()
        keys = load_trusted_keys(public, KeyTerms("", frozenset({"broker"})))
        self.ring = KeyRing(keys, "sdsc")
        self.ahead_s = ahead_s
        self.refused = 0

    async def session(self, request: web.Request) -> web.StreamResponse:
        now_s = int(time.time()) + self.ahead_s
        try:
            self.ring.authenticate(request.headers, now_s)
        except NotAuthenticated:
            self.refused += 1
            return web.Response(status=401, headers={"Date": formatdate(now_s, usegmt=True)})
        return await super().session(request)


def proof_for(directory: Path, now_s: Callable[[], int]) -> tuple[Proof, Path]:
    public = write_key_pair(directory / "key")
    return server_proofs(directory / "key", user="npaci-1", issuer="npaci", now_s=now_s)(
        "sdsc"
    ), public


@pytest.mark.parametrize("ahead_s", [-4_000 * DAY_S, -3_600, -61, 61, 290, 310, 40 * DAY_S])
async def test_a_site_whose_clock_is_wrong_is_linked_at_the_second_try(
    ahead_s: int, tmp_path: Path
) -> None:
    proof, public = proof_for(tmp_path, lambda: int(time.time()))
    site = StrictSite(public, ahead_s)
    async with linked(site, proof) as (_, user):
        assert await user.said.get() == HELLO
        assert site.refused <= 1
    async with linked(site, proof) as (_, user):
        assert await user.said.get() == HELLO
        assert site.refused <= 1


async def test_a_site_whose_clock_is_set_right_is_linked_again(tmp_path: Path) -> None:
    proof, public = proof_for(tmp_path, lambda: int(time.time()))
    site = StrictSite(public, 40 * DAY_S)
    async with linked(site, proof) as (_, user):
        assert await user.said.get() == HELLO
        site.ahead_s = 0
    async with linked(site, proof) as (_, user):
        assert await user.said.get() == HELLO
    assert site.refused == 2


def test_a_token_for_another_clock_is_for_that_server_and_that_moment_only(tmp_path: Path) -> None:
    proof, public = proof_for(tmp_path, lambda: NOW_S)
    keys = load_trusted_keys(public, KeyTerms("", frozenset({"broker"})))
    proof.refused(formatdate(NOW_S + DAY_S, usegmt=True))
    token = proof.token()
    assert KeyRing(keys, "sdsc").verify(token, NOW_S + DAY_S).principal.user == "npaci-1"
    for audience, now_s in (
        ("ncsa", NOW_S + DAY_S),
        ("sdsc", NOW_S),
        ("sdsc", NOW_S + DAY_S + TOKEN_S),
    ):
        with pytest.raises(NotAuthenticated):
            KeyRing(keys, audience).verify(token, now_s)


@pytest.mark.parametrize(
    "date",
    [
        "", "nonsense", "Thu, 99 Foo 2026 99:99:99 GMT", f"Thu, 01 Jan {'9' * 30} 00:00:00 GMT",
        f"Thu, 01 Jan 2026 00:00:00 +{'9' * 30}",
    ],
)  # fmt: skip
def test_a_refusal_without_a_date_changes_nothing(date: str, tmp_path: Path) -> None:
    proof, public = proof_for(tmp_path, lambda: NOW_S)
    keys = load_trusted_keys(public, KeyTerms("", frozenset({"broker"})))
    proof.refused(date)
    KeyRing(keys, "sdsc").verify(proof.token(), NOW_S)


async def test_a_shipped_site_says_what_its_clock_shows_when_it_refuses(tmp_path: Path) -> None:
    proof, public = proof_for(tmp_path, lambda: int(time.time()) - DAY_S)
    async with site_with(tmp_path, Clocks(), public) as (url, http):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(f"{url}/v1/session", headers=proof.headers())
        assert refused.value.status == 401
        assert refused.value.headers is not None
        proof.refused(refused.value.headers["Date"])
        async with http.ws_connect(f"{url}/v1/session", headers=proof.headers()) as socket:
            assert (await socket.receive()).type is aiohttp.WSMsgType.BINARY
