"""Jobs that are left to a broker, a second: sites with queues that are full, and a broker, on loopback.

    python -m benchmarks.bids [--sites 5] [--jobs 400] [--waiting 200] [--at-once 16] [--json]

Each site has a machine of eight nodes whose policy promises all starts, and `waiting` jobs before the first
one is left to the broker. Jobs ask for little, so that two sites bid for each (`--hours` has more of them
bid). Told are jobs a second that were placed durably, how long each took, and bids a second; and what they
cost the processors, which hangs less on what else the computer does. Judges nothing.
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
from pathlib import Path
from typing import Final

import kalends
from benchmarks.facility import Server, broker_text, cpu_seconds, start_server, stop
from kalends.core.jobs import JobRequest
from kalends.federation.breadth import sites_to_ask

NODES: Final = 8
USER: Final = "ann"
LOOKS_MAX: Final = 300
LOOK_EVERY_S: Final = 0.1
AS_NOBODY: Final = f'users = {{ {USER} = "nobody" }}' if os.geteuid() == 0 else ""
QUIET: Final = '[log]\nlevel = "warning"\n'


def start(directory: Path, sites: int) -> list[Server]:
    """Start the sites, and a broker last."""
    servers = []
    for number in range(sites):
        path = directory / f"site{number}.toml"
        path.write_text(f"""{QUIET}
[site]
name = "site{number}"
listen = "127.0.0.1:0"
store = "site{number}.sqlite"
[[site.resources]]
name = "box"
capacity = {NODES}
grain = "1s"
[[site.machines]]
resource = "box"
policy = "conservative"
{AS_NOBODY}
""")
        servers.append(start_server(path))
    path = directory / "broker.toml"
    path.write_text(broker_text({f"site{n}": each.url for n, each in enumerate(servers)}))
    return [*servers, start_server(path)]


async def fill(servers: list[Server], waiting: int) -> None:
    """Reserve each machine for a day, so that nothing runs, and let `waiting` jobs wait there."""
    async with kalends.connect(servers[-1].url, user=USER, zone="UTC") as client:
        for _ in range(LOOKS_MAX):
            if len((await client.resources()).resources) == len(servers) - 1:
                break
            await asyncio.sleep(LOOK_EVERY_S)
        for number in range(len(servers) - 1):
            await client.book(
                f"site{number}/box:{NODES}", duration="24h", window=("now", "now+25h")
            )
    for number, server in enumerate(servers[:-1]):
        async with kalends.connect(server.url, user=USER, zone="UTC") as client:
            for _ in range(waiting):
                job = JobRequest(machine=f"site{number}/box", limit_s=3_600, command=("/bin/true",))
                await client.submit(job)


async def place(url: str, jobs: int, at_once: int, hours: int) -> list[float]:
    """Leave `jobs` jobs to the broker; return how many milliseconds each took."""
    took_ms: list[float] = []
    numbers = iter(range(jobs))

    async def user() -> None:
        async with kalends.connect(url, user=USER, zone="UTC") as client:
            for _ in numbers:
                began_s = time.perf_counter()
                await client.place_job(
                    JobRequest(
                        machine="", limit_s=hours * 3_600 or 60, directory="/", command=("/bin/true",)
                    )
                )  # fmt: skip
                took_ms.append((time.perf_counter() - began_s) * 1e3)

    await asyncio.gather(*(user() for _ in range(at_once)))
    return took_ms


def _used_s(servers: list[Server]) -> list[float]:
    return [cpu_seconds(each.process.pid) for each in servers]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument(
        "--waiting", type=int, default=200, help="jobs that wait at each site before"
    )
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--hours", type=int, default=0, help="of each job; 0: a minute")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kalends-bids-") as directory:
        Path(directory).chmod(0o711)
        servers = start(Path(directory), options.sites)
        try:
            asyncio.run(fill(servers, options.waiting))
            began_s, used_s = time.perf_counter(), _used_s(servers)
            took_ms = asyncio.run(
                place(servers[-1].url, options.jobs, options.at_once, options.hours)
            )
            elapsed_s = time.perf_counter() - began_s
            *site_s, broker_s = (
                each - before for each, before in zip(_used_s(servers), used_s, strict=True)
            )
        finally:
            stop(servers)
    bids = sites_to_ask(1, options.hours * 3_600 or 60, options.sites)
    percent = statistics.quantiles(took_ms, n=100)
    report = {
        "jobs_a_second": round(options.jobs / elapsed_s, 1),
        "bids_a_second": round(bids * options.jobs / elapsed_s, 1),
        "p50_ms": round(percent[49], 1),
        "p99_ms": round(percent[98], 1),
        "site_cpu_ms_a_bid": round(1e3 * sum(site_s) / (bids * options.jobs), 2),
        "broker_cpu_ms_a_job": round(1e3 * broker_s / options.jobs, 2),
    }
    if options.json:
        print(json.dumps(report))
    else:
        for name, figure in report.items():
            print(f"{name:>19}  {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
