"""What each store costs, in one run: SQLite, PostgreSQL, PostgreSQL with a standby.

Steps: a request is begun, committed and finished in a broker's register, each step durable before the next.
Bookings: whole servers, of which all stores are of one kind. Replicas are processes of their own. With a
standby each commit waits until two servers have it on their disks. Pauses: how long bookings stop when the
primary of three databases is killed, and how long a site is away when its process is.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # In place of this folder, whose calendar.py would stand in for the standard library's.
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing as mp
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from tests.support import postgres_clusters

from benchmarks.stored_facilities import (
    BookingRate,
    booking_rate,
    booking_table,
    pauses,
    pauses_table,
)
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.register.contract import Register
from kalends.broker.register.postgres.postgres_register import PostgresRegister
from kalends.broker.register.sqlite.broker_store import BrokerStore
from kalends.core.requests import Alternative, Request, Term
from kalends.stores.postgres.address import Address

PARTS: Final = ("steps", "bookings", "pauses")
STORES: Final = ("sqlite", "postgres", "postgres with a standby")
IN_FLIGHT: Final = (1, 32, 512)
REPLICAS: Final = (1, 2, 4)
OF_EACH_REPLICA: Final = 64
"""Requests in flight while replicas are compared."""
STEPS: Final = 3
WARM_UP: Final = 0.25
"""This part of the time is not counted."""
LEASE_S: Final = 10.0


class Place(NamedTuple):
    """Where a register is: a file, or a database."""

    store: str
    address: str


class Load(NamedTuple):
    replicas: int
    in_flight: int
    seconds: float


class Rate(NamedTuple):
    """Durable steps a second of all replicas together, and how long one takes."""

    store: str
    replicas: int
    in_flight: int
    steps_s: float
    median_ms: float
    worst_of_100_ms: float


async def opened(place: Place, replica: str) -> Register:
    if place.store == "sqlite":
        return await BrokerStore.open(Path(place.address), "bench", lambda committed: None)
    return await PostgresRegister.open(
        Address(place.address), "bench", replica, lambda committed: None, lease_s=LEASE_S
    )


def record(rid: str, owner: str) -> r.Record:
    """A booking at three sites as it is stored: about 0.7 kB."""
    sites = [f"site{number}" for number in range(3)]
    terms = tuple(Term(resource=f"{site}/cluster") for site in sites)
    request = Request(
        alternatives=(Alternative(terms=terms),), duration_s=3_600, not_before=1_800_000_000
    )
    return r.Record(
        rid=rid, user="somebody", key=rid, digest="d" * 32, stamp=1, owner=owner, reservation=rid,
        created_ms=1, spec=r.Spec(request=request), chosen=dict.fromkeys(sites, (1 << 40,)),
    )  # fmt: skip


async def lives_of_requests(
    register: Register, replica: int, in_flight: int, seconds: float
) -> list[float]:
    """The seconds that each step took, after the warm-up."""
    numbers = itertools.count()
    owner, life = f"bench-{replica}:1", time.time_ns()
    took_s: list[float] = []
    begins_s = time.perf_counter() + seconds * WARM_UP
    ends_s = begins_s + seconds

    async def stored(operation: r.Operation) -> None:
        began_s = time.perf_counter()
        await register.writer.run([operation])
        done_s = time.perf_counter()
        if begins_s <= done_s < ends_s:
            took_s.append(done_s - began_s)

    async def one_after_the_other() -> None:
        while time.perf_counter() < ends_s:
            row = record(f"{life:016x}-{replica:02x}-{next(numbers):012x}", owner)
            await stored(r.Begin(row))
            await stored(r.Commit(row.rid, 1, "", r.encode_record(row)))
            await stored(r.Finish(row.rid, "commit"))

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(one_after_the_other())
    return took_s


def _replica(place: Place, number: int, load: Load, pipe: Connection) -> None:
    async def run() -> list[float]:
        register = await opened(place, f"bench-{number}")
        try:
            pipe.send("ready")
            await asyncio.to_thread(pipe.recv)
            return await lives_of_requests(register, number, load.in_flight, load.seconds)
        finally:
            await register.close()

    pipe.send(asyncio.run(run()))


def measured(place: Place, load: Load) -> Rate:
    context = mp.get_context("spawn")
    pipes: list[Connection] = []
    processes = []
    for number in range(load.replicas):
        near, far = context.Pipe()
        process = context.Process(target=_replica, args=(place, number, load, far), daemon=True)
        process.start()
        processes.append(process)
        pipes.append(near)
    for pipe in pipes:
        pipe.recv()
    for pipe in pipes:
        pipe.send("go")
    took_s = sorted(itertools.chain.from_iterable(pipe.recv() for pipe in pipes))
    for process in processes:
        process.join()
    return Rate(
        place.store,
        load.replicas,
        load.in_flight,
        len(took_s) / load.seconds,
        statistics.median(took_s) * 1e3,
        took_s[int(len(took_s) * 0.99)] * 1e3,
    )


@contextlib.contextmanager
def place_of(store: str) -> Iterator[Place]:
    """An empty register, on the disk of this machine."""
    with contextlib.ExitStack() as stack:
        if store == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            yield Place(store, str(Path(folder) / "register.sqlite"))
            return
        folder = stack.enter_context(postgres_clusters.place(on_disk=True))
        primary = postgres_clusters.Cluster(folder)
        primary.initialise()
        if "standby" in store:
            primary.configure({"synchronous_standby_names": "s1"})
        primary.start()
        stack.callback(primary.stop)
        if "standby" in store:
            beside = stack.enter_context(postgres_clusters.place(on_disk=True))
            stack.callback(primary.standby(beside, "s1").stop)
            primary.wait_for_standby("s1")
        yield Place(store, primary.url())


def loads(seconds: float) -> Sequence[Load]:
    alone = [Load(1, in_flight, seconds) for in_flight in IN_FLIGHT]
    return [*alone, *(Load(replicas, OF_EACH_REPLICA, seconds) for replicas in REPLICAS)]


def table(rates: Sequence[Rate]) -> str:
    lines = [
        f"{'store':<24} {'replicas':>8} {'in flight':>9} {'steps/s':>9} {'p50 ms':>8} {'p99 ms':>8}"
    ]
    lines += [
        f"{each.store:<24} {each.replicas:>8} {each.in_flight * each.replicas:>9} {each.steps_s:>9,.0f}"
        f" {each.median_ms:>8.1f} {each.worst_of_100_ms:>8.1f}"
        for each in rates
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--stores", default=",".join(STORES), help="some of them, with commas")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them, with commas")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts, stores = options.parts.split(","), options.stores.split(",")
    found: dict[str, list[NamedTuple]] = {}
    # One store after the other, so that a machine that changes its speed changes it for all.
    if "steps" in parts:
        rates = [_rate(store, load) for load in loads(options.seconds) for store in stores]
        found["steps"] = list(rates)
        _show(options, table(rates))
    if "bookings" in parts:
        booked = [
            _booked(store, replicas, options.seconds) for replicas in REPLICAS for store in stores
        ]
        found["bookings"] = list(booked)
        _show(options, booking_table(booked))
    if "pauses" in parts:
        stopped = pauses()
        found["pauses"] = list(stopped)
        _show(options, pauses_table(stopped))
    if options.json:
        print(
            json.dumps(
                {part: [each._asdict() for each in of] for part, of in found.items()}, indent=2
            )
        )


def _rate(store: str, load: Load) -> Rate:
    with place_of(store) as place:
        return measured(place, load)


def _booked(store: str, replicas: int, seconds: float) -> BookingRate:
    with place_of(store) as place:
        return booking_rate(store, place.address, replicas, seconds)


def _show(options: argparse.Namespace, text: str) -> None:
    if not options.json:
        print(text, flush=True)


if __name__ == "__main__":
    main()
