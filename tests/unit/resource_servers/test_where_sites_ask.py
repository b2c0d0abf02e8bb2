"""A site asks what was decided where its owner lets it, with the certificates that its owner names."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from certificates import Authority
from structlog.testing import capture_logs
from tests.protocol_support import Site, visit, want
from tests.protocol_support import rid as request_of

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.paths import INQUIRE_PATH
from kalends.core.errors import RefusalCode
from kalends.resource_servers.neighbours.peers import PeerCalls
from kalends.serving.auth.addresses import AllowedAddresses
from kalends.serving.auth.peer_auth import trust_in
from kalends.serving.http.runner import tls_context
from kalends.serving.logs import get_logger

INQUIRE = m.Inquire(rid=request_of(1), att=1, site="sdsc", secret="s" * 32)
OUTCOME = m.Outcome(rid=request_of(1), att=1, outcome="abort")


class Broker:
    """Answers inquiries, and keeps who has shown which certificate; or sends who asks elsewhere."""

    def __init__(self) -> None:
        self.url = ""
        self.shown: list[Any] = []
        self.elsewhere = ""

    async def inquire(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        self.shown.append(request.transport.get_extra_info("peercert"))
        if self.elsewhere:
            return web.Response(status=307, headers={"Location": self.elsewhere + INQUIRE_PATH})
        return web.Response(body=codec.encode_msgpack(OUTCOME), content_type=codec.MSGPACK)


@asynccontextmanager
async def broker(tls: ssl.SSLContext | None = None) -> AsyncIterator[Broker]:
    running = Broker()
    application = web.Application()
    application.router.add_post(INQUIRE_PATH, running.inquire)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        scheme = "https" if tls else "http"
        running.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
        yield running
    finally:
        await runner.cleanup()


async def answered(url: str, allowed: AllowedAddresses, tls: Any = True) -> list[str]:
    """Return from where an answer came to one question at `url`, and why none did."""
    came: list[str] = []
    with capture_logs() as logged:
        calls = PeerCalls(
            lambda where, _: came.append(where), get_logger(role="site", name="sdsc"), allowed, tls
        )
        calls.ask(url, INQUIRE)
        while calls._tasks:
            await asyncio.wait(set(calls._tasks))
        await calls.close()
    return came or [each["event"] for each in logged]


async def test_a_site_asks_only_where_its_owner_lets_it() -> None:
    async with broker() as asked:
        for allowed, says in (
            (AllowedAddresses(at_home=True), asked.url),
            (AllowedAddresses((asked.url,)), asked.url),
            (AllowedAddresses(("https://*.example.org",)), "address_not_allowed"),
            (AllowedAddresses(), "address_not_allowed"),
        ):
            assert await answered(asked.url, allowed) == [says]
        assert len(asked.shown) == 2


async def test_a_name_of_the_sites_own_host_is_as_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name is looked up only when it is called, so its address is checked then."""
    look_up = socket.getaddrinfo

    def found(host: Any, *rest: Any, **named: Any) -> Any:
        return look_up("127.0.0.1" if host == "npaci.example" else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    async with broker() as asked:
        url = f"http://npaci.example:{asked.url.rpartition(':')[2]}"
        assert await answered(url, AllowedAddresses(at_home=True)) == [url]
        assert await answered(url, AllowedAddresses()) == ["no_answer"]
        assert len(asked.shown) == 1


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f000001"])
async def test_a_number_is_no_name_of_a_host(host: str) -> None:
    async with broker() as asked:
        url = f"http://{host}:{asked.url.rpartition(':')[2]}"
        for allowed in (AllowedAddresses(), AllowedAddresses(at_home=True)):
            assert await answered(url, allowed) == ["address_not_allowed"]
        assert asked.shown == []


async def test_an_answer_that_leads_elsewhere_is_none() -> None:
    async with broker() as asked, broker() as other:
        asked.elsewhere = other.url
        assert await answered(asked.url, AllowedAddresses(at_home=True)) == ["no_answer"]
        assert (len(asked.shown), other.shown) == (1, [])


async def test_inquiries_trust_the_authority_that_the_owner_names_and_show_its_certificate(
    tmp_path: Path,
) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    pem, ours = authority.write("broker"), authority.write("sdsc", ["sdsc.example"])
    home = AllowedAddresses(at_home=True)
    async with broker(tls_context(pem, pem, authority.path)) as asked:
        believed = trust_in(authority.path, "ca", (ours, ours))
        assert await answered(asked.url, home, believed) == [asked.url]
        [shown] = asked.shown
        assert ("DNS", "sdsc.example") in shown["subjectAltName"]
        for distrusted in (True, trust_in(stranger.path, "ca")):
            assert await answered(asked.url, home, distrusted) == ["no_answer"]
        assert len(asked.shown) == 1


class GuardedSite(Site):
    addresses = AllowedAddresses(("https://*.npaci.example",))


def test_a_promise_is_not_given_to_who_may_never_be_asked_about_it() -> None:
    site = GuardedSite()
    inner = ("http://169.254.169.254", "http://localhost:6379")
    for message in (
        visit(1, want("one", 0, 60), mode="vote", coords=inner),
        visit(2, want("one", 0, 60), mode="hold", coords=inner),
    ):
        answer = site.answer(message)
        assert isinstance(answer, m.Visited)
        [refusal] = answer.refusals
        assert refusal.code == RefusalCode.NOT_ALLOWED
        assert "http://169.254.169.254" in refusal.detail
        assert site.states(int(message.stamp)) == []


def test_of_a_brokers_addresses_those_that_are_allowed_are_kept() -> None:
    site = GuardedSite()
    good = "https://two.npaci.example"
    site.receive(visit(1, want("one", 0, 60), mode="vote", coords=("http://127.0.0.1:1", good)))
    assert site.states(1) == ["prepared"]
    asked = set()
    for _ in range(20):
        asked |= {
            send.to for send in site.advance(10_000).sends if isinstance(send.message, m.Inquire)
        }
    assert asked == {good}
