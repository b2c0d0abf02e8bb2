"""The same closed loops at real processes on loopback: a broker and sites, each with several resources.

What virtual time leaves out is here: real stores, real sessions, real processor time, and no delay on
the lines. All share this machine, so figures tell how competition changes them, not how fast kalends is.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import kalends
from benchmarks.contenders.demand import Demand, Order, Scenario, Spread
from benchmarks.contenders.measures import jain, percentile
from benchmarks.facility import Facility, start_server, stop
from kalends.client.client import Client
from kalends.contract.calls import RequestView
from kalends.core.errors import LostRace

SITES: Final = 4
RESOURCES: Final = 10
SPREADS: Final[tuple[Spread, ...]] = ("disjoint", "uniform")
HOUR_S: Final = 3_600
WARM_UP_S: Final = 1.0
SEED: Final = 1


def measure(clients: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Each number of clients on the same ten resources, and on three of each client's own."""
    rows = []
    count = max(RESOURCES, 3 * max(clients))
    with tempfile.TemporaryDirectory() as directory, _facility(Path(directory), count) as running:
        for number in clients:
            for spread in SPREADS:
                scenario = Scenario(number, RESOURCES, spread)
                row = asyncio.run(_loaded(running, scenario, seconds))
                rows.append({"scheme": "processes", **scenario._asdict(), **row})
    return rows


async def _loaded(running: Facility, scenario: Scenario, seconds: float) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        connected = [
            await stack.enter_async_context(
                kalends.connect(running.broker.url, user=f"client{number}", timeout_s=60)
            )
            for number in range(scenario.clients)
        ]
        await _until_up(connected[0])
        load = Load(scenario, connected)
        async with asyncio.TaskGroup() as group:
            load.start(group)
            await asyncio.sleep(WARM_UP_S + scenario.kept_ms / 1_000)
            load.forget()
            before = running.cpu_seconds()
            began_s = time.perf_counter()
            await asyncio.sleep(seconds)
            elapsed_s = time.perf_counter() - began_s
            after = running.cpu_seconds()
            figures = _figures(load, elapsed_s, before, after)
            load.stop()
    return figures


def _figures(
    load: Load, elapsed_s: float, before: dict[str, float], after: dict[str, float]
) -> dict[str, Any]:
    times_ms = sorted(load.times_ms)
    done = max(len(times_ms), 1)
    used = {name: (after[name] - before[name]) / done * 1e6 for name in after}
    return {
        "bookings": len(times_ms),
        "bookings_per_s": round(len(times_ms) / elapsed_s, 1),
        "p50_ms": percentile(times_ms, 0.5),
        "p95_ms": percentile(times_ms, 0.95),
        "p99_ms": percentile(times_ms, 0.99),
        "tries": round(load.tries / done, 3),
        "jain": jain(load.of_client),
        "broker_us": round(used.pop("broker")),
        "sites_us": round(sum(used.values())),
    }


class Load:
    """Clients that book, keep, give back, and begin again, until they are stopped.

    What they have then they still give back; a request that was under way may leave a booking behind.
    """

    def __init__(self, scenario: Scenario, clients: Sequence[Client]) -> None:
        self.times_ms: list[float] = []
        self.tries = 0
        self.of_client = [0] * scenario.clients
        self._scenario = scenario
        self._clients = clients
        self._demand = Demand(scenario, SEED)
        self._first_s = (int(time.time()) // 86_400 + 1) * 86_400
        self._loops: list[asyncio.Task[None]] = []

    def start(self, group: asyncio.TaskGroup) -> None:
        self._loops = [
            group.create_task(self._loop(group, client)) for client in range(self._scenario.clients)
        ]

    def forget(self) -> None:
        """What was counted up to now was to get warm."""
        self.times_ms = []
        self.tries = 0
        self.of_client = [0] * self._scenario.clients

    def stop(self) -> None:
        for loop in self._loops:
            loop.cancel()

    async def _loop(self, group: asyncio.TaskGroup, client: int) -> None:
        while True:
            began_s = time.perf_counter()
            view = await self._booked(self._demand.next(client))
            self.times_ms.append((time.perf_counter() - began_s) * 1e3)
            self.of_client[client] += 1
            group.create_task(self._give_back(client, view.id))

    async def _booked(self, order: Order) -> RequestView:
        """What was booked at last; a request that lost its races is asked for again at once."""
        while True:
            self.tries += 1
            with contextlib.suppress(LostRace):
                return await self._clients[order.client].book(self._request(order))

    async def _give_back(self, client: int, reservation: str) -> None:
        await asyncio.sleep(self._scenario.kept_ms / 1_000)
        await self._clients[client].cancel(reservation)

    def _request(self, order: Order) -> kalends.Request:
        terms = tuple(kalends.Term(resource=_resource(number)) for number in order.resources)
        return kalends.Request(
            alternatives=(kalends.Alternative(terms=terms),),
            duration_s=HOUR_S,
            not_before=self._first_s,
            not_after=self._first_s + self._scenario.hours * HOUR_S,
        )


async def _until_up(client: Client) -> None:
    """Raises `RuntimeError` when the broker does not reach all sites within ten seconds."""
    for _ in range(200):
        if all(site.state == "up" for site in (await client.resources()).sites):
            return
        await asyncio.sleep(0.05)
    raise RuntimeError("the broker does not reach all sites")


def _resource(number: int) -> str:
    """Neighbours in number are at different sites."""
    return f"site{number % SITES}/unit{number // SITES}"


@contextlib.contextmanager
def _facility(directory: Path, count: int) -> Iterator[Facility]:
    """`count` resources of one unit on `SITES` sites, and a broker."""
    names = [_resource(number) for number in range(count)]
    servers = []
    try:
        for site in dict.fromkeys(name.partition("/")[0] for name in names):
            path = directory / f"{site}.toml"
            units = [name.partition("/")[2] for name in names if name.startswith(f"{site}/")]
            path.write_text(_site(site, units))
            servers.append((site, start_server(path)))
        path = directory / "broker.toml"
        path.write_text(_broker([(site, server.url) for site, server in servers]))
        broker = start_server(path)
        servers.append(("broker", broker))
        yield Facility(broker, [server for _, server in servers[:-1]], [])
    finally:
        stop([server for _, server in servers])


def _site(name: str, units: Sequence[str]) -> str:
    resources = "".join(f'[[site.resources]]\nname = "{unit}"\ngrain = "1h"\n' for unit in units)
    return f"""
[log]
level = "warning"
[site]
name = "{name}"
listen = "127.0.0.1:0"
store = "{name}.sqlite"
[site.limits]
calls_per_s = 1e9
calls_burst = 1000000000
{resources}"""


def _broker(sites: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f'[[broker.sites]]\nname = "{name}"\nurl = "{url}"\n' for name, url in sites)
    return f"""
[log]
level = "warning"
[broker]
name = "broker"
listen = "127.0.0.1:0"
store = "broker.sqlite"
[broker.limits]
calls_per_s = 1e9
calls_burst = 1000000000
{listed}"""
