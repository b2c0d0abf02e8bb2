"""Whole servers on each store: bookings a second by replicas of the broker, and how long failures last."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
from tests.postgres.failover_soak import Report, soak
from tests.postgres.struck_servers import struck_servers
from tests.processes.facility import Facility, connected, make_facility
from tests.processes.servers import running

import kalends
from benchmarks.booking import CAPACITY, SITES, Load, percentile
from benchmarks.facility import cpu_seconds

IN_FLIGHT: Final = 64
"""Bookings under way at all replicas together."""
FAILURES: Final = 5
WARM_UP_S: Final = 1.0
UNLIMITED: Final = {
    "site": "promised_per_principal_max = 1000000",
    "broker": "open_per_principal_max = 1000000",
}


class BookingRate(NamedTuple):
    """Bookings at three of five sites, all stores of one kind; `busy` are processors that each uses."""

    store: str
    replicas: int
    bookings_s: float
    median_ms: float
    worst_of_100_ms: float
    failed: int
    busy: Mapping[str, float]


class Pauses(NamedTuple):
    """How long nobody was told of a booking, or a site did not answer, in each of several failures."""

    what: str
    seconds: Sequence[float]


@contextmanager
def _facility(store: str, address: str, replicas: int) -> Iterator[Facility]:
    with tempfile.TemporaryDirectory(prefix="kalends-bench-") as folder:
        names = ["broker", *(f"site{number}" for number in range(SITES))]
        stores = {}
        if store != "sqlite":
            with psycopg.connect(address, autocommit=True) as session:
                for name in names:
                    session.execute(f"create schema {name}".encode())
            stores = {name: f"{address}&options=-csearch_path%3D{name}" for name in names}
        made = make_facility(
            Path(folder), sites=SITES, replicas=replicas, capacity=CAPACITY, stores=stores
        )
        for server in made.servers:
            role = "site" if server in made.sites else "broker"
            with server.configuration.open("a") as file:
                file.write(
                    f"[{role}.limits]\ncalls_per_s = 1e9\ncalls_burst = 1000000000\n{UNLIMITED[role]}\n"
                )
        yield made


async def _loaded(facility: Facility, seconds: float) -> tuple[list[float], int]:
    """The milliseconds of each booking, by a client of each replica, and how many were not told of one."""
    clients = [
        kalends.connect(broker.url, user="somebody", timeout_s=60) for broker in facility.brokers
    ]
    loads = [Load(client, seed=number) for number, client in enumerate(clients)]
    try:
        share = IN_FLIGHT // len(loads)
        await asyncio.gather(*(load.run(share, seconds) for load in loads))
    finally:
        for client in clients:
            await client.close()
    took_ms = [each for load in loads for each in load.latencies_ms]
    return took_ms, sum(load.failed for load in loads)


def booking_rate(store: str, address: str, replicas: int, seconds: float) -> BookingRate:
    """Measure with an empty store at `address`."""

    async def measured(facility: Facility) -> BookingRate:
        def used_s() -> dict[str, float]:
            return {
                "brokers": sum(cpu_seconds(each.pid) for each in facility.brokers),
                "sites": sum(cpu_seconds(each.pid) for each in facility.sites),
                "load": time.process_time(),
            }

        async with running(*facility.servers):
            await connected(facility)
            await _loaded(facility, WARM_UP_S)
            before, began_s = used_s(), time.perf_counter()
            took_ms, failed = await _loaded(facility, seconds)
            passed_s = time.perf_counter() - began_s
            busy = {name: (after - before[name]) / passed_s for name, after in used_s().items()}
        return BookingRate(
            store, replicas, len(took_ms) / passed_s, statistics.median(took_ms),
            percentile(took_ms, 0.99), failed, busy,
        )  # fmt: skip

    with _facility(store, address, replicas) as made:
        return asyncio.run(measured(made))


def pauses() -> list[Pauses]:
    """Kill the primary of three databases, and the serving process of a site, some times each."""
    with tempfile.TemporaryDirectory(prefix="kalends-bench-") as folder:
        report = Report()
        plan = ["primary killed"] * FAILURES
        asyncio.run(soak(Path(folder), plan, 1, lambda _: None, report=report))
        return [
            Pauses("bookings, primary killed, standby promoted", report.totals[plan[0]].gaps_s),
            Pauses("site, killed, standby serves", asyncio.run(_take_overs(Path(folder) / "site"))),
        ]


async def _take_overs(folder: Path) -> list[float]:
    took_s = []
    async with struck_servers(folder) as struck:
        for _ in range(FAILURES):
            serving = await struck.serving()
            began_s = time.perf_counter()
            await serving.kill()
            await struck.serving()
            took_s.append(time.perf_counter() - began_s)
            await serving.spawn()
            await serving.listening()
            await struck.whole()
    return took_s


def booking_table(rates: Sequence[BookingRate]) -> str:
    lines = [
        f"{'all stores':<24} {'replicas':>8} {'bookings/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'failed':>6}"
        "  processors busy"
    ]
    lines += [
        f"{each.store:<24} {each.replicas:>8} {each.bookings_s:>10,.0f} {each.median_ms:>8.1f}"
        f" {each.worst_of_100_ms:>8.1f} {each.failed:>6}  "
        + ", ".join(f"{name} {busy:.2f}" for name, busy in each.busy.items())
        for each in rates
    ]
    return "\n".join(lines)


def pauses_table(measured: Sequence[Pauses]) -> str:
    return "\n".join(
        f"{each.what:<44} p50 {statistics.median(each.seconds):.2f} s, worst {max(each.seconds):.2f} s"
        for each in measured
    )
