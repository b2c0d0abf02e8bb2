"""Where a server may call, as its owner says: by whole parts of an address, never by how it looks."""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.rim.redirects import refused_redirects
from kalends.serving.auth.addresses import AllowedAddresses, check_pattern, outer_resolver

OPEN = AllowedAddresses()
HOME = AllowedAddresses(at_home=True)


@pytest.mark.parametrize(
    ("url", "outside", "home"),
    [
        ("https://broker.example.org:7100", True, True), ("http://10.0.0.3:7100", True, True),
        ("http://127.0.0.1:7100", False, True), ("http://localhost:7100", False, True),
        ("http://localhost.:7100", False, True), ("http://LOCALHOST", False, True),
        ("http://[::1]:7100", False, True), ("http://127.9.9.9", False, True),
        ("http://[::ffff:127.0.0.1]", False, True), ("http://0.0.0.0:7100", False, True),
        ("http://169.254.169.254/latest", False, True), ("http://[fe80::1]", False, True),
        ("http://224.0.0.1", False, True), ("http://[64:ff9b::a9fe:a9fe]/latest", False, True),
        ("http://[2002:7f00:1::]", False, True), ("http://[64:ff9b::a00:3]", True, True),
        ("ftp://broker.example.org", False, False), ("http://", False, False), ("", False, False),
        ("http://user@broker.example.org", False, False), ("http://@broker.example.org", False, False),
        ("http://broker.example.org/?x=1", False, False), ("http://broker.example.org/#x", False, False),
        ("http://broker.example.org:99999", False, False), ("http://broker.example.org:x", False, False),
        ("http://broker.example.org/../x", False, False), ("http://broker.example.org/%2e", False, False),
        ("http://broker.example.org\\@127.0.0.1", False, False), ("http://a b", False, False),
        ("http://bröker.example", False, False), ("file:///etc/passwd", False, False),
        ("http://broker\n.example.org", False, False),
        ("http://2130706433:7100", False, False), ("http://127.1", False, False),
        ("http://0177.0.0.1", False, False), ("http://0x7f000001", False, False),
        ("http://169.254.43518/latest", False, False), ("http://127.0.0.1.", False, True),
    ],
)  # fmt: skip
def test_without_a_list_a_server_calls_anywhere_but_at_its_own_host(
    url: str, outside: bool, home: bool
) -> None:
    assert (url in OPEN, url in HOME) == (outside, home)


LISTED = AllowedAddresses(
    ("https://*.npaci.example", "https://kit.example:7100/kalends", "http://127.0.0.1:7100")
)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://broker.npaci.example", True), ("https://broker.npaci.example:443/", True),
        ("https://a.b.npaci.example", True), ("https://npaci.example", False),
        ("http://broker.npaci.example", False), ("https://broker.npaci.example:7100", False),
        ("https://evil.example/x.npaci.example", False), ("https://evil.example?.npaci.example", False),
        ("https://evil.example#.npaci.example", False), ("https://x.npaci.example@evil.example", False),
        ("https://x.npaci.example.evil.example", False),
        ("https://kit.example:7100/kalends", True), ("https://kit.example:7100/kalends/a", True),
        ("https://kit.example:7100/kalendsx", False), ("https://kit.example:7100", False),
        ("http://127.0.0.1:7100", True), ("http://127.0.0.1:7101", False), ("http://localhost:7100", False),
    ],
)  # fmt: skip
def test_with_a_list_a_server_calls_at_what_is_like_one_of_it(url: str, allowed: bool) -> None:
    assert (url in LISTED) == allowed


@given(st.text(max_size=60))
def test_no_text_breaks_the_check_nor_passes_a_list_by_chance(text: str) -> None:
    assert text not in LISTED or "://" in text
    _ = text in OPEN


@pytest.mark.parametrize(
    "pattern",
    ["*", "https://", "broker.example.org", "https://a.example/*", "ftp://a", "https://a?b"],
)
def test_a_pattern_is_an_address(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        check_pattern(pattern, "to")


@pytest.mark.parametrize("name", ["localhost", "2130706433", "0x7f000001", "127.1"])
async def test_a_name_that_points_at_this_host_is_not_found(name: str) -> None:
    """However it is written: what counts is the address that it stands for."""
    with pytest.raises(OSError, match="this host"):
        await outer_resolver().resolve(name, 80, socket.AF_INET)


async def test_an_outer_address_is_found() -> None:
    [found] = await outer_resolver().resolve("10.0.0.3", 80, socket.AF_INET)
    assert found["host"] == "10.0.0.3"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", ["socket", "call"])
async def test_nobody_who_is_called_sends_the_caller_elsewhere(status: int, kind: str) -> None:
    reached: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        reached.append(request.headers.get("Kalends-User", ""))
        return web.Response()

    async def away(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    application = web.Application()
    application.router.add_get("/", away)
    application.router.add_get("/elsewhere", elsewhere)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    headers = {"Kalends-User": "npaci"}
    try:
        async with aiohttp.ClientSession(trace_configs=[refused_redirects()]) as http:
            call: Any = http.ws_connect if kind == "socket" else http.get
            with pytest.raises(
                aiohttp.ClientError, match=rf"answers with a redirect \(status {status}\)"
            ):
                await call(url, headers=headers)
    finally:
        await runner.cleanup()
    assert reached == []
