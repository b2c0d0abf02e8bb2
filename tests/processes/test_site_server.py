"""A real site process: what it says is stored, whatever happens to it."""

from __future__ import annotations

import asyncio
import resource as rlimits
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import msgpack
import msgspec
import pytest
from aiohttp import web

import kalends
from kalends.contract import codec, proofs
from kalends.contract import messages as m
from kalends.core.errors import InvalidInput
from kalends.core.principals import Principal
from kalends.serving.auth.keys import write_key_pair
from tests.processes.site_process import (
    KEY,
    REGISTER,
    Broker,
    SiteProcess,
    commit,
    connected,
    new_rid,
    slot,
    vote,
    wal_bytes,
    write_configuration,
)
from tests.support import tokens
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.xdist_group("one-site")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SiteProcess]:
    with SiteProcess(write_configuration(tmp_path)) as process:
        yield process


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteProcess]:
    """One site for all tests that leave it as good as they found it."""
    with SiteProcess(write_configuration(tmp_path_factory.mktemp("lasting"))) as process:
        yield process


def restarted(site: SiteProcess) -> SiteProcess:
    return SiteProcess(site.directory / "site.toml")


async def test_a_broker_is_told_who_the_site_is_first(site: SiteProcess) -> None:
    async with connected(site.url) as (_, hello):
        assert (hello.site, hello.epoch) == ("sdsc", 1)
        assert [info.name for info in hello.resources] == ["sdsc/sp2", "sdsc/scope"]


async def test_what_was_promised_and_locked_survives_a_kill(site: SiteProcess) -> None:
    async with connected(site.url) as (broker, _):
        promised, locked = await broker.ask(vote(number=1), vote(number=2))
        assert (promised.vote, locked.vote) == ("yes", "yes")
        decide = commit(locked)
        (done,) = await broker.ask(decide)
        assert done.of == "commit"
    site.kill()
    with restarted(site) as again:
        assert again.claims() == {promised.rid: "prepared", locked.rid: "locked"}
        async with connected(again.url) as (broker, hello):
            assert hello.epoch == 2
            assert await broker.ask(decide) == [done]
            assert (await broker.ask(commit(promised)))[0].of == "commit"
        assert again.claims() == {promised.rid: "locked", locked.rid: "locked"}


async def test_a_drain_with_an_end_survives_a_kill_and_one_that_has_passed_is_refused(
    site: SiteProcess,
) -> None:
    until_s = int(time.time()) + 7_200
    async with kalends.connect(site.url, user="owner", zone="UTC") as owner:
        with pytest.raises(InvalidInput, match="would have ended already"):
            await owner.drain(until=until_s - 7_260)
        assert (await owner.health()).status == "ok"
        drained = await owner.drain(until=until_s)
        assert (drained.status, drained.until) == ("draining", until_s)
    site.kill()
    with restarted(site) as again:
        async with kalends.connect(again.url, user="owner", zone="UTC") as owner:
            health = await owner.health()
            assert (health.status, health.until) == ("draining", until_s)
            health = await owner.drain(on=False)
            assert (health.status, health.until) == ("ok", 0)


async def test_every_acknowledged_promise_survives_kills_under_load(site: SiteProcess) -> None:
    acknowledged: set[str] = set()
    running = site
    for life in range(3):
        async with connected(running.url) as (broker, _):
            for number in range(20):
                await broker.frame(*(vote(number=life * 20 + number) for _ in range(30)))
            while len(acknowledged) < (life + 1) * 200:
                acknowledged |= {each.rid for each in await broker.receive() if each.vote == "yes"}
            running.kill()
            while received := await broker.receive():
                acknowledged |= {each.rid for each in received if each.vote == "yes"}
        running = restarted(running)
    with running:
        assert acknowledged <= running.claims().keys()
        assert len(acknowledged) >= 600


async def test_a_malformed_frame_ends_the_session_with_the_path_and_changes_nothing(
    lasting: SiteProcess,
) -> None:
    before = lasting.claims()
    good = codec.encode_msgpack(m.FrameToSite(v=2, source="npaci", lc=1, messages=[vote(), vote()]))
    raw = msgpack.unpackb(good)
    raw["messages"][1]["att"] = 0
    async with connected(lasting.url) as (broker, _):
        await broker.socket.send_bytes(msgpack.packb(raw))
        code, reason = await broker.end()
    assert code == 1007
    assert "messages[1].att" in reason
    assert lasting.claims() == before


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"\x80", b"\x93\x01\x02", b"\xdf\xff\xff\xff\xff"])
async def test_junk_ends_the_session_and_not_the_site(lasting: SiteProcess, junk: bytes) -> None:
    async with connected(lasting.url) as (broker, _):
        await broker.socket.send_bytes(junk)
        assert (await broker.end())[0] == 1007
    async with connected(lasting.url) as (broker, _):
        await broker.socket.send_str("hello")
        assert (await broker.end())[0] == 1003
    async with connected(lasting.url) as (broker, _):
        assert (await broker.ask(vote()))[0].vote == "yes"


async def test_a_broker_whose_logical_clock_is_far_ahead_is_served(lasting: SiteProcess) -> None:
    async with connected(lasting.url) as (broker, _):
        await broker.frame(vote(), lc=int(time.time() * 1000) + 10**9)
        assert (await broker.ask(vote()))[0].vote == "yes"


async def test_a_newer_session_of_a_broker_takes_the_place_of_the_older(
    lasting: SiteProcess,
) -> None:
    async with connected(lasting.url) as (older, _):
        await older.ask(vote(number=1))
        async with connected(lasting.url) as (newer, _):
            assert (await older.end())[0] == 1008
            assert (await newer.ask(vote(number=3)))[0].vote == "yes"


async def test_who_has_not_said_which_register_it_works_for_is_refused(
    lasting: SiteProcess,
) -> None:
    before = lasting.claims()
    async with connected(lasting.url, welcome=()) as (broker, _):
        await broker.frame(vote())
        assert (await broker.end())[0] == 1008
    welcome = m.Welcome(register="1" * 32)
    async with connected(lasting.url, welcome=(welcome, welcome)) as (broker, _):
        assert (await broker.end())[0] == 1008
    assert lasting.claims() == before


async def test_one_session_speaks_for_one_broker(lasting: SiteProcess) -> None:
    async with connected(lasting.url) as (broker, _):
        await broker.ask(vote())
        before = lasting.claims()
        broker.source = "other"
        await broker.frame(vote(number=2))
        assert (await broker.end())[0] == 1008
    assert lasting.claims() == before


async def test_rules_of_the_configuration_hold(lasting: SiteProcess) -> None:
    start, end = slot(1)
    staff = {"user": "anna", "groups": ("staff",)}
    async with connected(lasting.url) as (broker, _):
        for who, free in (
            (Principal(**staff), True), (Principal("anna"), False),
            (Principal("mallory", ("staff",)), False),
        ):  # fmt: skip
            query = m.Query(query_id=1, principal=who, wants=(m.Want("sdsc/scope", start, end, 1),))
            (view,) = await broker.ask(query)
            assert bool(view.views[0].steps) is free, who


async def test_messages_that_wait_leave_together_and_in_order(lasting: SiteProcess) -> None:
    async with connected(lasting.url) as (broker, _):
        visits = [vote(number=number) for number in range(500)]
        answers = await broker.ask(*visits)
        assert [answer.rid for answer in answers] == [visit.rid for visit in visits]


async def test_with_tokens_a_broker_is_who_its_token_says(tmp_path: Path) -> None:
    public = write_key_pair(tmp_path / "key")
    more = f'[[site.keys]]\nfile = "{public.name}"\nscopes = ["use", "broker", "audit"]'

    def token(user: str, *scopes: str) -> str:
        return tokens.token(tmp_path / "key", user, ["sdsc"], scopes)

    with SiteProcess(write_configuration(tmp_path, more)) as site:
        async with connected(site.url, "npaci", token("npaci", "broker")) as (broker, _):
            assert (await broker.ask(vote()))[0].vote == "yes"
        async with connected(site.url, "npaci", token("mallory", "broker")) as (broker, _):
            await broker.frame(vote(number=2))
            assert (await broker.end())[0] == 1008
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            async with connected(site.url, "npaci", token("npaci", "use")):
                pass
        assert caught.value.status == 403
        assert site.call("/v1/audit", {})[0] == 401
        status, audited = site.call("/v1/audit", {}, token("olga", "audit"))
        assert (status, len(audited["claims"])) == (200, 1)


# Peers and brokers by address


async def post(url: str, message: m.Message) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as http:
        body = codec.encode_msgpack(message)
        async with http.post(url + "/v1/peers", data=body) as answer:
            return answer.status, await answer.read()


def peer_ask(rid: str) -> m.PeerAsk:
    secret = proofs.of_peer(KEY, rid, "ctc")
    return m.PeerAsk(rid=rid, att=1, site="ctc", register=REGISTER, secret=secret, until=slot(5)[1])


async def test_never_is_said_to_a_peer_only_when_it_holds_for_ever(site: SiteProcess) -> None:
    rid = new_rid()
    async with connected(site.url):
        pass
    ask = peer_ask(rid)
    assert (await post(site.url, msgspec.structs.replace(ask, secret="x" * 32)))[0] == 403
    status, body = await post(site.url, ask)
    assert status == 200
    assert codec.decode_msgpack(body, m.PeerSays).says == "never"
    site.kill()
    with restarted(site) as again:
        async with connected(again.url) as (broker, _):
            (answer,) = await broker.ask(vote(rid))
            assert isinstance(answer, m.Stale)
            (answer,) = await broker.ask(vote(rid, att=2))
            assert answer.vote == "yes"


async def test_a_peer_hears_of_a_promise_only_with_the_secret(lasting: SiteProcess) -> None:
    async with connected(lasting.url) as (broker, _):
        (visited,) = await broker.ask(vote())
    ask = peer_ask(visited.rid)
    status, body = await post(lasting.url, ask)
    assert codec.decode_msgpack(body, m.PeerSays).says == "prepared"
    assert (await post(lasting.url, msgspec.structs.replace(ask, att=2)))[0] == 503
    stranger = msgspec.structs.replace(ask, secret="x" * 32)
    assert (await post(lasting.url, stranger))[0] == 403
    status, _ = await post(lasting.url, m.Forget(rid=visited.rid, att=1))
    assert status == 400


async def test_after_a_restart_a_promise_is_settled_by_asking_the_broker(
    site: SiteProcess,
) -> None:
    answers: dict[str, m.Outcome] = {}
    asked = asyncio.Event()

    async def inquire(request: web.Request) -> web.Response:
        question = codec.decode_msgpack(await request.read(), m.Inquire)
        assert (question.site, question.secret) == ("sdsc", proofs.of_request(KEY, question.rid))
        if not answers:
            return web.Response(status=503)
        asked.set()
        return web.Response(body=codec.encode_msgpack(answers[question.rid]))

    application = web.Application()
    application.add_routes([web.post("/v1/inquire", inquire)])
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        listening = web.TCPSite(runner, "127.0.0.1", 0)
        await listening.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with connected(site.url) as (broker, _):
            (kept,) = await broker.ask(vote(number=1, coords=[url]))
            (dropped,) = await broker.ask(vote(number=2, coords=[url]))
        answers[kept.rid] = m.Outcome(
            rid=kept.rid, att=1, secret=proofs.of_request(KEY, kept.rid), outcome="commit",
            chosen=commit(kept).chosen,
        )  # fmt: skip
        answers[dropped.rid] = m.Outcome(
            rid=dropped.rid, att=1, secret=proofs.of_request(KEY, dropped.rid), outcome="abort"
        )
        site.kill()
        with await asyncio.to_thread(restarted, site) as again:
            await asyncio.wait_for(asked.wait(), 30)
            claims = await asyncio.to_thread(again.claims)
            while claims != {kept.rid: "locked"}:
                assert claims.get(kept.rid) in ("prepared", "locked")
                claims = await asyncio.to_thread(again.claims)
    finally:
        await runner.cleanup()


# Trouble with the store, and the end


async def test_a_full_disk_stops_all_promises_and_the_site_comes_back_by_itself(
    site: SiteProcess,
) -> None:
    pid = site.process.pid
    unlimited = rlimits.prlimit(pid, rlimits.RLIMIT_FSIZE)
    async with connected(site.url) as (broker, _):
        before = await broker.ask(*(vote(number=number) for number in range(10)))
        # No file may grow beyond what the log has now: what a full disk looks like from inside.
        rlimits.prlimit(pid, rlimits.RLIMIT_FSIZE, (wal_bytes(site.directory), unlimited[1]))
        await broker.frame(*(vote(number=number) for number in range(10, 400)))
        assert (await broker.end())[0] == 1013
    status, health = await asyncio.to_thread(site.call, "/healthz")
    assert (status, health["status"]) == (200, "failing")
    status, problem = await asyncio.to_thread(site.call, "/v1/audit", {})
    assert (status, problem["code"]) == (503, "unavailable")
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with connected(site.url):
            pass
    assert caught.value.status == 503
    rlimits.prlimit(pid, rlimits.RLIMIT_FSIZE, unlimited)
    while health["status"] != "ok":
        status, health = await asyncio.to_thread(site.call, "/healthz")
    claims = await asyncio.to_thread(site.claims)
    assert {each.rid for each in before} == claims.keys()
    async with connected(site.url) as (broker, hello):
        assert hello.epoch > 1
        assert (await broker.ask(vote(number=500)))[0].vote == "yes"


async def test_a_stop_settles_closes_and_leaves_one_whole_file(site: SiteProcess) -> None:
    async with connected(site.url) as (broker, _):
        await broker.ask(vote())
        stopping = asyncio.create_task(asyncio.to_thread(site.stop))
        assert (await broker.end())[0] == 1001
        await broker.socket.close()
        assert await stopping == 0
    names = {path.name for path in site.directory.iterdir()}
    assert "sdsc.sqlite-wal" not in names
    with restarted(site) as again:
        assert list(again.claims().values()) == ["prepared"]


async def test_draining_refuses_new_claims_also_after_a_restart(site: SiteProcess) -> None:
    status, health = await asyncio.to_thread(site.call, "/v1/drain", {"on": True})
    assert (status, health["status"]) == (200, "draining")
    site.kill()
    with restarted(site) as again:
        async with connected(again.url) as (broker, _):
            (answer,) = await broker.ask(vote())
            assert [refusal.code for refusal in answer.refusals] == ["drained"]
        again.call("/v1/drain", {"on": False})
        assert again.call("/healthz")[1]["status"] == "ok"


def test_the_calendar_shows_who_holds_only_to_the_holder_and_to_auditors(
    lasting: SiteProcess,
) -> None:
    async def book() -> None:
        async with connected(lasting.url) as (broker, _):
            await broker.ask(vote(number=20_000, user="anna"))

    asyncio.run(book())
    start, end = slot(20_000)
    body = {"resource": "sdsc/sp2", "start": start - 600, "end": end + 600}
    status, view = lasting.call("/v1/calendar", body)
    assert status == 200
    (taken,) = view["slots"]
    assert (taken["units"], taken["state"], taken["holder"]) == (1, "held", "anna")
    assert lasting.call("/v1/calendar", body | {"resource": "sdsc/none"})[0] == 404
    assert lasting.call("/v1/calendar", body | {"end": start - 600})[0] == 400


def run_to_its_end(configuration: Path) -> tuple[int, str]:
    program = "import sys; from kalends.cli.servers.server import main; from pathlib import Path; "
    program += "sys.exit(main(Path(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(configuration)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_configuration_that_cannot_be_ends_with_2_and_says_where(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, "colour = 3")
    code, errors = run_to_its_end(configuration)
    assert (code, "site.colour" in errors, "Traceback" in errors) == (2, True, False)
    assert run_to_its_end(tmp_path / "missing.toml")[0] == 2


def test_a_damaged_store_ends_with_1_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "sdsc.sqlite").write_bytes(b"not a database")
    code, errors = run_to_its_end(write_configuration(tmp_path))
    assert (code, "reconcile" in errors, "Traceback" in errors) == (1, True, False)


def test_a_second_server_on_the_same_store_is_refused(site: SiteProcess) -> None:
    code, errors = run_to_its_end(site.directory / "site.toml")
    assert code == 1
    assert "another process" in errors


async def test_a_resource_with_promises_cannot_be_taken_out_of_the_configuration(
    site: SiteProcess,
) -> None:
    async with connected(site.url) as (broker, _):
        await broker.ask(vote())
    site.kill()
    configuration = site.directory / "site.toml"
    configuration.write_text(configuration.read_text().replace('"sp2"', '"sp3"'))
    code, errors = await asyncio.to_thread(run_to_its_end, configuration)
    assert code == 1
    assert "sdsc/sp2 is still booked, but no longer configured" in errors
    assert "of anna (prepared" in errors
    assert "kalends admin reclaim sdsc/sp2" in errors


async def test_a_broker_that_does_not_read_is_dropped_and_the_site_goes_on(
    lasting: SiteProcess,
) -> None:
    """Each query is small and its answer large: without a bound the site would keep them all."""
    wants = (m.Want(f"{'s' * 63}/{'r' * 63}", *slot(0), 1),) * 512
    query = m.Query(query_id=1, principal=Principal("anna"), wants=wants)
    async with connected(lasting.url, "deaf") as (deaf, _):
        with pytest.raises((ConnectionError, aiohttp.ClientError)):
            await flood(deaf, query)
    async with connected(lasting.url) as (broker, _):
        assert (await broker.ask(vote(number=9_000)))[0].vote == "yes"


async def flood(broker: Broker, query: m.Query) -> None:
    """Ask and ask without reading an answer, until the connection breaks."""
    while True:
        await broker.frame(*([query] * 4))
