"""Two limits to measure bookings against, on the same machine in the same run.

- The bare line: the same processes and the same messages over the same WebSockets, encoded and
  decoded as the servers do, but nothing is decided and nothing stored.
- The bare stores: as many stores as there are servers, each in a process of its own, committing
  durably the facts that bookings leave, in batches, and doing nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # In place of this folder, whose calendar.py would stand in for the standard library's.
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import asyncio
import contextlib
import multiprocessing as mp
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
from aiohttp import web

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.register.sqlite import request_writes
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.calls import Call, CallFrame, Reply, UnreadCall
from kalends.core import limits
from kalends.core.conversion import convert
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake, stored

RID = "01a3185c-5000-7974-ba90-{:012x}"
SECRET = "s" * 24
PARTS = tuple(m.Part(f"site{n}", f"http://127.0.0.1:{40_000 + n}") for n in range(3))
CHOSEN = {part.site: (1 << 40,) for part in PARTS}


def visit(number: int, site: int) -> m.Visit:
    return m.Visit(
        rid=RID.format(number),
        att=1,
        stamp=1_800_000_000_000 + number,
        mode="vote",
        principal=Principal("somebody"),
        wants=(m.Want(f"site{site}/cluster", 1_800_000_000, 1_800_003_600, 1),),
        parts=PARTS,
        need=3,
        coords=("http://127.0.0.1:40010",),
        secret=SECRET,
        hold_ms=30_000,
    )


class _Outbox:
    """Messages of one turn of the event loop leave as one frame, as the servers do it."""

    def __init__(self, socket: Any, pack: Any) -> None:
        self._socket, self._pack = socket, pack
        self._waiting: list[Any] = []

    def add(self, message: Any) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(message)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        body = codec.encode_msgpack(self._pack(waiting))
        _TASKS.add(task := asyncio.ensure_future(self._socket.send_bytes(body)))
        task.add_done_callback(_TASKS.discard)


_TASKS: set[asyncio.Future[Any]] = set()


async def _serve(handler: Any, ready: Connection) -> None:
    app = web.Application()
    app.router.add_get("/", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    ready.send(runner.addresses[0][1])
    await asyncio.Event().wait()


def _echo_site(number: int, ready: Connection) -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=limits.FRAME_BYTES_MAX)
        await socket.prepare(request)
        out = _Outbox(socket, lambda waiting: m.FrameToBroker(2, f"site{number}", 1, waiting))
        async for frame in socket:
            decoded = codec.decode_msgpack(
                frame.data, m.FrameToSite, bytes_max=limits.FRAME_BYTES_MAX
            )
            for message in decoded.messages:
                if isinstance(message, m.Visit):
                    held = (m.HeldSlot(0, 1 << 40),)
                    out.add(m.Visited(rid=message.rid, att=1, epoch=1, vote="yes", held=held))
                elif isinstance(message, m.Decide):
                    out.add(m.Done(rid=message.rid, att=1, of="commit"))
        return socket

    asyncio.run(_serve(handler, ready))


def _echo_hub(ports: list[int], ready: Connection) -> None:
    async def run() -> None:
        session = aiohttp.ClientSession()
        sockets = [await session.ws_connect(f"http://127.0.0.1:{port}/") for port in ports]
        outs = [
            _Outbox(socket, lambda waiting: m.FrameToSite(2, "broker", 1, waiting))
            for socket in sockets
        ]
        open_calls: dict[str, list[Any]] = {}

        async def listen(index: int) -> None:
            async for frame in sockets[index]:
                decoded = codec.decode_msgpack(
                    frame.data, m.FrameToBroker, bytes_max=limits.FRAME_BYTES_MAX
                )
                for message in decoded.messages:
                    if isinstance(message, m.Visited):
                        hear(message.rid)
                    elif isinstance(message, m.Done):
                        outs[index].add(m.Forget(rid=message.rid, att=1))

        def hear(rid: str) -> None:
            entry = open_calls[rid]
            entry[0] -= 1
            if not entry[0]:
                del open_calls[rid]
                entry[2].add(Reply(entry[1], answer={"id": rid, "state": "reserved"}))
                for index in entry[3]:
                    outs[index].add(m.Decide(rid=rid, att=1, outcome="commit", chosen=CHOSEN))

        async def handler(request: web.Request) -> web.WebSocketResponse:
            socket = web.WebSocketResponse(max_msg_size=limits.FRAME_BYTES_MAX)
            await socket.prepare(request)
            out = _Outbox(socket, list)
            number = 0
            async for frame in socket:
                calls: list[UnreadCall] = codec.decode_msgpack(
                    frame.data, CallFrame, bytes_max=limits.FRAME_BYTES_MAX
                )
                for call in calls:
                    number += 1
                    chosen = [(number + step) % len(ports) for step in range(3)]
                    open_calls[RID.format(number)] = [3, call.number, out, chosen]
                    for index in chosen:
                        outs[index].add(visit(number, index))
            return socket

        listeners = [asyncio.ensure_future(listen(index)) for index in range(len(ports))]
        await _serve(handler, ready)
        await asyncio.gather(*listeners)

    asyncio.run(run())


@contextlib.contextmanager
def _process(target: Any, *args: Any) -> Iterator[int]:
    near, far = mp.Pipe()
    process = mp.get_context("spawn").Process(target=target, args=(*args, far), daemon=True)
    process.start()
    try:
        yield near.recv()
    finally:
        process.kill()
        process.join()


def bare_line(sites: int, in_flight: int, seconds: float) -> float:
    """Exchanges a second, each with the messages of one three-way booking."""
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(_process(_echo_site, number)) for number in range(sites)]
        hub = stack.enter_context(_process(_echo_hub, ports))
        return asyncio.run(_drive(hub, in_flight, seconds))


async def _drive(port: int, in_flight: int, seconds: float) -> float:
    done = 0
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/", max_msg_size=1 << 24) as socket,
    ):
        out = _Outbox(socket, list)
        body = {"key": "k" * 36, "request": convert(_body(), dict)}
        for number in range(in_flight):
            out.add(Call(number, "book", body))
        ends_s = time.monotonic() + seconds
        async for frame in socket:
            replies = codec.decode_msgpack(frame.data, list[Reply], bytes_max=1 << 24)
            done += len(replies)
            if time.monotonic() > ends_s:
                break
            for reply in replies:
                out.add(Call(reply.number, "book", body))
    return done / seconds


def _body() -> dict[str, Any]:
    terms = [{"resource": f"site{number}/cluster"} for number in range(3)]
    return {
        "alternatives": [{"terms": terms}],
        "duration_s": 3600,
        "not_before": 1_800_000_000,
        "not_after": 1_800_003_600,
    }


def _commit_facts(directory: str, batch: int, seconds: float, ready: Connection) -> None:
    store = SiteStore.open(Path(directory) / "site.sqlite", "site0")
    claim = Claim(1 << 40, "site0/cluster", 1_800_000_000, 1_800_003_600, 1, "prepared")
    done, ends_s = 0, time.monotonic() + seconds
    while time.monotonic() < ends_s:
        facts = []
        for step in range(batch // 2):
            rid = RID.format(done // 2 + step)
            stake = Stake(
                rid=rid, att=1, principal=Principal("somebody"), secret=SECRET, need=3,
                parts=PARTS, coords=(), claims=[claim], ends_at=claim.end,
            )  # fmt: skip
            facts += [stored(stake, "visit-vote"), stored(stake, "commit-chosen")]
        store.apply(facts, 0)
        done += len(facts)
    ready.send(done / seconds / 6)


def _commit_records(directory: str, batch: int, seconds: float, ready: Connection) -> None:
    import sqlite3

    connection = sqlite3.connect(Path(directory) / "broker.sqlite", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.executescript(SCHEMA)
    terms = tuple(Term(resource=f"site{number}/cluster") for number in range(3))
    request = Request(
        alternatives=(Alternative(terms=terms),), duration_s=3600, not_before=1_800_000_000
    )
    done, ends_s = 0, time.monotonic() + seconds
    while time.monotonic() < ends_s:
        operations: list[r.Operation] = []
        for step in range(max(batch // 3, 1)):
            rid = RID.format(done // 3 + step)
            row = r.Record(
                rid=rid, user="somebody", key=rid, digest="d" * 32, stamp=1, owner="broker:1",
                reservation=rid, created_ms=1, spec=r.Spec(request=request),
                chosen=CHOSEN,
            )  # fmt: skip
            body = r.encode_record(row)
            operations += [r.Begin(row), r.Commit(rid, 1, "", body), r.Finish(rid, "commit")]
        connection.execute("begin immediate")
        request_writes.apply(connection, operations)
        connection.execute("commit")
        done += len(operations)
    ready.send(done / seconds / 3)


def bare_stores(sites: int, batch: int, seconds: float) -> float:
    """Bookings a second that all stores together could make durable, each committing `batch` rows."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        pipes = []
        context = mp.get_context("spawn")
        for number in range(sites + 1):
            target = _commit_records if number == sites else _commit_facts
            folder = Path(directory) / str(number)
            folder.mkdir()
            near, far = mp.Pipe()
            process = context.Process(target=target, args=(str(folder), batch, seconds, far))
            process.start()
            stack.callback(process.join)
            pipes.append(near)
        rates = [pipe.recv() for pipe in pipes]
    return float(min(sum(rates[:-1]), rates[-1]))


if __name__ == "__main__":
    print(bare_line(5, int(sys.argv[1]), 3.0), bare_stores(5, 60, 3.0))
