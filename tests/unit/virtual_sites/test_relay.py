"""The way to the members of a virtual site: what comes through is the same as straight from the member."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from tests.support.tokens import token
from yarl import URL

import kalends
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.paths import MEMBERS_PATH, WAY_HEADER
from kalends.contract.versions import version_in
from kalends.core.errors import NotFound, Unavailable
from kalends.demo.together import until
from kalends.rim.redirects import answer_headers
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.servers.virtual import build_virtual
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.configuration import load_configuration
from kalends.serving.http.application import connections_of
from kalends.serving.http.runner import Service, listen

SITE = """
[site]
name = "{name}"
store = "{name}.sqlite"
{keys}
[[site.resources]]
name = "sp2"
capacity = 8
"""
VIRTUAL = """
[virtual]
name = "{name}"
listen = "127.0.0.1:0"
{keys}
"""
MEMBER = """
[[virtual.members]]
name = "{name}"
url = "{url}"
"""


@asynccontextmanager
async def serving(application: web.Application) -> AsyncIterator[str]:
    listening = await listen(Service("a server", application, "127.0.0.1:0"))
    try:
        yield listening.url
    finally:
        await listening.stop()


def site(directory: Path, name: str, public: Path | None = None) -> web.Application:
    keys = f'[[site.keys]]\nfile = "{public}"\nscopes = ["use", "broker"]' if public else ""
    configuration = load_configuration(SITE.format(name=name, keys=keys), directory).site
    assert configuration is not None
    return build_site(configuration, version="2.5")


def virtual(
    directory: Path, name: str, members: dict[str, str], public: Path | None = None
) -> web.Application:
    keys = f'[[virtual.keys]]\nfile = "{public}"\nscopes = ["broker"]' if public else ""
    listed = "".join(MEMBER.format(name=each, url=url) for each, url in members.items())
    configuration = load_configuration(VIRTUAL.format(name=name, keys=keys) + listed, directory)
    assert configuration.virtual is not None
    return build_virtual(configuration.virtual, version="1")


def broker(directory: Path, virtual_name: str, url: str, *ways: str) -> web.Application:
    text = f"""
[broker]
name = "npaci"
store = "npaci.sqlite"
[[broker.sites]]
name = "{virtual_name}"
url = "{url}"
members = {list(ways)}
"""
    configuration = load_configuration(text, directory).broker
    assert configuration is not None
    return build_broker(configuration, version="1")


@asynccontextmanager
async def nested(directory: Path) -> AsyncIterator[tuple[str, str]]:
    """``ctc`` of ``campus`` of ``midwest``; yields the address of ``midwest``, and that of ``ctc`` by it."""
    async with (
        serving(site(directory, "ctc")) as ctc,
        serving(virtual(directory, "campus", {"ctc": ctc})) as campus,
        serving(virtual(directory, "midwest", {"campus": campus})) as midwest,
    ):
        yield midwest, f"{midwest}{MEMBERS_PATH}/campus{MEMBERS_PATH}/ctc"


async def test_calls_of_users_reach_a_member_of_a_member(tmp_path: Path) -> None:
    async with nested(tmp_path) as (_, ctc), kalends.connect(ctc, user="ann") as client:
        assert (await client.health()).name == "ctc"
        assert [each.name for each in (await client.resources()).resources] == ["ctc/sp2"]


async def test_refusals_of_a_member_come_back_as_it_has_said_them(tmp_path: Path) -> None:
    async with nested(tmp_path) as (_, ctc), kalends.connect(ctc, user="ann") as client:
        with pytest.raises(NotFound, match="ctc/nothing"):
            await client.calendar("ctc/nothing", end="now+1h")


async def test_who_asks_a_virtual_site_itself_is_told_what_it_is_and_whom_to_ask(
    tmp_path: Path,
) -> None:
    async with nested(tmp_path) as (midwest, _), kalends.connect(midwest, user="ann") as client:
        asked = [
            client.resources(),
            client.calendar("ctc/sp2", end="now+1h"),
            client.find("ctc/sp2", duration="1h"),
            client.book("ctc/sp2", duration="1h"),
            client.jobs("ctc/sp2"),
            client.list(),
        ]
        for call in asked:
            with pytest.raises(NotFound, match="midwest is a virtual site") as told:
                await call
            assert "ask a broker" in told.value.remedy


async def test_a_broker_books_at_a_member_and_everybody_sees_the_way(tmp_path: Path) -> None:
    async with (
        nested(tmp_path) as (midwest, _),
        serving(broker(tmp_path, "midwest", midwest, "campus/ctc")) as npaci,
        kalends.connect(npaci, user="ann") as client,
    ):
        await until(
            client.resources, lambda answer: answer.sites[0].state == "up", "no session with ctc"
        )
        booked = await client.book("ctc/sp2:4", duration="1h", window=("now", "now+1d"))
        assert booked.state == "reserved"
        (status,) = (await client.resources()).sites
        assert (status.site, status.through) == ("ctc", "midwest/campus")
        async with kalends.connect(midwest, user="npaci") as operator:
            (ctc,) = (await operator.bidders()).bidders
        assert ctc.status.site == "campus/ctc"
        assert ctc.status.state == "up"


async def test_a_member_that_is_away_is_said_to_be(
    tmp_path: Path,
) -> None:
    async with serving(site(tmp_path, "ctc")) as ctc:
        pass
    async with serving(virtual(tmp_path, "midwest", {"ctc": ctc})) as midwest:
        member = f"{midwest}{MEMBERS_PATH}/ctc"
        async with kalends.connect(member, user="ann", timeout_s=0.5) as client:
            with pytest.raises(Unavailable):
                await client.resources()
        async with aiohttp.ClientSession() as http:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(f"{member}/v1/session")
            assert refused.value.status == 503
            async with http.get(f"{member}/v1/resources") as answer:
                assert answer.status == 503
                assert "ctc cannot be reached from midwest" in (await answer.json())["detail"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nobody/v1/resources", 404),
        ("/ctc/metrics", 404),
        ("/ctc/v1/%2e%2e/metrics", 404),
        ("/ctc/v1//resources", 404),
        ("/ctc/healthz", 200),
        ("/ctc/v1/resources", 200),
        ("/ctc/v1/nothing", 404),
        ("/ctc/v1/x/v1/members/foo/metrics", 404),
        ("/ctc/v1/%2e%2e/%2e%2e/metrics", 404),
        ("/ctc/v1/resources?x=1", 400),
    ],
)
async def test_only_the_calls_of_members_are_handed_on(
    tmp_path: Path, path: str, status: int
) -> None:
    async with (
        serving(site(tmp_path, "ctc")) as ctc,
        serving(virtual(tmp_path, "midwest", {"ctc": ctc})) as midwest,
        aiohttp.ClientSession(headers={"Kalends-User": "ann"}) as http,
        http.get(URL(f"{midwest}{MEMBERS_PATH}{path}", encoded=True)) as answer,
    ):
        assert answer.status == status


async def test_what_is_checked_of_a_path_is_what_is_handed_on(tmp_path: Path) -> None:
    async with (
        serving(site(tmp_path, "ctc")) as ctc,
        serving(virtual(tmp_path, "midwest", {"ctc": ctc})) as midwest,
        aiohttp.ClientSession(headers={"Kalends-User": "ann"}) as http,
    ):
        path = "/v1/%6dembers/ctc/v1/x/v1/members/foo/metrics"
        async with http.get(URL(f"{midwest}{path}", encoded=True)) as answer:
            assert answer.status == 404


class Member:
    """A member that answers as it likes."""

    def __init__(self) -> None:
        self.cookies: list[str] = []
        self.hangs = asyncio.Event()
        self.application = web.Application()
        self.application.router.add_get("/v1/short", self.short)
        self.application.router.add_get("/v1/cookie", self.cookie)
        self.application.router.add_get("/v1/packed", self.packed)
        self.application.router.add_get("/v1/hang", self.hang)
        self.application.router.add_get("/v1/session", self.session)

    async def short(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 1_000
        await response.prepare(request)
        await response.write(b"beginning")
        assert request.transport is not None
        request.transport.close()
        return response

    async def cookie(self, request: web.Request) -> web.Response:
        self.cookies.append(request.headers.get("Cookie", ""))
        response = web.Response()
        response.set_cookie("sess", "of-somebody")
        return response

    async def packed(self, request: web.Request) -> web.Response:
        response = web.json_response({"a": 1})
        response.enable_compression()
        return response

    async def hang(self, request: web.Request) -> web.Response:
        await self.hangs.wait()
        return web.Response()

    async def session(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.send_bytes(b"x" * (5 * 1024 * 1024))
        return socket


@asynccontextmanager
async def before(
    member: Member, directory: Path
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """A virtual site before `member`; yields the member's address by it, and who calls it."""
    runner = web.AppRunner(member.application)
    await runner.setup()
    tcp = web.TCPSite(runner, "127.0.0.1", 0)
    await tcp.start()
    _, port = runner.addresses[0][:2]
    try:
        async with (
            serving(virtual(directory, "midwest", {"odd": f"http://127.0.0.1:{port}"})) as midwest,
            aiohttp.ClientSession(headers={"Kalends-User": "ann"}) as http,
        ):
            yield f"{midwest}{MEMBERS_PATH}/odd/v1", http
    finally:
        await runner.cleanup()


async def test_an_answer_that_breaks_off_is_not_gone_on_with(tmp_path: Path) -> None:
    async with before(Member(), tmp_path) as (odd, http):
        async with http.get(f"{odd}/short") as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        async with http.get(f"{odd}/packed") as answer:
            assert await answer.json() == {"a": 1}


@pytest.mark.parametrize(
    ("path", "known"), [("healthz", False), ("v1/openapi.json", False), ("v1/resources", True)]
)
async def test_who_has_proved_nothing_stays_a_stranger_at_the_door(
    tmp_path: Path, path: str, known: bool
) -> None:
    async with serving(site(tmp_path, "ctc")) as ctc:
        application = virtual(tmp_path, "midwest", {"ctc": ctc})
        marked: list[object] = []
        connections_of(application).known = marked.append  # type: ignore[method-assign]
        async with (
            serving(application) as midwest,
            aiohttp.ClientSession(headers={"Kalends-User": "ann"}) as http,
            http.get(f"{midwest}{MEMBERS_PATH}/ctc/{path}") as answer,
        ):
            assert answer.status == 200
        assert bool(marked) == known


async def test_no_cookie_of_one_caller_is_sent_with_anothers_call(tmp_path: Path) -> None:
    member = Member()
    async with before(member, tmp_path) as (odd, _):
        for _ in range(2):
            async with (
                aiohttp.ClientSession(headers={"Kalends-User": "ann"}) as http,
                http.get(f"{odd.replace('127.0.0.1', 'localhost')}/cookie") as answer,
            ):
                assert "Set-Cookie" not in answer.headers
    assert member.cookies == ["", ""]


async def test_a_call_that_its_caller_has_left_does_not_wait_for_its_member(tmp_path: Path) -> None:
    member = Member()
    async with before(member, tmp_path) as (odd, http):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), http.get(f"{odd}/hang"):
                pass
        metrics = f"{odd.partition(MEMBERS_PATH)[0]}/metrics"

        async def flying() -> str:
            async with http.get(metrics) as answer:
                return next(
                    line
                    for line in (await answer.text()).splitlines()
                    if line.startswith("kalends_calls_in_flight")
                )

        await until(flying, lambda line: line.endswith(" 0.0"), "it still waits for the member")
        member.hangs.set()


async def test_what_is_too_large_for_a_frame_is_said_to_be(tmp_path: Path) -> None:
    async with (
        before(Member(), tmp_path) as (odd, http),
        http.ws_connect(f"{odd}/session") as socket,
    ):
        await socket.send_bytes(b"go on")
        assert (await socket.receive()).data == 1009


async def test_a_site_link_is_told_why_it_is_refused(tmp_path: Path) -> None:
    async with (
        serving(site(tmp_path, "ctc")) as ctc,
        serving(
            virtual(tmp_path, "midwest", {"ctc": ctc, "away": "http://127.0.0.1:9"})
        ) as midwest,
        serving(broker(tmp_path, "midwest", midwest, "away", "nix")) as npaci,
        kalends.connect(npaci, user="ann") as client,
    ):
        answer = await until(
            client.resources,
            lambda answer: all(each.detail != "not connected yet" for each in answer.sites),
            "no link has tried",
        )
        details = {each.site: each.detail for each in answer.sites}
        assert details["away"] == "away cannot be reached from midwest"
        assert details["nix"] == "midwest has no member 'nix'"
    async with (
        serving(virtual(tmp_path, "midwest", {"ctc": "http://127.0.0.1:9"})) as midwest,
        aiohttp.ClientSession() as http,
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(f"{midwest}/v1/session")
        assert refused.value.headers is not None
        assert "name its `members`" in refused.value.headers["Kalends-Why"]


async def test_who_goes_round_in_a_circle_is_told_so(tmp_path: Path) -> None:
    async with (
        nested(tmp_path) as (midwest, _),
        aiohttp.ClientSession(headers={"Kalends-User": "ann"}) as http,
    ):
        for way in ("midwest", "campus", "a, b, c"):
            async with http.get(
                f"{midwest}{MEMBERS_PATH}/campus{MEMBERS_PATH}/ctc/v1/resources",
                headers={WAY_HEADER: way},
            ) as answer:
                assert answer.status == 409
                assert "is not a path to a site" in (await answer.json())["detail"]


async def test_members_that_believe_everybody_on_their_host_believe_nobody_from_outside(
    tmp_path: Path,
) -> None:
    public = write_key_pair(tmp_path / "key")
    async with (
        serving(site(tmp_path, "ctc")) as ctc,
        serving(virtual(tmp_path, "midwest", {"ctc": ctc}, public)) as midwest,
        aiohttp.ClientSession(headers={"Kalends-User": "ann"}) as http,
        http.get(f"{midwest}{MEMBERS_PATH}/ctc/v1/resources") as answer,
    ):
        assert answer.status == 401


async def test_a_member_decides_itself_whom_it_believes(tmp_path: Path) -> None:
    public = write_key_pair(tmp_path / "key")
    key = load_private_key(tmp_path / "key")

    def headers(audience: str) -> dict[str, str]:
        text = token(key, "npaci", (audience,), ("broker",), issuer="npaci")
        return {"Authorization": f"Bearer {text}"}

    async with (
        serving(site(tmp_path, "ctc", public)) as ctc,
        serving(virtual(tmp_path, "midwest", {"ctc": ctc}, public)) as midwest,
        aiohttp.ClientSession() as http,
    ):
        address = f"{midwest}{MEMBERS_PATH}/ctc/v1/session"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(address, headers=headers("midwest"))
        assert refused.value.status == 401
        assert refused.value.headers is not None
        assert "Date" in refused.value.headers
        async with http.ws_connect(address, headers=headers("ctc")) as socket:
            frame = msgspec.msgpack.decode((await socket.receive()).data, type=m.FrameToBroker)
        hello = frame.messages[0]
        assert isinstance(hello, m.Hello)
        assert hello.site == "ctc"


async def test_a_manager_answers_brokers_and_nobody_else(tmp_path: Path) -> None:
    public = write_key_pair(tmp_path / "key")
    key = load_private_key(tmp_path / "key")
    candidates = tuple(m.MemberBidder(f"m0/n{number}") for number in range(5))
    rid = "01a3185c-53e8-7000-8000-000000000064"
    body = codec.encode_msgpack(m.Refer(rid=rid, att=1, count=2, candidates=candidates))
    application = virtual(tmp_path, "midwest", {"m0": "http://127.0.0.1:9"}, public)
    async with serving(application) as midwest, aiohttp.ClientSession() as http:
        for scope, status in (("use", 403), ("broker", 200)):
            text = token(key, "npaci", ("midwest",), (scope,))
            headers = {"Authorization": f"Bearer {text}", "Content-Type": codec.MSGPACK}
            async with http.post(f"{midwest}/v1/refer", data=body, headers=headers) as answer:
                assert answer.status == status
                said = await answer.read()
        referred = codec.decode_msgpack(said, m.Referred)
        assert len(referred.ways) == 2
        for wrong in (b"", b"nonsense", codec.encode_msgpack({"kind": "refer"})):
            async with http.post(f"{midwest}/v1/refer", data=wrong, headers=headers) as answer:
                assert answer.status in (400, 422)


async def test_a_virtual_site_that_stops_ends_its_sessions_and_says_why(tmp_path: Path) -> None:
    async with (
        serving(site(tmp_path, "ctc")) as ctc,
        aiohttp.ClientSession(headers={"Kalends-User": "npaci"}) as http,
    ):
        application = virtual(tmp_path, "midwest", {"ctc": ctc})
        listening = await listen(Service("midwest", application, "127.0.0.1:0"))
        address = f"{listening.url}{MEMBERS_PATH}/ctc/v1/session"
        async with http.ws_connect(address) as socket:
            await socket.receive()
            stopping = asyncio.create_task(listening.stop())
            message = await socket.receive()
            assert (message.data, message.extra) == (1001, "the virtual site is stopping")
            await stopping


async def test_a_broker_and_a_member_agree_on_versions_through_virtual_sites(
    tmp_path: Path,
) -> None:
    async with (
        nested(tmp_path) as (_, member),
        aiohttp.ClientSession(headers={"Kalends-User": "npaci-1"}) as http,
    ):
        path = f"{member}/v1/session"
        async with http.ws_connect(path) as socket, http.get(f"{member}/healthz") as answer:
            said = version_in(answer_headers(socket))
            assert said == version_in(answer.headers)
            assert said.number == "2.5"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(path, headers={"Kalends-Version": "<script>"})
        assert refused.value.status == 400
        assert "not a version" in (refused.value.headers or {})["Kalends-Why"]
