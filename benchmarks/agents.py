"""What agents cost: checks, runs, visits, failures and memory; bytes, messages and time on slow lines.

    python benchmarks/agents.py [--quick] [--json] [--only SECTIONS]

The sandbox and the language are those of a server; visits and bookings are made at real server
processes on loopback. See docs/agent-benchmark.md for what each figure means. Prints figures and
judges nothing. Needs Linux with seccomp.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

# In place of this folder, whose calendar.py would stand in for the standard library's.
if __name__ == "__main__":
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.visits import endings, near, report, runs, session, wire, workers
from kalends.agents.runs import Engine
from kalends.agents.sandbox import Sandbox, SandboxLimits, SandboxUnavailable

ROOMY: Final = SandboxLimits(cpu_s_per_minute=1e6)
"""As in a server, but nobody's processor time runs out while it is measured."""


class Size(NamedTuple):
    """How much is measured: calls of each kind, seconds of each load, bookings of each way."""

    calls: int
    seconds: float
    failures: int
    waits: int
    loads: tuple[int, ...]
    bookings: int
    rounds: int


FULL: Final = Size(100, 4.0, 8, 2, (100, 1_000), 10, 3)
QUICK: Final = Size(20, 0.5, 2, 1, (30,), 2, 1)
USERS: Final = 8


async def _with_engines(measure: Callable[[Engine], Any]) -> dict[str, Any]:
    """What `measure` finds with the language alone, in this process, and in the sandbox."""
    sandbox = await Sandbox.start(ROOMY)
    try:
        return {
            "in-process": await measure(runs.InProcess()),
            "sandbox": await measure(sandbox),
        }
    finally:
        await sandbox.close()


async def _rates(size: Size) -> list[dict[str, Any]]:
    sandbox = await Sandbox.start(ROOMY)
    try:
        return await runs.rates(sandbox, size.seconds)
    finally:
        await sandbox.close()


async def _memory(size: Size) -> dict[str, Any]:
    making = await workers.making(ROOMY, max(size.failures // 2, 1), size.calls)
    return making | await workers.idle(ROOMY)


SECTIONS: Final[dict[str, Callable[[Size], Any]]] = {
    "checks": lambda size: asyncio.run(_with_engines(lambda e: runs.checks(e, size.calls))),
    "runs": lambda size: asyncio.run(_with_engines(lambda e: runs.visits(e, size.calls))),
    "views": lambda size: runs.views(size.calls),
    "rates": lambda size: asyncio.run(_rates(size)),
    "endings": lambda size: asyncio.run(endings.measure(ROOMY, size.failures, size.waits)),
    "memory": lambda size: asyncio.run(_memory(size)),
    "visits": lambda size: session.measure(2 * size.calls, size.failures),
    "near": lambda size: near.measure(size.loads[-1]),
    "wire": lambda size: wire.measure(size.loads, size.bookings, USERS, size.rounds),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few calls of everything: seconds")
    parser.add_argument("--json", action="store_true", help="all figures, for programs")
    parser.add_argument(
        "--only", default=",".join(SECTIONS), help="some of it: " + ",".join(SECTIONS)
    )
    options = parser.parse_args(arguments)
    wanted = options.only.split(",")
    if unknown := sorted(set(wanted) - set(SECTIONS)):
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    size = QUICK if options.quick else FULL
    result: dict[str, Any] = {"python": platform.python_version()}
    if not options.json:
        print(f"Python {platform.python_version()}, {platform.machine()}")
    for name in wanted:
        try:
            result[name] = SECTIONS[name](size)
        except SandboxUnavailable as error:
            parser.exit(1, f"agents cannot be measured here: {error}\n")
        if not options.json:
            print(report.SECTIONS[name](result[name]), flush=True)
    if options.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
