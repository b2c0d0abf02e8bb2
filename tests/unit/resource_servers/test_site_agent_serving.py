"""Agents at sites that really run: over sessions and between sites, with the sandbox, with records."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from site_agent_support import SOURCE, hash_of
from structlog.testing import capture_logs
from tests.owned_messages import ABOUT_A_REQUEST
from tests.support import tokens

from kalends.agents import records
from kalends.agents.runs import Engine, RunOutcome, ScriptRun
from kalends.agents.sandbox import Sandbox, SandboxLimits, SandboxUnavailable
from kalends.contract import calls, codec, proofs
from kalends.contract import messages as m
from kalends.contract.paths import VISITS_PATH, WAY_HEADER
from kalends.core.identifiers import request_id
from kalends.core.principals import Principal
from kalends.core.scripts import Ask, Starts, Stop, asked_for
from kalends.resource_servers.neighbours.near_visits import VISIT_BYTES_MAX
from kalends.servers.site import build_site
from kalends.serving.auth.keys import write_key_pair
from kalends.serving.configuration import (
    AgentsConfiguration,
    KeyConfiguration,
    NearConfiguration,
    ResourceConfiguration,
    SiteConfiguration,
    StorePlace,
)
from kalends.serving.http.runner import Service, listen

NOW_S = int(time.time())
START = NOW_S - NOW_S % 3_600 + 86_400
LATEST = (
    "def choose(view, request):\n"
    "    send({'seen': len(view['slots'])})\n"
    "    return [slot['id'] for slot in reversed(view['slots'])][:2]\n"
)
FAULTY = "def choose(view, request):\n    return view['nothing']\n"
NOTHING = "def choose(view, request):\n    return []\n"
BROKER = {"Kalends-User": "npaci"}
ADA = {"Kalends-User": "ada"}


REGISTER = "1" * 32
KEY = "k" * 32


def rid(number: int) -> str:
    return request_id(NOW_S * 1_000, number)


def dispatch(number: int, source: str = LATEST, site: str = "sdsc", **more: Any) -> m.Dispatch:
    fields: dict[str, Any] = {
        "rid": rid(number), "att": 1, "stamp": number, "principal": Principal("ada"),
        "script": hash_of(source), "source": source,
        "starts": Starts(START, START + 7_200, 600),
        "asks": (Ask(0, f"{site}/sp2", 3_600, 4),),
        "parts": (m.Part(site, "http://127.0.0.1:1"),), "need": 1,
        "secret": proofs.of_request(KEY, rid(number)),
        "hold_ms": 60_000,
    }  # fmt: skip
    return m.Dispatch(**{**fields, **more})


class Session:
    """A broker's session with a site."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._waiting: list[m.Message] = []

    async def send(self, *messages: m.Message) -> None:
        messages = tuple(
            msgspec.structs.replace(each, secret=proofs.of_request(KEY, each.rid))
            if isinstance(each, ABOUT_A_REQUEST)
            else each
            for each in messages
        )
        frame = {"v": 2, "source": "npaci", "lc": NOW_S * 1_000, "messages": list(messages)}
        await self._socket.send_bytes(codec.encode_msgpack(frame))

    async def next(self) -> m.Message:
        while not self._waiting:
            received = await asyncio.wait_for(self._socket.receive_bytes(), 20)
            frame = msgspec.msgpack.decode(received, type=m.FrameToBroker)
            self._waiting += [each for each in frame.messages if not isinstance(each, m.Known)]
        return self._waiting.pop(0)

    async def report(self) -> m.Report:
        answer = await self.next()
        assert isinstance(answer, m.Report)
        return answer


class Running:
    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.http = http

    @asynccontextmanager
    async def session(self, way: str = "") -> AsyncIterator[Session]:
        headers = {**BROKER, WAY_HEADER: way} if way else BROKER
        async with self.http.ws_connect(self.url + "/v1/session", headers=headers) as socket:
            session = Session(socket)
            hello = await session.next()
            assert isinstance(hello, m.Hello)
            await session.send(m.Welcome(register=REGISTER, secret=KEY))
            yield session

    async def welcome(self, headers: dict[str, str] = BROKER) -> None:
        """A broker comes, says for which register, and goes."""
        async with self.http.ws_connect(self.url + "/v1/session", headers=headers) as socket:
            session = Session(socket)
            await session.next()
            await session.send(
                m.Welcome(register=REGISTER, secret=KEY),
                m.Query(query_id=1, principal=Principal("ada"), wants=()),
            )
            await session.next()

    async def get(self, path: str, kind: type[Any], headers: dict[str, str] = ADA) -> Any:
        async with self.http.get(
            self.url + path, headers={**headers, "Accept": codec.MSGPACK}
        ) as response:
            body = await response.read()
            assert response.status == 200, body
            return msgspec.msgpack.decode(body, type=kind)

    async def runs(self, headers: dict[str, str] = ADA, **body: Any) -> calls.Runs:
        async with self.http.post(self.url + "/v1/runs", headers=headers, json=body) as response:
            answer = await response.read()
            assert response.status == 200, answer
            return msgspec.json.decode(answer, type=calls.Runs)


@asynccontextmanager
async def site(path: Path, name: str = "sdsc", **more: Any) -> AsyncIterator[Running]:
    agents = more.pop("agents", AgentsConfiguration())
    configuration = SiteConfiguration(
        name=name, listen="127.0.0.1:0", store=StorePlace(path / f"{name}.sqlite"),
        resources=(ResourceConfiguration(name="sp2", capacity=64),), agents=agents, **more,
    )  # fmt: skip
    application = build_site(configuration, version="1")
    listening = await listen(Service(f"site {name}", application, "127.0.0.1:0"))
    try:
        async with aiohttp.ClientSession() as http:
            yield Running(listening.url, http)
    finally:
        await listening.stop()


@asynccontextmanager
async def sandbox() -> AsyncIterator[Engine]:
    engine = await Sandbox.start(SandboxLimits())
    try:
        yield engine
    finally:
        await engine.close()


async def test_a_dispatch_over_a_session_is_run_in_the_sandbox_and_reported(tmp_path: Path) -> None:
    async with site(tmp_path) as sdsc, sdsc.session() as session:
        await session.send(dispatch(1))
        (own,) = (await session.report()).sites
        assert own.code == "ok", own
        assert [slot.common for slot in own.held] == [START + 7_200, START + 6_600]
        assert own.sent == ('{"seen":13}',)
        named = (own.held[0].hold_id,)
        parts = (m.Part("sdsc", sdsc.url),)
        await session.send(
            m.Prepare(rid=rid(1), att=1, hold_ids=named, parts=parts, need=1),
            m.Decide(rid=rid(1), att=1, outcome="commit", chosen={"sdsc": named}),
        )
        voted, done = await session.next(), await session.next()
        assert isinstance(voted, m.Voted)
        assert voted.vote == "yes"
        assert isinstance(done, m.Done)


async def test_an_agent_sees_by_which_virtual_sites_its_broker_comes(tmp_path: Path) -> None:
    source = (
        "def choose(view, request):\n"
        "    send(view['resources']['sdsc/sp2']['through'])\n"
        "    return []\n"
    )
    ways = {
        "": "[]",
        "hall": '["hall"]',
        "hall, west": '["hall","west"]',
        "a, b, c, d, e": "[]",
        "hall, , west": "[]",
        "<b>": "[]",
    }
    async with site(tmp_path) as sdsc:
        for number, (way, seen) in enumerate(ways.items(), 1):
            async with sdsc.session(way) as session:
                await session.send(dispatch(number, source))
                (own,) = (await session.report()).sites
                assert own.sent == (seen,), way


async def test_every_run_leaves_a_record_that_its_user_can_fetch_and_replay(tmp_path: Path) -> None:
    async with site(tmp_path) as sdsc, sdsc.session() as session:
        for number, source in enumerate((LATEST, FAULTY, SOURCE), 1):
            await session.send(dispatch(number, source))
            await session.report()
        await session.send(dispatch(9, principal=Principal("eve")))
        own = (await session.report()).sites[0]
        runs = (await sdsc.runs()).runs
        assert {run.user for run in runs} == {"ada", "eve"}, "open access has every scope"
        assert [run.code for run in runs] == ["ok", "ok", "agent-error", "ok"]
        assert runs[0].run == own.run
        assert [run.id for run in (await sdsc.runs(id=rid(2))).runs] == [rid(2)]
        assert len((await sdsc.runs(count=1)).runs) == 1
        views = [await sdsc.get(f"/v1/runs/{run.run}", calls.RunView) for run in runs]
    async with sandbox() as engine:
        for view in views:
            record = records.decode(view.record)
            assert record.view_hash == view.view_hash
            replayed = await records.replay(record, engine)
            assert replayed.same, replayed.detail


async def test_records_outlive_a_restart_and_the_oldest_go_first(tmp_path: Path) -> None:
    agents = AgentsConfiguration(runs_kept_max=3)
    async with site(tmp_path, agents=agents) as sdsc, sdsc.session() as session:
        for number in range(1, 106):
            await session.send(dispatch(number, NOTHING))
            await session.report()
        kept = (await sdsc.runs(count=1_000)).runs
        assert kept[0].id == rid(105)
        assert 3 <= len(kept) <= 103
    async with site(tmp_path, agents=agents) as sdsc:
        assert (await sdsc.runs(count=1_000)).runs == kept


async def test_a_user_sees_their_own_runs_only_and_an_auditor_all(tmp_path: Path) -> None:
    key = tmp_path / "owner.pem"
    public = write_key_pair(key)
    scopes: tuple[Any, ...] = ("use", "audit", "admin", "broker")
    keys = (KeyConfiguration(file=public, scopes=scopes),)

    async with site(tmp_path, keys=keys) as sdsc:
        async with sdsc.http.ws_connect(
            sdsc.url + "/v1/session", headers=token(key, "npaci", "broker")
        ) as socket:
            session = Session(socket)
            await session.send(m.Welcome(register="1" * 32))
            await session.next()
            await session.send(dispatch(1), dispatch(2, principal=Principal("eve")))
            await session.report()
            await session.report()
        assert [run.user for run in (await sdsc.runs(token(key, "ada", "use"))).runs] == ["ada"]
        (eves,) = (await sdsc.runs(token(key, "eve", "use"))).runs
        assert len((await sdsc.runs(token(key, "root", "use", "audit"))).runs) == 2
        url = f"{sdsc.url}/v1/runs/{eves.run}"
        async with sdsc.http.get(url, headers=token(key, "ada", "use")) as response:
            assert response.status == 404
        async with sdsc.http.get(url, headers=token(key, "eve", "use")) as response:
            assert response.status == 200
        beyond = f"{sdsc.url}/v1/runs/{'9' * 19}"
        async with sdsc.http.get(beyond, headers=token(key, "eve", "use")) as response:
            assert response.status == 404


def token(key: Path, user: str, *scopes: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.token(key, user, ('sdsc', 'caltech'), scopes)}"}


async def test_a_file_of_records_that_is_not_ours_is_left_alone_and_the_site_serves(
    tmp_path: Path,
) -> None:
    strange = tmp_path / "sdsc.sqlite.runs"
    with sqlite3.connect(strange) as connection:
        connection.execute("create table diary (line text)")
    connection.close()
    before = strange.read_bytes()
    async with site(tmp_path) as sdsc, sdsc.session() as session:
        await session.send(dispatch(1))
        assert (await session.report()).sites[0].code == "ok"
        assert (await sdsc.runs()).runs == ()
    assert strange.read_bytes() == before


async def test_a_visit_is_passed_on_to_a_near_site_with_a_token_and_back(tmp_path: Path) -> None:
    key = tmp_path / "sdsc.pem"
    public = write_key_pair(key)
    trusted = (
        KeyConfiguration(file=public, issuer="sdsc", scopes=("near",)),
        KeyConfiguration(file=write_key_pair(tmp_path / "npaci.pem"), scopes=("broker",)),
    )
    asks = (Ask(1, "caltech/sp2", 3_600, 4),)
    asked = asked_for(dispatch(1).starts, asks)
    stop = Stop("caltech", asks, proofs.of_visit(KEY, rid(1), 1, "sdsc", asked, "1", "ada"))
    listed = (NearConfiguration(name="sdsc", url="http://127.0.0.1:1"),)
    async with site(tmp_path, "caltech", keys=trusted, near=listed) as caltech:
        await caltech.welcome(token(tmp_path / "npaci.pem", "npaci", "broker"))
        near = (NearConfiguration(name="caltech", url=caltech.url, key=key),)
        async with site(tmp_path, near=near) as sdsc, sdsc.session() as session:
            await session.send(dispatch(1, near=(stop,)))
            report = await session.report()
            assert [each.site for each in report.sites] == ["sdsc", "caltech"]
            assert [each.code for each in report.sites] == ["ok", "ok"], report
            commons = [{slot.common for slot in each.held} for each in report.sites]
            assert commons[0] == commons[1]
            assert {slot.term for slot in report.sites[1].held} == {1}
    async with site(tmp_path, near=near) as sdsc, sdsc.session() as session:
        await session.send(dispatch(2, near=(stop,)))
        down = (await session.report()).sites[1]
        assert (down.held, down.refusals[0].code) == ((), "site-down")


async def test_a_near_site_takes_visits_of_those_whom_its_owner_trusts_only(tmp_path: Path) -> None:
    public = write_key_pair(tmp_path / "owner.pem")
    write_key_pair(tmp_path / "stranger.pem")
    keys = (KeyConfiguration(file=public, scopes=("use", "broker", "near")),)
    near = (NearConfiguration(name="near", url="http://127.0.0.1:1"),)

    def visit(att: int = 1, way: str = "near", **more: Any) -> bytes:
        asked = asked_for(dispatch(1).starts, dispatch(1).asks)
        secret = proofs.of_visit(KEY, rid(1), att, "near", asked, "1", "ada")
        passed_on = dispatch(1, att=att, way=way, register=REGISTER, secret=secret, **more)
        return codec.encode_msgpack(passed_on)

    body = visit()
    async with site(tmp_path, keys=keys, near=near) as sdsc:
        await sdsc.welcome(token(tmp_path / "owner.pem", "npaci", "broker"))

        async def status(headers: dict[str, str], sent: bytes = body) -> int:
            async with sdsc.http.post(
                sdsc.url + VISITS_PATH, data=sent, headers=headers
            ) as response:
                return response.status

        trusted = token(tmp_path / "owner.pem", "near", "near")
        assert await status({}) == 401
        assert await status(token(tmp_path / "stranger.pem", "near", "near")) == 401
        assert await status(token(tmp_path / "owner.pem", "near", "use")) == 403
        assert await status(token(tmp_path / "owner.pem", "near", "broker")) == 403
        assert await status(token(tmp_path / "owner.pem", "far", "near"), visit(way="far")) == 403
        assert await status(trusted, visit(way="far")) == 403
        assert await status(trusted, b"\xc1") == 400
        assert await status(trusted, b"x" * (VISIT_BYTES_MAX + 1)) == 413
        further = visit(near=(Stop("x", (Ask(0, "x/y", 60),)),))
        assert await status(trusted, further) == 400
        assert await status(trusted) == 200
        assert await status(trusted, visit(2)) == 200
        assert await status(trusted) == 409


async def test_without_the_sandbox_the_log_and_the_health_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs() as logs:
        async with site(tmp_path, agents=AgentsConfiguration(language_only=True)) as sdsc:
            health = await sdsc.get("/healthz", calls.Health)
            assert "without the sandbox" in health.detail
            async with sdsc.session() as session:
                await session.send(dispatch(1))
                assert (await session.report()).sites[0].code == "ok"
    assert [line for line in logs if line["event"] == "scripts_run_without_sandbox"]

    async def no_sandbox(*arguments: object, **more: object) -> Sandbox:
        raise SandboxUnavailable("this host has no seccomp")

    monkeypatch.setattr(Sandbox, "start", no_sandbox)
    with capture_logs() as logs:
        async with site(tmp_path) as sdsc:
            health = await sdsc.get("/healthz", calls.Health)
            assert health.status == "ok"
            assert "this host has no seccomp" in health.detail
            async with sdsc.session() as session:
                await session.send(dispatch(2))
                own = (await session.report()).sites[0]
                assert own.code == "sandbox-unavailable"
                assert len(own.held) == 13
    assert [line for line in logs if line["event"] == "scripts_not_run"]


async def test_a_failed_run_is_counted_and_logged_and_never_its_source(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with site(tmp_path) as sdsc, sdsc.session() as session:
            await session.send(dispatch(1, FAULTY))
            own = (await session.report()).sites[0]
            assert (own.code, own.line) == ("agent-error", 2)
            async with sdsc.http.get(sdsc.url + "/metrics") as response:
                metrics = await response.text()
    counted = 'kalends_agent_runs_total{code="agent-error",function="choose"} 1.0'
    assert counted in metrics
    (line,) = [line for line in logs if line["event"] == "run_failed"]
    assert (line["code"], line["blame"], line["user"]) == ("agent-error", "author", "ada")
    assert line["script"] == hash_of(FAULTY)
    assert "nothing" not in repr(logs)


async def test_when_the_store_fails_visits_under_way_end_and_their_runs_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, may_end = asyncio.Event(), asyncio.Event()
    run = Sandbox.run

    async def late(sandbox: Sandbox, job: ScriptRun) -> RunOutcome:
        running.set()
        await may_end.wait()
        return await run(sandbox, job)

    monkeypatch.setattr(Sandbox, "run", late)
    listed = (NearConfiguration(name="caltech", url="http://127.0.0.1:1"),)
    async with site(tmp_path, near=listed) as sdsc:
        await sdsc.welcome()
        asked = asked_for(dispatch(1).starts, dispatch(1).asks)
        secret = proofs.of_visit(KEY, rid(1), 1, "caltech", asked, "1", "ada")
        passed_on = dispatch(1, way="caltech", register=REGISTER, secret=secret)
        near = {"Kalends-User": "caltech"}

        async def visit() -> int:
            body = codec.encode_msgpack(passed_on)
            async with sdsc.http.post(sdsc.url + VISITS_PATH, data=body, headers=near) as answer:
                return answer.status

        under_way = asyncio.create_task(visit())
        try:
            await asyncio.wait_for(running.wait(), 20)
            async with sdsc.session() as session:
                break_store(tmp_path / "sdsc.sqlite")
                await session.send(vote(2))
                assert await asyncio.wait_for(under_way, 20) == 503
        finally:
            may_end.set()
        async with sdsc.http.get(sdsc.url + "/metrics") as response:
            assert "kalends_alarms_total 0.0" in await response.text()


def vote(number: int) -> m.Visit:
    return m.Visit(
        rid=rid(number), att=1, stamp=1, mode="vote", principal=Principal("ada"),
        wants=(m.Want("sdsc/sp2", START, START + 60, 1),),
        parts=(m.Part("sdsc", "http://127.0.0.1:1"),), need=1, secret="s" * 22, hold_ms=1_000,
    )  # fmt: skip


def break_store(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("drop table stake")
    connection.close()
