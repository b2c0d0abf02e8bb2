"""What everyday commands cost: CPU milliseconds of a whole ``kalends`` process, user and system.

    python -m benchmarks.commands [--runs 20] [--json]

A site that runs jobs, and a broker before it, run as processes on loopback. Each command is a process of its
own, and its CPU time is what the kernel says; the median of the runs is told. Judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.facility import Server, broker_text, own_environment, start_server, stop
from benchmarks.job_rates.live_site import MACHINE, USER, LiveSite

NODES: Final = 8
JOB: Final = (MACHINE, "--for", "1h", "--held", "--", "/bin/true")
SLOT: Final = (f"{MACHINE}:1", "--for", "1h")
COMMANDS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("nothing but Python", "", ()),
    ("kalends --version", "", ("--version",)),
    ("kalends submit", "site", ("submit", *JOB)),
    ("kalends submit, by a broker", "broker", ("submit", *JOB)),
    ("kalends queue", "site", ("queue", MACHINE)),
    ("kalends job", "site", ("job", f"{MACHINE}/1")),
    ("kalends find", "broker", ("find", *SLOT)),
    ("kalends book", "broker", ("book", *SLOT)),
    ("kalends list", "broker", ("list",)),
)


def cpu_ms(words: tuple[str, ...], url: str) -> float:
    """Run one command, which is to succeed, and return the CPU time of its process."""
    program = ["-m", "kalends", *words] if words else ["-c", "pass"]
    environment = own_environment(url, USER)
    # Whoever installs kalends has its byte code.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    pid = os.posix_spawn(
        sys.executable, [sys.executable, *program], environment, file_actions=silent
    )
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(
            f"kalends {' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}"
        )
    return 1e3 * (used.ru_utime + used.ru_stime)


def measure(urls: dict[str, str], runs: int) -> dict[str, float]:
    """Return the median of each command. They take turns, so that what else runs here disturbs all alike."""
    found: dict[str, list[float]] = {name: [] for name, _, _ in COMMANDS}
    # The first round writes byte code, and makes the job that is looked at.
    for number in range(runs + 1):
        for name, server, words in COMMANDS:
            took_ms = cpu_ms(words, urls.get(server, ""))
            if number:
                found[name].append(took_ms)
    return {name: round(statistics.median(all_ms), 1) for name, all_ms in found.items()}


async def run(directory: Path, runs: int) -> dict[str, float]:
    site = LiveSite(directory, NODES)
    brokers: list[Server] = []
    try:
        site.start()
        path = directory / "broker.toml"
        path.write_text(broker_text({"lab": site.url}))
        brokers.append(start_server(path))
        return measure({"site": site.url, "broker": brokers[0].url}, runs)
    finally:
        stop(brokers)
        await site.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-") as directory:
        result = asyncio.run(run(Path(directory), arguments.runs))
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"CPU ms of a process, median of {arguments.runs}")
    for name, median_ms in result.items():
        print(f"{name:30} {median_ms:>10}")


if __name__ == "__main__":
    main()
