"""Durable three-way co-allocations a second over five site processes and a broker, and how long each takes.

    python benchmarks/booking.py [--seconds 5] [--in-flight 1,32,512] [--json]

Every booking asks three of the five sites for one unit of their cluster for the same hour; it counts
when the client has been told that it is reserved. Beside it, from the same run: the bare line and the
bare stores (see `benchmarks/limits.py`), the processor seconds of each process, and the round trips
of one booking over lines of 25 ms one-way delay. Prints figures and judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# In place of this folder, whose calendar.py would stand in for the standard library's.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kalends
from benchmarks.facility import Facility, facility
from benchmarks.limits import bare_line, bare_stores
from kalends.client.client import Client
from kalends.core.errors import OutcomeUnknown

SITES = 5
PARTS = 3
CAPACITY = 1_000_000
ONE_WAY_MS = 25
DAYS = 300


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class Load:
    """`in_flight` loops that book as fast as they are answered, until the time is over."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._random = random.Random(seed)
        self._first_s = (int(time.time()) // 86_400 + 1) * 86_400
        self.latencies_ms: list[float] = []
        self.failed = 0

    async def run(self, in_flight: int, seconds: float) -> None:
        ends_s = time.perf_counter() + seconds
        await asyncio.gather(*(self._loop(ends_s) for _ in range(in_flight)))

    async def _loop(self, ends_s: float) -> None:
        while (began_s := time.perf_counter()) < ends_s:
            try:
                view = await self._client.book(self.request(wide=False))
            except OutcomeUnknown:
                # A machine that is too busy for its servers.
                self.failed += 1
                continue
            self.latencies_ms.append((time.perf_counter() - began_s) * 1e3)
            self.failed += view.state != "reserved"

    def request(self, *, wide: bool) -> kalends.Request:
        """Three sites, one hour; `wide`: some hour of a day, so that the broker must look first."""
        chosen = self._random.sample(range(SITES), PARTS)
        start = self._first_s + self._random.randrange(DAYS * 24) * 3_600
        terms = tuple(kalends.Term(resource=f"site{number}/cluster") for number in chosen)
        return kalends.Request(
            alternatives=(kalends.Alternative(terms=terms),),
            duration_s=3_600,
            not_before=start,
            not_after=start + (86_400 if wide else 3_600),
        )


async def measure(running: Facility, in_flight: int, seconds: float) -> dict[str, Any]:
    async with kalends.connect(running.broker.url, user="somebody", timeout_s=60) as client:
        warm_up = Load(client, seed=in_flight)
        await warm_up.run(min(in_flight, 32), 1.0)
        load = Load(client, seed=in_flight + 1)
        before = running.cpu_seconds()
        own_before_s = time.process_time()
        began_s = time.perf_counter()
        await load.run(in_flight, seconds)
        elapsed_s = time.perf_counter() - began_s
        own_s = time.process_time() - own_before_s
        after = running.cpu_seconds()
    done = len(load.latencies_ms)
    used = {name: round((after[name] - before[name]) / done * 1e6) for name in after}
    used["load generator"] = round(own_s / done * 1e6)
    return {
        "in_flight": in_flight,
        "bookings": done,
        "failed": load.failed,
        "bookings_per_s": done / elapsed_s,
        "p50_ms": statistics.median(load.latencies_ms),
        "p99_ms": percentile(load.latencies_ms, 0.99),
        "cpu_us_per_booking": used,
    }


async def wait_until_up(url: str) -> None:
    async with kalends.connect(url, user="somebody") as client:
        for _ in range(200):
            if all(site.state == "up" for site in (await client.resources()).sites):
                return
            await asyncio.sleep(0.05)
    raise RuntimeError("the broker does not reach all sites")


async def round_trips(url: str) -> dict[str, float]:
    """Median milliseconds of one booking at a time, in round trips of the slow line."""
    figures = {}
    async with kalends.connect(url, user="somebody", timeout_s=60) as client:
        load = Load(client, seed=7)
        for name, wide in (("known slots", False), ("looking first", True)):
            times_ms = []
            for _ in range(20):
                began_s = time.perf_counter()
                await client.book(load.request(wide=wide))
                times_ms.append((time.perf_counter() - began_s) * 1e3)
            figures[name] = statistics.median(times_ms) / (2 * ONE_WAY_MS)
    return figures


def measure_round_trips(directory: Path) -> dict[str, float]:
    """The facility again, with a slow line between the broker and every site."""
    with facility(directory, SITES, capacity=CAPACITY, one_way_ms=ONE_WAY_MS) as running:
        asyncio.run(wait_until_up(running.broker.url))
        return asyncio.run(round_trips(running.broker.url))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--in-flight", default="1,32,512")
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    levels = [int(level) for level in options.in_flight.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        with facility(Path(directory), SITES, capacity=CAPACITY) as running:
            asyncio.run(wait_until_up(running.broker.url))
            for level in levels:
                row = asyncio.run(measure(running, level, options.seconds))
                rows.append(row)
        for row in rows:
            level = row["in_flight"]
            row["line_limit_per_s"] = bare_line(SITES, level, min(options.seconds, 3.0))
            batch = max(2 * round(level * PARTS / SITES), 2)
            row["store_limit_per_s"] = bare_stores(SITES, batch, min(options.seconds, 3.0))
        slow = Path(directory) / "slow"
        slow.mkdir()
        trips = measure_round_trips(slow)
    result = {"one_way_ms": ONE_WAY_MS, "rows": rows, "round_trips": trips}
    print(json.dumps(result, indent=2) if options.json else table(result))


def table(result: dict[str, Any]) -> str:
    head = (
        f"{'in flight':>9} {'bookings/s':>11} {'p50 ms':>8} {'p99 ms':>8} "
        f"{'bare line/s':>12} {'ratio':>6} {'bare stores/s':>14} {'ratio':>6}"
    )
    lines = [head]
    for row in result["rows"]:
        rate, line, stores = (
            row["bookings_per_s"], row["line_limit_per_s"], row["store_limit_per_s"],
        )  # fmt: skip
        lines.append(
            f"{row['in_flight']:>9} {rate:>11.0f} {row['p50_ms']:>8.2f} {row['p99_ms']:>8.2f} "
            f"{line:>12.0f} {rate / line:>6.2f} {stores:>14.0f} {rate / stores:>6.2f}"
        )
        if row["failed"]:
            lines.append(f"          {row['failed']} of {row['bookings']} were refused")
    lines.append("processor time per booking, us:")
    for row in result["rows"]:
        used = ", ".join(f"{name} {us}" for name, us in row["cpu_us_per_booking"].items())
        lines.append(f"{row['in_flight']:>9} {used}")
    lines.append(f"round trips per booking at {result['one_way_ms']} ms one way:")
    lines += [f"          {name}: {trips:.2f}" for name, trips in result["round_trips"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
