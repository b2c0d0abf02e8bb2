"""What a promise costs where a Slurm stands behind the calendar, beside `scontrol` used by hand.

    make bench-backends [ARGS='--slots 200 --promises 1000 --json']

Starts two Slurms on loopback (it needs root, and Slurm installed), a site before each, one without, and a
broker. Slots are booked one after the other, over a site before Slurm and the plain one, and over the plain
one alone; the difference is what the reservation costs. Then eight users at once book slots over all three,
and a site with many promises is started again. Prints a table. Judges nothing: on a machine that does other
things, the processor time says more than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp

import kalends
from kalends.backends.adapter import carry_out
from kalends.backends.records import CreateReservation, DeleteReservation, SystemReservation
from kalends.backends.slurm.adapter import Slurm
from kalends.client.client import Client
from kalends.demo.clusters.loopback_slurm import LoopbackSlurm, why_not
from kalends.demo.together import until
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.serving.configuration import configuration_of
from kalends.serving.http.runner import Listener, Service, listen

NODES: Final = 4
HOUR_S: Final = 3_600
AHEAD_S: Final = 30 * 24 * HOUR_S
USER: Final = "daemon"
AT_ONCE: Final = 8


class Row(NamedTuple):
    """`p50` and `p99` in milliseconds; `cpu` those of this process and its commands for each step."""

    what: str
    p50: float
    p99: float
    cpu: float
    bar: str = ""


def cpu_ms() -> float:
    """Return the processor time of this process and of all commands that have ended."""
    spent = os.times()
    return 1e3 * (spent.user + spent.system + spent.children_user + spent.children_system)


async def timed(
    what: str, steps: list[Callable[[], Awaitable[object]]], bar: str = "", *, at_once: int = 1
) -> Row:
    took_ms: list[float] = []
    began_cpu_ms = cpu_ms()
    waiting = iter(steps)

    async def work() -> None:
        for step in waiting:
            began_s = time.perf_counter()
            await step()
            took_ms.append(1e3 * (time.perf_counter() - began_s))

    await asyncio.gather(*(work() for _ in range(at_once)))
    took_ms.sort()
    cpu = (cpu_ms() - began_cpu_ms) / len(steps)
    return Row(what, statistics.median(took_ms), took_ms[len(took_ms) * 99 // 100], cpu, bar)


def wishes(count: int, base_s: int, name: str) -> list[SystemReservation]:
    return [
        SystemReservation(
            f"{name}{number}", base_s + number * HOUR_S, base_s + (number + 1) * HOUR_S,
            ("n1", "n2"), (USER,),
        )
        for number in range(count)
    ]  # fmt: skip


async def by_hand(slurm: LoopbackSlurm, count: int, base_s: int) -> Row:
    def made(wish: SystemReservation) -> Callable[[], Awaitable[object]]:
        return lambda: asyncio.to_thread(
            slurm.said, "scontrol", "create", "reservation", f"ReservationName={wish.name}",
            f"StartTime=uts{wish.start}", f"EndTime=uts{wish.end}", "Nodes=n1,n2", f"Users={USER}",
        )  # fmt: skip

    wanted = wishes(count, base_s, "hand")
    row = await timed("scontrol create, by hand", [made(each) for each in wanted])
    for each in wanted:
        await asyncio.to_thread(slurm.said, "scontrol", "delete", f"ReservationName={each.name}")
    return row


async def by_adapter(adapter: Slurm, count: int, base_s: int) -> list[Row]:
    wanted = wishes(count, base_s, "kal.bench.00000000-")

    def made(wish: SystemReservation) -> Callable[[], Awaitable[object]]:
        return lambda: carry_out(adapter, CreateReservation(wish))

    def gone(wish: SystemReservation) -> Callable[[], Awaitable[object]]:
        return lambda: carry_out(adapter, DeleteReservation(wish.name))

    return [
        await timed("created and read back", [made(each) for each in wanted], "< 15, 50"),
        await timed(f"one look at all of {count} reservations", [adapter.state] * 20),
        await timed("deleted and read back", [gone(each) for each in wanted]),
    ]


class Facility:
    """Two sites before a Slurm each, a plain one, and a broker, in this process."""

    def __init__(self, directory: Path, slurms: dict[str, Path]) -> None:
        self._directory, self._slurms = directory, slurms
        self._listening: dict[str, Listener] = {}

    async def start(self) -> None:
        for site in self._slurms:
            await self.start_site(site)
        await self._start_site("lab", [{"name": "beam", "capacity": NODES}])
        sites = [{"name": each, "url": found.url} for each, found in self._listening.items()]
        raw = {"name": "broker", "listen": "127.0.0.1:0", "store": "broker.sqlite", "sites": sites}
        configured = configuration_of({"broker": raw}, self._directory).broker
        assert configured is not None
        await self._listen("broker", build_broker(configured, version="bench"))

    async def start_site(self, name: str) -> None:
        """Start a site before its Slurm."""
        cluster = {"name": "cluster", "capacity": NODES, "nodes": f"n[1-{NODES}]"}
        configuration = str(self._slurms[name])
        system = {"name": "slurm", "configuration": configuration, "users": {"ann": USER}}
        await self._start_site(name, [cluster], batch_systems=[system])

    async def _start_site(self, name: str, resources: list[object], **fields: object) -> None:
        limits = {"promised_per_principal_max": 100_000}
        raw = {
            "name": name, "listen": "127.0.0.1:0", "store": f"{name}.sqlite", "limits": limits,
            "resources": resources, **fields,
        }  # fmt: skip
        configured = configuration_of({"site": raw}, self._directory).site
        assert configured is not None
        await self._listen(name, build_site(configured, version="bench"))

    async def _listen(self, name: str, application: object) -> None:
        address = "127.0.0.1:0"
        if name in self._listening:
            address = self._listening[name].url.removeprefix("http://")
        self._listening[name] = await listen(Service(name, application, address))  # type: ignore[arg-type]

    def client(self) -> Client:
        return kalends.connect(self._listening["broker"].url, user="ann", zone="UTC")

    async def kept(self, name: str) -> int:
        """Return how many promises of a site its Slurm was seen to keep."""
        url = f"{self._listening[name].url}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            text = await answer.text()
        (line,) = [
            each for each in text.splitlines() if each.startswith('kalends_grants{kept="true')
        ]
        return int(float(line.split()[-1]))

    async def stop_site(self, name: str) -> None:
        await self._listening[name].stop()

    async def stop(self) -> None:
        for name in reversed(self._listening):
            await self._listening[name].stop()


async def by_broker(facility: Facility, count: int, base_s: int) -> list[Row]:
    async with facility.client() as ann:

        def booked(terms: str, hour: int) -> Callable[[], Awaitable[object]]:
            return lambda: ann.book(terms, at=base_s + hour * HOUR_S, duration="1h")

        both, plain = "centre/cluster:2 + lab/beam:2", "lab/beam:2"
        return [
            await timed("co-allocation, one of two sites before Slurm",
                        [booked(both, number) for number in range(count)]),
            await timed("booking on the plain site alone",
                        [booked(plain, number) for number in range(count)]),
        ]  # fmt: skip


async def at_once(facility: Facility, count: int, base_s: int) -> list[Row]:
    """Slots over both Slurms and the plain site: how many are booked in a second, by several at once."""
    terms = "centre/cluster:2 + north/cluster:2 + lab/beam:2"
    async with facility.client() as ann:

        def booked(hour: int) -> Callable[[], Awaitable[object]]:
            return lambda: ann.book(terms, at=base_s + hour * HOUR_S, duration="1h", wait_s=60)

        began_s = time.perf_counter()
        steps = [booked(2 * count + number) for number in range(count)]
        row = await timed("co-allocation over two Slurms and a plain site", steps, at_once=AT_ONCE)
        rate = count / (time.perf_counter() - began_s)
        return [row._replace(what=f"{row.what}, {AT_ONCE} at once: {rate:.1f} a second")]


async def boot(facility: Facility, count: int, promises: int, base_s: int) -> list[Row]:
    """How long a site with many promises takes until it has seen that its Slurm keeps all of them."""
    async with facility.client() as ann:
        missing = promises - await facility.kept("centre")

        def booked(hour: int) -> Callable[[], Awaitable[object]]:
            at_s = base_s + (count * 4 + hour) * HOUR_S
            return lambda: ann.book("centre/cluster:2", at=at_s, duration="1h", wait_s=60)

        steps = [booked(number) for number in range(max(missing, 0))]
        await timed("", steps or [ann.resources], at_once=AT_ONCE)
    wanted = await facility.kept("centre")
    await facility.stop_site("centre")

    async def clean() -> None:
        await facility.start_site("centre")
        await until(
            lambda: facility.kept("centre"),
            lambda kept: kept >= wanted,
            "promises are not seen to be kept",
        )

    return [await timed(f"boot until {wanted} promises were seen to be kept", [clean], "< 2000")]


async def measured(folder: Path, count: int, promises: int) -> list[Row]:
    base_s = (int(time.time()) + AHEAD_S) // HOUR_S * HOUR_S
    tops = {name: folder / name for name in ("centre", "north")}
    configurations = {name: top / "slurm.conf" for name, top in tops.items()}
    with LoopbackSlurm(tops["centre"], NODES) as slurm, LoopbackSlurm(tops["north"], NODES):
        rows = [await by_hand(slurm, count, base_s)]
        rows += await by_adapter(Slurm(str(configurations["centre"])), count, base_s)
        facility = Facility(folder, configurations)
        try:
            await facility.start()
            await ready(facility, base_s)
            rows += await by_broker(facility, count, base_s)
            rows += await at_once(facility, count, base_s)
            rows += await boot(facility, count, promises, base_s)
            adapter = Slurm(str(configurations["centre"]))
            rows.append(await timed("one look with all of these", [adapter.state] * 10))
        finally:
            await facility.stop()
    return rows


async def ready(facility: Facility, base_s: int) -> None:
    async with facility.client() as ann:
        for site in ("centre", "north"):
            await until(
                lambda site=site: ann.find(f"{site}/cluster", duration="1h", at=base_s + AHEAD_S),  # type: ignore[misc]
                lambda found: bool(found.candidates),
                "the site does not look at its Slurm",
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slots", type=int, default=200, help="how many slots are booked")
    parser.add_argument(
        "--promises", type=int, default=1_000, help="with how many the site is started again"
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    options = parser.parse_args()
    if why := why_not():
        print(why, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="kalends-bench-") as name:
        folder = Path(name)
        # Slurm's daemons are let in whoever they run as.
        folder.chmod(0o755)
        for each in ("centre", "north"):
            (folder / each).mkdir(mode=0o755)
        rows = asyncio.run(measured(folder, options.slots, options.promises))
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return 0
    print(f"{'':68} {'p50 ms':>8} {'p99 ms':>8} {'cpu ms':>8}  bar")
    for row in rows:
        print(f"{row.what:68} {row.p50:8.1f} {row.p99:8.1f} {row.cpu:8.1f}  {row.bar}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
