"""Kill servers of a facility under load, again and again, and see whether every promise is kept.

    python -m tests.processes.kill_loop --kills 200 --seed 7

Prints what happened as JSON. The exit code is 1 when a promise was broken; then, and when a server
failed, the stores and logs stay where it said.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .auditing import audit
from .customers import DAY_S, Customer, base_now_s
from .facility import GRAIN_S, Facility, make_facility
from .servers import Server, running

CUSTOMERS: Final = 6
DOWN_S_MAX: Final = 0.8
DOWN_MAX: Final = 2
"""Servers that may be down at a time: with more, hardly anything is booked that could be lost."""
BETWEEN_S_MAX: Final = 1.5
AGAIN_SHARE: Final = 0.1
"""So many of the restarted servers are killed again while they start."""


@dataclass
class Report:
    """What happened; `violations` is empty when every promise was kept. Recoveries in seconds."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    until_healthy_s: dict[str, list[float]] = field(default_factory=dict)
    until_booking_s: dict[str, list[float]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    rest_s: float = 0.0
    seconds: float = 0.0

    def as_json(self) -> str:
        return json.dumps(
            {
                "seed": self.seed,
                "kills": dict(self.kills),
                "told": dict(sorted(self.told.items())),
                "until_healthy_s": {kind: _spread(of) for kind, of in self.until_healthy_s.items()},
                "until_booking_s": {kind: _spread(of) for kind, of in self.until_booking_s.items()},
                "until_rest_s": round(self.rest_s, 2),
                "seconds": round(self.seconds, 1),
                "violations": self.violations,
            },
            indent=2,
        )


async def kill_loop(directory: Path, *, kills: int, seed: int) -> Report:
    """Run customers against three sites and two replicas, and kill servers `kills` times."""
    chance = random.Random(seed)
    report = Report(seed)
    began_s = time.monotonic()
    facility = make_facility(directory)
    base_s = base_now_s()
    urls = [broker.url for broker in facility.brokers]
    async with running(*facility.servers), contextlib.AsyncExitStack() as opened:
        customers = [
            Customer(
                f"customer{number}", urls, facility.resources, base_s,
                random.Random(chance.random()),
            )
            for number in range(CUSTOMERS)
        ]  # fmt: skip
        for customer in customers:
            await opened.enter_async_context(customer)
        killer = Killer(facility, chance, base_s + DAY_S, report)
        await while_working(customers, killer.kill_many(kills))
        healed_s = time.monotonic()
        for customer in customers:
            await customer.settle_everything()
        end_s = base_s + DAY_S + (2 * kills + 1) * GRAIN_S
        everyone = [*customers, *killer.probes]
        report.violations += await audit(facility, everyone, start_s=base_s, end_s=end_s)
        report.rest_s = time.monotonic() - healed_s
        for customer in everyone:
            report.told += customer.counts
    report.seconds = time.monotonic() - began_s
    return report


async def while_working(customers: list[Customer], killing: Awaitable[None]) -> None:
    """Let `customers` work until `killing` ends, and then end what they are doing."""
    over = asyncio.Event()

    async def work(customer: Customer) -> None:
        while not over.is_set():
            await customer.step()

    async with asyncio.TaskGroup() as tasks:
        for customer in customers:
            tasks.create_task(work(customer))
        await killing
        over.set()


class Killer:
    """Kills and restarts, and measures how long it takes until a restarted server is of use again.

    For that, each restart gets a customer of its own (`probes`), who books from `probes_from_s` on.
    """

    def __init__(
        self, facility: Facility, chance: random.Random, probes_from_s: int, report: Report
    ) -> None:
        self.probes: list[Customer] = []
        self._facility = facility
        self._chance = chance
        self._probes_from_s = probes_from_s
        self._report = report
        self._busy: set[str] = set()
        self._lives: Counter[str] = Counter()
        self._planned = 0

    async def kill_many(self, kills: int) -> None:
        """Return when `kills` kills are done and every server is well again."""
        async with asyncio.TaskGroup() as tasks:
            while self._planned < kills:
                # The moment is left to chance: it shall hit anything that can be going on.
                await asyncio.sleep(self._chance.uniform(0, BETWEEN_S_MAX))
                idle = [each for each in self._facility.servers if each.name not in self._busy]
                if len(self._busy) >= DOWN_MAX:
                    continue
                victim = self._chance.choice(idle)
                self._busy.add(victim.name)
                again = self._chance.random() < AGAIN_SHARE and self._planned + 2 <= kills
                self._planned += 2 if again else 1
                tasks.create_task(self._restart(victim, again, tasks))

    async def _restart(self, victim: Server, again: bool, tasks: asyncio.TaskGroup) -> None:
        await self._kill(victim)
        await asyncio.sleep(self._chance.uniform(0, DOWN_S_MAX))
        if again:
            await victim.spawn()
            await asyncio.sleep(self._chance.uniform(0, DOWN_S_MAX))
            await self._kill(victim)
        started_s = time.monotonic()
        await victim.spawn()
        await victim.listening()
        await victim.healthy()
        kind = _kind(victim)
        taken_s = time.monotonic() - started_s
        self._report.until_healthy_s.setdefault(kind, []).append(taken_s)
        self._busy.discard(victim.name)
        tasks.create_task(self._probe(victim, started_s))

    async def _kill(self, victim: Server) -> None:
        self._lives[victim.name] += 1
        await victim.kill()
        self._report.kills[_kind(victim)] += 1

    async def _probe(self, server: Server, started_s: float) -> None:
        """Book by `server` until it succeeds; counts unless it is killed again meanwhile."""
        life = self._lives[server.name]
        is_site = server in self._facility.sites
        number = len(self.probes)
        probe = Customer(
            f"probe{number}",
            [broker.url for broker in self._facility.brokers] if is_site else [server.url],
            [f"{server.name}/cluster"] if is_site else self._facility.resources,
            self._probes_from_s,
            random.Random(self._chance.random()),
        )
        self.probes.append(probe)
        async with probe:
            await probe.book_patiently(self._chance.choice(probe.resources), number)
        if self._lives[server.name] == life:
            taken_s = time.monotonic() - started_s
            self._report.until_booking_s.setdefault(_kind(server), []).append(taken_s)


def _kind(server: Server) -> str:
    return server.name.rstrip("0123456789")


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "median": round(statistics.median(ordered), 2),
        "p90": round(ordered[int(len(ordered) * 0.9)], 2),
        "max": round(ordered[-1], 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kalends-kill-loop-"))
    print(f"seed {arguments.seed}, stores and logs in {directory}", file=sys.stderr, flush=True)
    report = asyncio.run(kill_loop(directory, kills=arguments.kills, seed=arguments.seed))
    print(report.as_json())
    if report.violations:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
