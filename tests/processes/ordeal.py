"""Strike servers of a facility under load, again and again, and see whether every promise is kept.

    python -m tests.processes.ordeal --kills 200 --pauses 50 --jumps 10 --seed 7

Servers are killed, stand still, and have their clocks jump (`strikes`). Prints what happened as JSON.
The exit code is 1 when a promise was broken; then, and when a server failed, the stores and logs stay
where it said.
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
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import strikes
from .auditing import audit
from .customers import DAY_S, REFUSALS, REFUSALS_WHERE_CLOCKS_ARE_WRONG, Customer, base_now_s
from .facility import GRAIN_S, Facility, make_facility
from .servers import Server, running
from .strikes import Strike

CUSTOMERS: Final = 6
STRUCK_MAX: Final = 2
"""Servers that may be struck at a time: with more, hardly anything is booked that could be lost."""
BETWEEN_S_MAX: Final = 1.5


@dataclass
class Report:
    """What happened; `violations` is empty when every promise was kept.

    `until_well_s` and `until_booking_s` are counted from the beginning of a strike, by its kind and
    the kind of its server.
    """

    seed: int
    struck: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    until_well_s: dict[str, list[float]] = field(default_factory=dict)
    until_booking_s: dict[str, list[float]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    rest_s: float = 0.0
    seconds: float = 0.0

    def as_json(self) -> str:
        return json.dumps(
            {
                "seed": self.seed,
                "struck": dict(sorted(self.struck.items())),
                "told": dict(sorted(self.told.items())),
                "until_well_s": {kind: _spread(of) for kind, of in self.until_well_s.items()},
                "until_booking_s": {kind: _spread(of) for kind, of in self.until_booking_s.items()},
                "until_rest_s": round(self.rest_s, 2),
                "seconds": round(self.seconds, 1),
                "violations": self.violations,
            },
            indent=2,
        )


async def ordeal(
    directory: Path, *, kills: int = 0, pauses: int = 0, jumps: int = 0, seed: int
) -> Report:
    """Run customers against three sites and two replicas, and strike servers so often of each kind.

    Raises `FileNotFoundError` when clocks shall jump and faketime is not there.
    """
    chance = random.Random(seed)
    report = Report(seed)
    began_s = time.monotonic()
    facility = make_facility(directory)
    kinds: dict[str, Strike] = {"kill": strikes.kill, "pause": strikes.pause}
    if jumps:
        clocks = strikes.Clocks(directory)
        for server in facility.servers:
            server.environment = clocks.environment(server.name)
        kinds["jump"] = clocks.jump
    base_s = base_now_s()
    urls = [broker.url for broker in facility.brokers]
    async with running(*facility.servers), contextlib.AsyncExitStack() as opened:
        customers = [
            Customer(
                f"customer{number}", urls, facility.resources, base_s,
                random.Random(chance.random()),
                refusals=REFUSALS_WHERE_CLOCKS_ARE_WRONG if jumps else REFUSALS,
            )
            for number in range(CUSTOMERS)
        ]  # fmt: skip
        for customer in customers:
            await opened.enter_async_context(customer)
        striker = Striker(facility, kinds, chance, base_s + DAY_S, report)
        counts = {"kill": kills, "pause": pauses, "jump": jumps}
        await while_working(customers, striker.strike_all(counts))
        healed_s = time.monotonic()
        for customer in customers:
            await customer.settle_everything()
        everyone = [*customers, *striker.probes]
        end_s = base_s + DAY_S + (len(striker.probes) + 1) * GRAIN_S
        report.violations += await audit(facility, everyone, start_s=base_s, end_s=end_s)
        report.rest_s = time.monotonic() - healed_s
        for customer in everyone:
            report.told += customer.counts
    report.seconds = time.monotonic() - began_s
    return report


async def while_working(customers: list[Customer], striking: Awaitable[None]) -> None:
    """Let `customers` work until `striking` ends, and then end what they are doing."""
    over = asyncio.Event()

    async def work(customer: Customer) -> None:
        while not over.is_set():
            await customer.step()

    async with asyncio.TaskGroup() as tasks:
        for customer in customers:
            tasks.create_task(work(customer))
        await striking
        over.set()


class Striker:
    """Strikes, and measures how long it takes until the server is of use again.

    For that, each strike gets a customer of its own (`probes`), who books from `probes_from_s` on.
    """

    def __init__(
        self,
        facility: Facility,
        kinds: Mapping[str, Strike],
        chance: random.Random,
        probes_from_s: int,
        report: Report,
    ) -> None:
        self.probes: list[Customer] = []
        self._facility = facility
        self._kinds = kinds
        self._chance = chance
        self._probes_from_s = probes_from_s
        self._report = report
        self._busy: set[str] = set()
        self._strikes: Counter[str] = Counter()

    async def strike_all(self, counts: Mapping[str, int]) -> None:
        """Return when so many strikes of each kind are done, and every server is well again."""
        planned = [kind for kind, count in counts.items() for _ in range(count)]
        self._chance.shuffle(planned)
        async with asyncio.TaskGroup() as tasks:
            while planned:
                # The moment is left to chance: it shall hit anything that can be going on.
                await asyncio.sleep(self._chance.uniform(0, BETWEEN_S_MAX))
                idle = [each for each in self._facility.servers if each.name not in self._busy]
                if len(self._busy) >= STRUCK_MAX:
                    continue
                victim = self._chance.choice(idle)
                self._busy.add(victim.name)
                tasks.create_task(self._strike(victim, planned.pop(), tasks))

    async def _strike(self, victim: Server, kind: str, tasks: asyncio.TaskGroup) -> None:
        began_s = time.monotonic()
        self._strikes[victim.name] += 1
        await self._kinds[kind](victim, self._chance)
        what = f"{kind} {victim.name.rstrip('0123456789')}"
        self._report.struck[what] += 1
        self._report.until_well_s.setdefault(what, []).append(time.monotonic() - began_s)
        self._busy.discard(victim.name)
        tasks.create_task(self._probe(victim, what, began_s))

    async def _probe(self, server: Server, what: str, began_s: float) -> None:
        """Book by `server` until it succeeds; counts unless it is struck again meanwhile."""
        strikes_before = self._strikes[server.name]
        is_site = server in self._facility.sites
        number = len(self.probes)
        probe = Customer(
            f"probe{number}",
            [broker.url for broker in self._facility.brokers] if is_site else [server.url],
            [f"{server.name}/cluster"] if is_site else self._facility.resources,
            self._probes_from_s,
            random.Random(self._chance.random()),
            refusals=REFUSALS_WHERE_CLOCKS_ARE_WRONG if "jump" in self._kinds else REFUSALS,
        )
        self.probes.append(probe)
        async with probe:
            await probe.book_patiently(self._chance.choice(probe.resources), number)
        if self._strikes[server.name] == strikes_before:
            taken_s = time.monotonic() - began_s
            self._report.until_booking_s.setdefault(what, []).append(taken_s)


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
    parser.add_argument("--kills", type=int, default=0, help="SIGKILLs of any server")
    parser.add_argument("--pauses", type=int, default=0, help="SIGSTOPs, for up to 16 s")
    parser.add_argument("--jumps", type=int, default=0, help="jumps of clocks, by up to five years")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kalends-ordeal-"))
    print(f"seed {arguments.seed}, stores and logs in {directory}", file=sys.stderr, flush=True)
    report = asyncio.run(ordeal(directory, **vars(arguments)))
    print(report.as_json())
    if report.violations:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
