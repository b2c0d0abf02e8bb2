"""When a client connects and when it lets go: without ``with``, in a running loop, forgotten, at the end."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import subprocess
import sys
import threading

import pytest
from client_broker import Broker
from tests.support.patience import PATIENCE_S

import kalends
from kalends.core.errors import OutcomeUnknown

TRANSPORTS = pytest.mark.parametrize("transport", ["session", "http"])


@TRANSPORTS
async def test_it_connects_at_the_first_call_and_again_after_it_was_closed(
    broker: Broker, transport: str
) -> None:
    client = kalends.connect(broker.url, user="ada", transport=transport)
    for _ in range(2):
        assert (await client.health()).status == "ok"
        await client.close()
        await client.close()


@TRANSPORTS
def test_one_client_serves_several_event_loops_one_after_the_other(
    broker: Broker, transport: str
) -> None:
    client = kalends.connect(broker.url, user="ada", transport=transport)
    for _ in range(2):
        assert asyncio.run(client.health()).status == "ok"
    asyncio.run(client.close())


@TRANSPORTS
def test_the_waiting_client_needs_no_with_and_no_other_loop(broker: Broker, transport: str) -> None:
    before = threading.active_count()
    client = kalends.connect_sync(broker.url, user="ada", transport=transport)
    assert threading.active_count() == before
    for _ in range(2):
        assert client.health().status == "ok"
        client.close()
        assert threading.active_count() == before


@TRANSPORTS
async def test_the_waiting_client_works_inside_a_running_loop(
    broker: Broker, transport: str
) -> None:
    with kalends.connect_sync(broker.url, user="ada", transport=transport) as client:
        booked = client.book("caltech/onyx", duration="1h", on_progress=lambda view: None)
        assert client.show(booked.id) == booked
        again = client.book("caltech/onyx", duration="1h")
        assert next(client.watch(after=0)).id == again.id
    assert asyncio.get_running_loop().is_running()


def test_a_forgotten_client_ends_its_thread(broker: Broker) -> None:
    before = set(threading.enumerate())
    client = kalends.connect_sync(broker.url, user="ada")
    client.health()
    (thread,) = set(threading.enumerate()) - before
    del client
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_closing_it_during_a_call_tells_that_the_outcome_is_unknown(broker: Broker) -> None:
    client = kalends.connect_sync(broker.url, user="ada")
    client.health()
    raised: list[BaseException] = []

    def call() -> None:
        broker.faults.extend(["drop-before"] * 100)
        try:
            client.book("caltech/onyx", duration="1h")
        except OutcomeUnknown as error:
            raised.append(error)

    other = threading.Thread(target=call)
    other.start()
    while not any(name == "book" for name, _ in list(broker.seen)):
        pass
    client.close()
    other.join(60)
    assert len(raised) == 1


def _in_a_child(client: kalends.SyncClient) -> None:
    sys.exit(0 if client.health().status == "ok" else 1)


def test_a_forked_process_has_connections_of_its_own(broker: Broker) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        client.health()
        child = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(client,))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert client.health().status == "ok"


ENDS = {
    "a script that closes nothing": "client = sync(); client.health(); client.list()",
    "a function that leaves its client": """
def first():
    return sync().health()
for _ in range(3):
    first()
""",
    "an iterator that is left": "client = sync(); next(client.watch(after=0))",
    "a program with a loop that closes nothing": "client = asynchronous(); asyncio.run(client.health())",
    "several loops one after the other": """
client = asynchronous()
for _ in range(3):
    asyncio.run(client.health())
""",
    "a loop that leaves its clients": """
async def many():
    for _ in range(3):
        await asynchronous().health()
asyncio.run(many())
""",
    "a loop that is stopped and not closed": """
loop = asyncio.new_event_loop()
client = asynchronous()
loop.run_until_complete(client.health())
""",
    "a client that was never used": "client = sync(); other = asynchronous()",
}


@TRANSPORTS
@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS.keys())
def test_nothing_complains_that_something_is_still_open(
    broker: Broker, transport: str, program: str
) -> None:
    for number in range(2):
        broker.call("ada", "book", {"key": f"a-booking-{number}", "request": _request()})
    options = f"{broker.url!r}, user='ada', transport={transport!r}"
    script = (
        f"import asyncio, kalends\n"
        f"def sync(): return kalends.connect_sync({options})\n"
        f"def asynchronous(): return kalends.connect({options})\n{program}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def _request() -> dict[str, object]:
    import msgspec

    client = kalends.connect("http://localhost")
    built: dict[str, object] = msgspec.to_builtins(client.request("caltech/onyx", duration="1h"))
    return built
