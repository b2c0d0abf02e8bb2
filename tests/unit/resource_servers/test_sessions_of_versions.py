"""A site and brokers of other versions: what is agreed on when a session opens, and what is said then."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from tests.support.pretended_features import pretended

from kalends.contract import messages as m
from kalends.contract import versions
from kalends.contract.versions import BASE, ServerVersion, version_in
from kalends.core.features import Feature, Since
from kalends.core.principals import Principal
from kalends.rim.redirects import answer_headers
from kalends.servers.site import build_site
from kalends.serving.configuration import load_configuration
from kalends.serving.http.runner import Service, listen

EPOCHS = Feature("epochs", "starts of sites that are counted")
RULES = Feature("rules", "owners' rules in words")
SITE = """
[site]
name = "sdsc"
store = "sdsc.sqlite"
[[site.resources]]
name = "sp2"
"""


@asynccontextmanager
async def site(
    folder: Path, *features: Feature
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    configuration = load_configuration(SITE, folder).site
    assert configuration is not None
    names = frozenset(each.name for each in features)
    application = build_site(configuration, version="2.0", features=names)
    listening = await listen(Service("site sdsc", application, "127.0.0.1:0"))
    try:
        async with aiohttp.ClientSession(headers={"Kalends-User": "npaci-1"}) as http:
            yield listening.url, http
    finally:
        await listening.stop()


async def heard(
    socket: aiohttp.ClientWebSocketResponse[bool], *messages: m.Message
) -> list[m.Message]:
    """What the site answers to a welcome and these messages, the last of which it surely answers."""
    frame = {"v": 2, "source": "npaci-1", "lc": 0, "messages": [m.Welcome(register="0" * 32)]}
    frame["messages"] += messages  # type: ignore[operator]  # a list
    await socket.send_bytes(msgspec.msgpack.encode(frame))
    found: list[m.Message] = []
    last = messages[-1]
    while not any(getattr(each, "query_id", 0) == getattr(last, "query_id", 1) for each in found):
        packed = (await socket.receive()).data
        found += msgspec.msgpack.decode(packed, type=m.FrameToBroker).messages
    return found


def query(number: int) -> m.Query:
    start = int(time.time()) + 86_400
    want = m.Want("sdsc/sp2", start, start + 3_600, 1)
    return m.Query(query_id=number, principal=Principal("anna"), wants=(want,))


async def test_a_site_says_its_version_in_every_answer_and_to_who_opens_a_session(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, RULES) as (url, http):
        ours = ServerVersion("2.0", frozenset({"rules"}))
        async with http.ws_connect(url + "/v1/session") as socket:
            assert version_in(answer_headers(socket)) == ours
        async with http.get(url + "/healthz") as response:
            assert version_in(response.headers) == ours


@pytest.mark.parametrize(
    ("site_knows", "broker_knows", "is_said"),
    [((RULES,), BASE, False), ((RULES,), ServerVersion("1.0", frozenset({"rules", "x"})), True),
     ((), ServerVersion("3.0", frozenset({"rules"})), False)],
    ids=["an older broker", "one that knows it", "an older site"],
)  # fmt: skip
async def test_a_site_says_only_what_both_know(
    tmp_path: Path, site_knows: tuple[Feature, ...], broker_knows: ServerVersion, is_said: bool
) -> None:
    with pretended({(m.FreeSteps, "steps"): Since(RULES, hint=True)}, {}):
        async with site(tmp_path, *site_knows) as (url, http):
            headers = broker_knows.headers()
            async with http.ws_connect(url + "/v1/session", headers=headers) as socket:
                *_, view = await heard(socket, query(1))
    assert isinstance(view, m.View)
    assert bool(view.views[0].steps) == is_said


async def test_what_cannot_be_said_is_as_lost_and_the_session_goes_on(tmp_path: Path) -> None:
    with pretended({}, {m.Known: EPOCHS}):
        async with site(tmp_path, EPOCHS) as (url, http):  # noqa: SIM117  the session needs the address
            async with http.ws_connect(url + "/v1/session") as socket:
                said = await heard(socket, query(1))
    assert [type(each) for each in said] == [m.Hello, m.View]


async def test_a_broker_that_is_too_old_is_told_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "REQUIRED", (RULES,))
    async with site(tmp_path, RULES) as (url, http):
        for theirs, words in ((BASE, "an older kalends"), (ServerVersion("1.0"), "kalends 1.0")):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(url + "/v1/session", headers=theirs.headers())
            assert refused.value.status == 409
            why = (refused.value.headers or {}).get("Kalends-Why", "")
            assert f"runs {words}, too old for site sdsc, which runs kalends 2.0" in why


async def test_a_broker_whose_version_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with site(tmp_path) as (url, http):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(url + "/v1/session", headers={"Kalends-Version": "<script>"})
    assert refused.value.status == 400
