"""What an honest user has of a broker before, during and after each denial of service.

    python -m benchmarks.denial [--seconds 8] [--only searches,agents] [--json]

Two sites and a broker on loopback, in open mode. An honest user, each time as a client that has just come,
looks (`resources`), searches (`find`) and books, while another program does its worst. `silent` stops one
site's process instead. `agents` tells, too, of how many bookings by an honest user's own script that script
has chosen. Prints figures and judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import kalends
from benchmarks.denials import honest
from benchmarks.denials.attacks import ATTACKS
from benchmarks.facility import ROOT, Facility, facility
from benchmarks.visits.figures import table
from kalends.core.errors import KalendsError

SILENT: Final = "silent"
NAMES: Final = (*ATTACKS, SILENT)
CALM_S: Final = 3.0
LOOKS_MAX: Final = 300
PREPARED: Final = 120
"""Bookings that are there before: what is hard to search has to have pieces."""

LAST: Final = '''
def choose(view, request):
    """The latest start."""
    return [slot["id"] for slot in sorted(view["slots"], key=by("-start"))]
'''
RESOURCE: Final = "site1/cluster"


@contextmanager
def denied(name: str, place: Facility) -> Iterator[None]:
    if name == SILENT:
        place.sites[0].process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            place.sites[0].process.send_signal(signal.SIGCONT)
        return
    command = [
        sys.executable, "-m", "benchmarks.denials.attacks", name, place.broker.url,
        place.sites[0].url,
    ]  # fmt: skip
    attack = subprocess.Popen(command, cwd=ROOT)
    try:
        yield
    finally:
        attack.kill()
        attack.wait()


async def prepare(url: str) -> None:
    async with kalends.connect(url, user=honest.USER, zone="UTC") as client:
        for _ in range(LOOKS_MAX):
            if len((await client.resources()).resources) == 2:
                break
            await asyncio.sleep(0.1)
        await client.upload_agent("last", LAST)
        now_s = int(time.time()) // 60 * 60
        for number in range(PREPARED):
            at_s = now_s + 3_600 + number * 1_200
            await client.book(
                f"site0/cluster:{1 + number * 7 % 60}", duration=f"{5 + number * 11 % 45}m",
                window=(at_s, at_s + 7_200),
            )  # fmt: skip


async def own_choices(url: str, seconds: float) -> dict[str, Any]:
    """Book by an own script for `seconds`; of how many bookings was the choice the script's?"""
    begun_s = int(time.time()) // 86_400 * 86_400 + 10 * 86_400
    until_s = time.perf_counter() + seconds
    chosen = 0
    times_ms: list[float] = []
    async with kalends.connect(url, user=honest.USER, zone="UTC") as client:
        while time.perf_counter() < until_s:
            began_s = time.perf_counter()
            try:
                view = await client.book(
                    "site0/cluster:1", duration="1h", window=(begun_s, begun_s + 86_400),
                    agent="last",
                )  # fmt: skip
                chosen += view.start == begun_s + 86_400 - 3_600
                await client.cancel(view.id)
            except KalendsError:
                pass
            times_ms.append((time.perf_counter() - began_s) * 1e3)
    return {"chosen": chosen, "of": len(times_ms), "slowest_ms": round(max(times_ms))}


async def measure(name: str, seconds: float, directory: Path) -> dict[str, Any]:
    with facility(directory, 2, capacity=128) as place:
        url = place.broker.url
        await prepare(url)
        told: dict[str, Any] = {}
        phases = {"before": await honest.probe(url, RESOURCE, CALM_S)}
        used_s = place.cpu_seconds()
        with denied(name, place):
            await asyncio.sleep(CALM_S)  # Until it is in full swing.
            phases["during"] = await honest.probe(url, RESOURCE, seconds)
            if name == "agents":
                told["own_choice"] = await own_choices(url, 2 * seconds)
        phases["after"] = await honest.probe(url, RESOURCE, CALM_S)
        told["cpu_s"] = {
            who: round(now_s - used_s[who], 1) for who, now_s in place.cpu_seconds().items()
        }
        for when, measured in phases.items():
            told[when] = {who: each._asdict() for who, each in measured.spreads().items()}
            told[when]["failed"] = dict(measured.failed)
        told["log_kb"] = log_bytes(directory) // 1024
    return told


def log_bytes(directory: Path) -> int:
    return sum(each.stat().st_size for each in directory.glob("*.log"))


def shown(name: str, told: dict[str, Any]) -> str:
    rows = []
    for call in ("resources", "find", "book"):
        row: list[object] = [call]
        for when in ("before", "during", "after"):
            spread = told[when].get(call)
            row += [f"{spread['p50_ms']:.0f}", f"{spread['p99_ms']:.0f}"] if spread else ["-", "-"]
        rows.append(row)
    head = [
        "ms",
        *(f"{when} {p}" for when in ("before", "during", "after") for p in ("p50", "p99")),
    ]
    others = {key: value for key, value in told.items() if key not in ("before", "during", "after")}
    failed = {when: told[when]["failed"] for when in ("before", "during", "after")}
    return "\n".join([table(name, head, rows), f"failed {failed}; {others}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each denial")
    parser.add_argument("--only", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    all_told: dict[str, Any] = {"processors": os.cpu_count()}
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(prefix="kalends-denial-") as directory:
            told = all_told[name] = asyncio.run(measure(name, options.seconds, Path(directory)))
        print(shown(name, told), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(all_told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
