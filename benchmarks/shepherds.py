"""What running jobs costs: starts a second, memory of a shepherd, the adoption of all after a restart.

    python benchmarks/shepherds.py [--jobs 1000] [--json]

Starts programs one at a time, each of which says when it drew its first breath; then so many at once, all
asleep; asks what a shepherd has in memory; forgets them all, and adopts them as a server does that has been
killed; attaches to a terminal; kills everything. As root, jobs run as nobody. Judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    # In place of this folder, whose calendar.py would stand in for the standard library's.
    sys.path.pop(0)

from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.facts import Begun, Ended, Fact, Main
from kalends.batch.shepherds.launcher import Launcher
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.shepherd_line import History
from kalends.batch.shepherds.watch import Wanted

USER: Final = "nobody" if os.geteuid() == 0 else ""
ALONE: Final = 50
SAMPLE: Final = 50
TIMES: Final = 100


class Jobs:
    """What has been heard of each attempt."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.begun: dict[str, Begun] = {}
        self.started: set[str] = set()
        self.ended: set[str] = set()
        self._news = asyncio.Event()
        self.launcher = Launcher(str(top), self.hear)

    def hear(self, name: str, fact: Fact | Wanted) -> None:
        if isinstance(fact, Begun):
            self.begun[name] = fact
        elif isinstance(fact, Main):
            self.started.add(name)
        elif isinstance(fact, Ended):
            self.ended.add(name)
        self._news.set()

    async def until_all(self, names: list[str], are_in: set[str]) -> None:
        while not are_in.issuperset(names):
            self._news.clear()
            await self._news.wait()

    def said(self, name: str) -> str:
        return Path(self.launcher.folders.kept(name)).read_text()

    async def start(self, names: list[str], *argv: str, **more: Any) -> None:
        await self.launcher.prepare(names)
        self.launcher.launch(
            JobOrder(name, argv, user=USER, directory="/", **more) for name in names
        )


async def one_at_a_time(jobs: Jobs) -> dict[str, Any]:
    """Milliseconds from the launch to the program, and jobs a second when nobody waits for anything."""
    waits = []
    began_s = time.perf_counter()
    for number in range(1, ALONE + 1):
        name = f"{number}.1"
        at_s = time.time()
        await jobs.start([name], "/bin/date", "+%s.%N")
        await jobs.until_all([name], jobs.ended)
        waits.append(float(jobs.said(name)) - at_s)
    return {
        "to_program_ms": round(1e3 * statistics.median(waits), 1),
        "to_program_ms_p90": round(1e3 * statistics.quantiles(waits, n=10)[-1], 1),
        "one_after_the_other_per_s": round(ALONE / (time.perf_counter() - began_s), 1),
    }


async def together(jobs: Jobs, names: list[str]) -> dict[str, Any]:
    began_s = time.perf_counter()
    await jobs.start(names, "/bin/sleep", "3600")
    await jobs.until_all(names, jobs.started)
    starts_per_s = len(names) / (time.perf_counter() - began_s)
    sample = [jobs.begun[name].shepherd for name in names[:: max(1, len(names) // SAMPLE)]]
    sizes = [pss_kb(pid) for pid in sample]
    return {
        "starts_per_s": round(starts_per_s, 1),
        "shepherd_pss_kb": round(statistics.mean(sizes)),
    }


async def no_ops(jobs: Jobs, names: list[str]) -> dict[str, Any]:
    """Jobs a second that do nothing, from the first launch to the last end."""
    began_s = time.perf_counter()
    await jobs.start(names, "/bin/true")
    await jobs.until_all(names, jobs.ended)
    return {"no_ops_per_s": round(len(names) / (time.perf_counter() - began_s), 1)}


async def adopted(top: Path, names: list[str]) -> tuple[Jobs, dict[str, Any]]:
    """A server that knows only the names comes back: seconds until it follows them all."""
    jobs = Jobs(top)
    began_s = time.perf_counter()
    await jobs.launcher.start()
    ready_s = time.perf_counter()
    found = await jobs.launcher.adopt(names)
    adopted_s = time.perf_counter()
    assert all(each.state is State.RUNNING for each in found.values())
    return jobs, {"zygote_s": ready_s - began_s, "adopt_s": adopted_s - ready_s}


async def attached(jobs: Jobs) -> dict[str, Any]:
    name = "999999.1"
    await jobs.start([name], "/bin/sh", "-c", "echo ready; exec sleep 3600", terminal=(24, 80))
    await jobs.until_all([name], jobs.started)
    waits = []
    for _ in range(TIMES):
        at_s = time.perf_counter()
        place = await jobs.launcher.attach(name)
        place.look_on()
        assert isinstance(await place.next(), History)
        waits.append(time.perf_counter() - at_s)
        await place.close()
    await jobs.launcher.kill(name, "over")
    return {"attach_ms": round(1e3 * statistics.median(waits), 2)}


async def killed(jobs: Jobs, names: list[str]) -> dict[str, Any]:
    began_s = time.perf_counter()
    for name in names:
        await jobs.launcher.kill(name, "over")
    await jobs.until_all(names, jobs.ended)
    return {"kills_per_s": round(len(names) / (time.perf_counter() - began_s), 1)}


def bound() -> dict[str, Any]:
    """What the same processes cost without any of this."""
    began_s = time.perf_counter()
    for _ in range(TIMES):
        subprocess.run(["/bin/true"], check=True)
    return {"fork_exec_wait_per_s": round(TIMES / (time.perf_counter() - began_s), 1)}


def pss_kb(pid: int) -> int:
    """Memory of a process, with its part of what it shares."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise ValueError(pid)


async def measure(top: Path, count: int) -> dict[str, Any]:
    names = [f"{number}.1" for number in range(10_001, 10_001 + count)]
    jobs = Jobs(top)
    await jobs.launcher.start()
    result: dict[str, Any] = {"jobs": count, "load": round(os.getloadavg()[0], 1)}
    result |= bound()
    result |= await one_at_a_time(jobs)
    result |= await no_ops(jobs, [f"{number}.1" for number in range(50_001, 50_001 + count // 4)])
    result |= await together(jobs, names)
    await jobs.launcher.close()
    jobs, times = await adopted(top, names)
    result |= times
    result |= await attached(jobs)
    result |= await killed(jobs, names)
    await jobs.launcher.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="kb-"))
    try:
        result = asyncio.run(measure(top, arguments.jobs))
    finally:
        shutil.rmtree(top, ignore_errors=True)
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name.replace('_', ' '):30} {value:>10}")


if __name__ == "__main__":
    main()
