"""A session between servers outlives every token: idle or busy, and whatever a wall clock does meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.tokens import token
from tests.unit.broker.test_broker_site_link import HELLO, Site, linked

from kalends.broker.sites import site_link
from kalends.contract import messages as m
from kalends.core.errors import NotAllowed, NotAuthenticated
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.servers.site import build_site
from kalends.serving.auth import session_proof
from kalends.serving.auth.callers import Caller
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.peer_auth import Proof
from kalends.serving.auth.session_proof import BELIEVED_S, PROVE_EVERY_S, Belief
from kalends.serving.configuration import load_configuration
from kalends.serving.http.runner import Service, listen

DAY_S = 86_400
WAIT_S = 20.0


class Clocks:
    """The site's, which stand still until a test moves them."""

    def __init__(self) -> None:
        self.monotonic_s = 1_000
        self.wall_s = int(time.time())

    def now(self) -> Moment:
        return Moment(self.monotonic_s * 1000, self.wall_s * 1000)

    def pass_(self, seconds: int) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds


class Broker:
    """The far end of one session with a site that asks for tokens."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse[bool], key: Ed25519PrivateKey
    ) -> None:
        self.socket = socket
        self.key = key
        self._unsaid: list[m.Message] = [m.Welcome(register="0" * 32)]

    async def send(self, *messages: m.Message, proof: str = "") -> None:
        messages, self._unsaid = (*self._unsaid, *messages), []
        frame = {"v": m.WIRE_VERSION, "source": "npaci", "lc": 0, "messages": messages}
        if proof:
            frame["proof"] = proof
        await self.socket.send_bytes(msgspec.msgpack.encode(frame))

    async def is_answered(self, number: int) -> bool:
        """Whether the site answers a question, and has not ended the session."""
        await self.send(m.Query(query_id=number, principal=Principal("anna"), wants=()))
        said: list[m.Message] = []
        while not said:
            message = await self.socket.receive()
            if message.type is aiohttp.WSMsgType.CLOSE:
                return False
            frame = msgspec.msgpack.decode(message.data, type=m.FrameToBroker)
            said = [each for each in frame.messages if not isinstance(each, m.Known)]
        return [getattr(each, "query_id", 0) for each in said] == [number]

    async def closed(self) -> tuple[int, str]:
        message = await self.socket.receive()
        assert message.type is aiohttp.WSMsgType.CLOSE, message
        return message.data, message.extra or ""


def token_of(key: Ed25519PrivateKey, user: str = "npaci", *, audience: str = "sdsc") -> str:
    return token(key, user, (audience,), ("broker",), issuer="npaci", lifetime_s=60)


@asynccontextmanager
async def site_with(
    directory: Path, clocks: Clocks, public: Path | None
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """The address of a site that believes the key `public` (None: access is open), and who calls it."""
    listed = f'[[site.keys]]\nfile = "{public}"\nscopes = ["use", "broker"]' if public else ""
    text = f"""
[site]
name = "sdsc"
store = "sdsc.sqlite"
{listed}
[[site.resources]]
name = "sp2"
"""
    configuration = load_configuration(text, directory).site
    assert configuration is not None
    application = build_site(configuration, version="1", moment=clocks.now)
    listening = await listen(Service("site sdsc", application, "127.0.0.1:0"))
    try:
        async with aiohttp.ClientSession() as http, asyncio.timeout(WAIT_S):
            yield listening.url, http
    finally:
        await listening.stop()


@asynccontextmanager
async def session(
    directory: Path, clocks: Clocks, token: Callable[[Ed25519PrivateKey], str] | None = None
) -> AsyncIterator[Broker]:
    """A broker that has proved who it is once, and has been greeted."""
    public = write_key_pair(directory / "key")
    key = load_private_key(directory / "key")
    headers = {"Authorization": f"Bearer {(token or token_of)(key)}"}
    async with (
        site_with(directory, clocks, public) as (url, http),
        http.ws_connect(f"{url}/v1/session", headers=headers) as socket,
    ):
        await socket.receive()
        yield Broker(socket, key)


async def test_a_session_goes_on_after_the_token_that_opened_it_has_run_out(tmp_path: Path) -> None:
    clocks = Clocks()
    async with session(tmp_path, clocks) as broker:
        clocks.pass_(BELIEVED_S - 1)
        assert await broker.is_answered(1)


async def test_no_token_passes_for_open_access_by_its_id(tmp_path: Path) -> None:
    claims = {"sub": "ctc", "aud": "sdsc", "scope": "broker", "exp": int(time.time()) + 60}
    async with session(
        tmp_path, Clocks(), lambda key: jwt.encode({**claims, "jti": "open"}, key, "EdDSA")
    ) as broker:
        await broker.send()
        assert await broker.closed() == (1008, "source: the token belongs to ctc, not to npaci")


async def test_no_wall_clock_ends_a_session(tmp_path: Path) -> None:
    clocks = Clocks()
    async with session(tmp_path, clocks) as broker:
        for number, jump_s in enumerate((30 * 3600, 40 * DAY_S, -400 * DAY_S), 1):
            clocks.wall_s += jump_s
            assert await broker.is_answered(number)


async def test_each_proof_keeps_a_session_for_as_long_again(tmp_path: Path) -> None:
    clocks = Clocks()
    async with session(tmp_path, clocks) as broker:
        for number in range(1, 6):
            clocks.pass_(BELIEVED_S - 1)
            await broker.send(proof=token_of(broker.key))
            assert await broker.is_answered(number)


async def test_who_cannot_prove_itself_any_more_is_shut_out_in_time(tmp_path: Path) -> None:
    clocks = Clocks()
    async with session(tmp_path, clocks) as broker:
        clocks.pass_(BELIEVED_S)
        await broker.send(m.Query(query_id=1, principal=Principal("anna"), wants=()))
        code, reason = await broker.closed()
        assert code == 1008
        assert reason.startswith("proof: ")


async def test_a_session_in_which_nothing_is_said_ends_in_time_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_proof, "BELIEVED_S", 0)
    async with session(tmp_path, Clocks()) as broker:
        assert await broker.closed() == (1008, "the broker did not prove its identity")


async def test_a_proof_that_is_refused_ends_nothing_and_proves_nothing(tmp_path: Path) -> None:
    clocks = Clocks()
    async with session(tmp_path, clocks) as broker:
        await broker.send(proof=token_of(broker.key, audience="ncsa"))
        await broker.send(proof="nonsense")
        assert await broker.is_answered(1)
        clocks.pass_(BELIEVED_S)
        await broker.send(proof=token_of(Ed25519PrivateKey.generate()))
        assert (await broker.closed())[0] == 1008


async def test_a_proof_of_somebody_else_ends_the_session(tmp_path: Path) -> None:
    async with session(tmp_path, Clocks()) as broker:
        await broker.send(proof=token_of(broker.key, "mallory"))
        code, reason = await broker.closed()
        assert code == 1008
        assert "mallory" in reason


async def test_a_key_that_is_listed_no_more_ends_its_sessions_with_the_restart(
    tmp_path: Path,
) -> None:
    public, other = write_key_pair(tmp_path / "key"), write_key_pair(tmp_path / "other")
    headers = {"Authorization": f"Bearer {token_of(load_private_key(tmp_path / 'key'))}"}
    async with aiohttp.ClientSession() as lasting:
        async with site_with(tmp_path, Clocks(), public) as (url, _):
            socket = await lasting.ws_connect(f"{url}/v1/session", headers=headers)
            await socket.receive()
            ending = asyncio.create_task(socket.receive())
        assert (await ending).data == 1001
    async with site_with(tmp_path, Clocks(), other) as (url, http):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(f"{url}/v1/session", headers=headers)
        assert refused.value.status == 401


async def test_where_access_is_open_nothing_has_to_be_proved(tmp_path: Path) -> None:
    clocks = Clocks()
    async with (
        site_with(tmp_path, clocks, None) as (url, http),
        http.ws_connect(f"{url}/v1/session", headers={"Kalends-User": "npaci"}) as socket,
    ):
        await socket.receive()
        broker = Broker(socket, Ed25519PrivateKey.generate())
        clocks.pass_(30 * DAY_S)
        assert await broker.is_answered(1)


async def test_a_link_proves_itself_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_link, "PROVE_EVERY_S", 0.001)
    site = Site()
    made: list[str] = []

    def token() -> str:
        made.append(f"token-{len(made)}")
        return made[-1]

    async with linked(site, Proof("npaci-1", token)) as (_, user):
        assert await user.said.get() == HELLO
        frames = [await site.frames.get() for _ in range(3)]
        assert [frame.proof for frame in frames] == ["token-1", "token-2", "token-3"]
        assert all(frame.messages == [] for frame in frames)


async def test_a_link_that_has_no_key_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_link, "PROVE_EVERY_S", 0.001)
    site = Site()
    async with linked(site) as (link, user):
        assert await user.said.get() == HELLO
        link.send(m.Query(query_id=1, principal=Principal("anna"), wants=()))
        assert (await site.frames.get()).proof == ""


def caller(user: str = "npaci", expires_at: int = 1) -> Caller:
    return Caller(Principal(user), frozenset({"broker"}), "one", expires_at)


def test_a_month_of_proofs_of_which_three_in_a_row_may_be_lost_refuses_nothing() -> None:
    """By the minute, as `SiteLink` sends them; frames come at any time, or not for days."""
    draw = random.Random(8)
    belief = Belief(caller(), 0)
    lost = frames = 0
    next_frame_s = 0
    for now_s in range(PROVE_EVERY_S, 30 * DAY_S, PROVE_EVERY_S):
        while next_frame_s < now_s:
            belief.check(next_frame_s * 1000)
            frames += 1
            busy = (next_frame_s // DAY_S) % 2
            next_frame_s += draw.randrange(1, 20 if busy else 2 * DAY_S)
        if lost < 3 and draw.random() < 0.5:
            lost += 1
        else:
            belief.renew(caller(), now_s * 1000)
            lost = 0
    assert frames > 10_000


def test_belief_ends_with_the_last_proof_and_names_nobody_else() -> None:
    belief = Belief(caller(), 0)
    belief.check(BELIEVED_S * 1000 - 1)
    with pytest.raises(NotAuthenticated):
        belief.check(BELIEVED_S * 1000)
    with pytest.raises(NotAllowed):
        belief.renew(caller("mallory"), 0)
    assert Belief(caller(expires_at=0), 0).left_s(1 << 60) is None
