"""What a site with a million claims costs: to start, to keep, and what its bookings wait meanwhile.

    python benchmarks/startup.py [--claims 1000000] [--seconds 180] [--json]

Writes a site's store with so many locked claims on 100 resources, one in 50 of them over. Starts the
site, and a broker; books for so many seconds, one booking after the other, while the site collects what
is over. Prints the site's processor seconds until it serves, its memory, and the longest that a booking
took. Judges nothing.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

# In place of this folder, whose calendar.py would stand in for the standard library's.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kalends
from benchmarks.booking import wait_until_up
from benchmarks.facility import Server, cpu_seconds, start_server, stop
from kalends.contract.messages import Part
from kalends.core.principals import Principal
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.resource_servers.participation.claims.claim_sets import (
    Claim,
    Stake,
    StakeForgotten,
    stored,
)
from kalends.resource_servers.participation.effects import SiteFact
from kalends.resource_servers.participation.memory.sure_time import TimePassed

RESOURCES: Final = 100
SLOT_S: Final = 600
OVER_OF: Final = 50
"""One claim in this many ended days ago."""
UNTOLD_OF: Final = 500
"""The broker has not yet let the site forget one claim in this many."""
BATCH: Final = 50_000
DAY_S: Final = 86_400


def write_store(path: Path, claims: int) -> None:
    """A site's store as years of bookings leave it."""
    now_s = int(time.time())
    store = SiteStore.open(path, "site", sync="off")
    try:
        store.apply([TimePassed(now_s * 1_000, now_s * 1_000, 1)], now_s * 1_000)
        for first in range(0, claims, BATCH):
            numbers = range(first, min(first + BATCH, claims))
            facts = [fact for number in numbers for fact in _facts(number, now_s)]
            store.apply(facts, now_s * 1_000)
    finally:
        store.close()
    _sync(path)


def _sync(path: Path) -> None:
    """All of `path` to the disk: or the first sync of a booking writes half a gigabyte of ours."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _facts(number: int, now_s: int) -> Iterator[SiteFact]:
    slot = number // RESOURCES
    over = number % OVER_OF == 0
    day_s = now_s // DAY_S * DAY_S
    start = day_s - 3 * DAY_S - slot * SLOT_S if over else day_s + 2 * DAY_S + slot * SLOT_S
    hold_id = (1 << 40) | (number + 1)
    stake = Stake(
        rid=f"01a2{number:08x}-0000-7000-8000-{number:012x}",
        att=1,
        principal=Principal(f"user{number % 500}"),
        secret=f"{number:022x}",
        need=1,
        parts=(Part("site", "http://127.0.0.1:1"),),
        coords=("http://127.0.0.1:2",),
        claims=[Claim(hold_id, f"site/r{number % RESOURCES}", start, start + SLOT_S, 1, "locked")],
        chosen={"site": (hold_id,)},
        stamp=number,
        ends_at=start + SLOT_S,
    )
    yield stored(stake, "commit-chosen")
    if number % UNTOLD_OF:
        yield StakeForgotten(stake.rid)


def memory_mb(server: Server) -> dict[str, int]:
    """What the process has in memory now, and the most that it ever had (Linux)."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM")}


async def book_for(url: str, seconds: float, slots: int) -> list[tuple[float, float]]:
    """For each booking, when it began and how many milliseconds it took."""
    first_s = (int(time.time()) // DAY_S + 2) * DAY_S + (slots + 100) * SLOT_S
    took: list[tuple[float, float]] = []
    async with kalends.connect(url, user="somebody", timeout_s=60) as client:
        began_s = time.perf_counter()
        while (at_s := time.perf_counter() - began_s) < seconds:
            number = len(took)
            await client.book(
                f"site/r{number % RESOURCES}",
                duration=SLOT_S,
                at=first_s + number // RESOURCES * SLOT_S,
            )
            took.append((at_s, (time.perf_counter() - began_s - at_s) * 1e3))
            await asyncio.sleep(0.005)
    return took


def measure(directory: Path, claims: int, seconds: float) -> dict[str, Any]:
    path = directory / "site.sqlite"
    write_store(path, claims)
    (directory / "site.toml").write_text(_site())
    servers = [start_server(directory / "site.toml")]
    try:
        site = servers[0]
        start_cpu_s, started = cpu_seconds(site.process.pid), memory_mb(site)
        (directory / "broker.toml").write_text(_broker(site.url))
        servers.append(start_server(directory / "broker.toml"))
        asyncio.run(wait_until_up(servers[1].url))
        took = asyncio.run(book_for(servers[1].url, seconds, claims // RESOURCES))
        ended = memory_mb(site)
        after_cpu_s = cpu_seconds(site.process.pid) - start_cpu_s
    finally:
        stop(servers)
    slowest = sorted(took, key=lambda each: -each[1])[:5]
    times_ms = sorted(ms for _, ms in took)
    return {
        "claims": claims,
        "store_mb": path.stat().st_size // 2**20,
        "start_cpu_s": start_cpu_s,
        "memory_mb_started": started,
        "memory_mb_at_the_end": ended,
        "cpu_s_while_booking": round(after_cpu_s, 2),
        "bookings": len(took),
        "p50_ms": round(statistics.median(times_ms), 1),
        "p99_ms": round(times_ms[int(len(times_ms) * 0.99)], 1),
        "slowest_ms_and_when_s": [(round(ms), round(at_s, 1)) for at_s, ms in slowest],
    }


def _site() -> str:
    resources = "".join(
        f'[[site.resources]]\nname = "r{number}"\ncapacity = {1 if number % 2 else 8}\n'
        f'grain = "1m"\nhorizon = "3650d"\n'
        for number in range(RESOURCES)
    )
    return f"""
[log]
level = "warning"
[site]
name = "site"
listen = "127.0.0.1:0"
store = "site.sqlite"
[site.limits]
promised_per_principal_max = 1000000
calls_per_s = 1e9
calls_burst = 1000000000
{resources}"""


def _broker(url: str) -> str:
    return f"""
[log]
level = "warning"
[broker]
name = "broker"
listen = "127.0.0.1:0"
store = "broker.sqlite"
[broker.limits]
open_per_principal_max = 1000000
calls_per_s = 1e9
calls_burst = 1000000000
[[broker.sites]]
name = "site"
url = "{url}"
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--claims", type=int, default=1_000_000)
    arguments.add_argument("--seconds", type=float, default=180.0)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = measure(Path(directory), options.claims, options.seconds)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):>24} {value}")


if __name__ == "__main__":
    main()
