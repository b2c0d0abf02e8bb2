"""What a promise costs where a Slurm stands behind the calendar, beside `scontrol` used by hand.

    make bench-backends [ARGS='--slots 200 --json']

Starts a Slurm on loopback (it needs root, and Slurm installed), a site before it, one without, and a broker.
Slots are booked one after the other, over both sites and over the plain one alone; the difference is what
the reservation costs. Prints a table. Judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import kalends
from benchmarks.job_rates.loopback_slurm import LoopbackSlurm, why_not
from kalends.backends.adapter import carry_out
from kalends.backends.records import CreateReservation, DeleteReservation, SystemReservation
from kalends.backends.slurm.adapter import Slurm
from kalends.broker.server import build_broker
from kalends.client.client import Client
from kalends.demo.together import until
from kalends.resource_servers.server import build_site
from kalends.serving.configuration import configuration_of
from kalends.serving.http.runner import Listener, Service, listen

NODES: Final = 4
HOUR_S: Final = 3_600
AHEAD_S: Final = 30 * 24 * HOUR_S
USER: Final = "daemon"


class Row(NamedTuple):
    """`p50` and `p99` in milliseconds."""

    what: str
    p50: float
    p99: float
    bar: str = ""


async def timed(what: str, steps: list[Callable[[], Awaitable[object]]], bar: str = "") -> Row:
    took_ms = []
    for step in steps:
        began_s = time.perf_counter()
        await step()
        took_ms.append(1e3 * (time.perf_counter() - began_s))
    took_ms.sort()
    return Row(what, statistics.median(took_ms), took_ms[len(took_ms) * 99 // 100], bar)


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
    """The site before the Slurm, a plain one, and a broker, in this process."""

    def __init__(self, directory: Path, slurm: Path) -> None:
        self._directory, self._slurm = directory, slurm
        self._listening: dict[str, Listener] = {}

    async def start(self) -> None:
        cluster = {"name": "cluster", "capacity": NODES, "nodes": f"n[1-{NODES}]"}
        system = {"name": "slurm", "configuration": str(self._slurm), "users": {"ann": USER}}
        await self.start_site("centre", [cluster], batch_systems=[system])
        await self.start_site("lab", [{"name": "beam", "capacity": NODES}])
        sites = [{"name": each, "url": self._listening[each].url} for each in ("centre", "lab")]
        raw = {"name": "broker", "listen": "127.0.0.1:0", "store": "broker.sqlite", "sites": sites}
        configured = configuration_of({"broker": raw}, self._directory).broker
        assert configured is not None
        await self._listen("broker", build_broker(configured, version="bench"))

    async def start_site(self, name: str, resources: list[object], **fields: object) -> None:
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

    async def stop(self) -> None:
        for name in ("broker", "lab", "centre"):
            if name in self._listening:
                await self._listening[name].stop()


async def by_broker(directory: Path, slurm: Path, count: int, base_s: int) -> list[Row]:
    facility = Facility(directory, slurm)
    try:
        await facility.start()
        async with facility.client() as ann:
            await until(
                lambda: ann.find("centre/cluster", duration="1h", at=base_s + AHEAD_S),
                lambda found: bool(found.candidates),
                "the site does not look at its Slurm",
            )

            def booked(terms: str, number: int) -> Callable[[], Awaitable[object]]:
                return lambda: ann.book(terms, at=base_s + number * HOUR_S, duration="1h")

            both, plain = "centre/cluster:2 + lab/beam:2", "lab/beam:2"
            return [
                await timed("co-allocation, one of two sites before Slurm",
                            [booked(both, number) for number in range(count)]),
                await timed("booking on the plain site alone",
                            [booked(plain, number) for number in range(count)]),
            ]  # fmt: skip
    finally:
        await facility.stop()


async def measured(folder: Path, count: int) -> list[Row]:
    base_s = (int(time.time()) + AHEAD_S) // HOUR_S * HOUR_S
    top = folder / "slurm"
    with LoopbackSlurm(top, NODES) as slurm:
        rows = [await by_hand(slurm, count, base_s)]
        rows += await by_adapter(Slurm(str(top / "slurm.conf")), count, base_s)
        rows += await by_broker(folder, top / "slurm.conf", count, base_s)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slots", type=int, default=200, help="how many slots are booked")
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    options = parser.parse_args()
    if why := why_not():
        print(why, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="kalends-bench-") as name:
        folder = Path(name)
        # Slurm's daemons are let in whoever they run as.
        folder.chmod(0o755)
        (folder / "slurm").mkdir(mode=0o755)
        rows = asyncio.run(measured(folder, options.slots))
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return 0
    print(f"{'':48} {'p50 ms':>8} {'p99 ms':>8}  bar")
    for row in rows:
        print(f"{row.what:48} {row.p50:8.1f} {row.p99:8.1f}  {row.bar}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
