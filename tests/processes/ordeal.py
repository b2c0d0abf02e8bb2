"""Strike servers of a facility under load, again and again, and see whether every promise is kept.

    python -m tests.processes.ordeal --kills 200 --pauses 50 --jumps 10 --restores 10 --seed 7

Servers are killed, stand still, have their clocks jump (`strikes`), and their stores put back to an
earlier state (`restores`). Tells on standard error how far it is, and prints what happened as JSON.
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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from kalends.core.errors import KalendsError

from . import strikes
from .auditing import audit
from .crowd import Crowd
from .customers import (
    DAY_S,
    REFUSALS,
    REFUSALS_WHERE_CLOCKS_ARE_WRONG,
    Customer,
    base_now_s,
)
from .facility import GRAIN_S, Facility, make_facility
from .restores import NEWS_OF_RESTORES, Restores
from .servers import Server, running
from .strikes import Strike

CUSTOMERS: Final = 6
STRUCK_MAX: Final = 2
"""Servers that may be struck at a time: with more, hardly anything is booked that could be lost."""
BETWEEN_S_MAX: Final = 1.5
TELL_EVERY_S: Final = 10.0
PROBE_S_MAX: Final = 400.0
"""Others are struck meanwhile: with clocks that are wrong for 80 s at a time, one after the other."""

Tell = Callable[[str], None]
Refusals = tuple[type[KalendsError], ...]


class Kind(NamedTuple):
    """A kind of strike; each hits all of one of `groups` together."""

    strike: Strike
    groups: Sequence[Sequence[Server]]


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


def _silent(line: str) -> None:
    """Tell nobody."""


async def ordeal(
    directory: Path,
    *,
    kills: int = 0,
    pauses: int = 0,
    jumps: int = 0,
    restores: int = 0,
    seed: int,
    tell: Tell = _silent,
) -> Report:
    """Run customers against three sites and two replicas, and strike servers so often of each kind.

    `restores` counts for each of three: sites from backups, sites' disks, and the register's disk.
    Raises `FileNotFoundError` when clocks shall jump and faketime is not there.
    """
    chance = random.Random(seed)
    report = Report(seed)
    began_s = time.monotonic()
    facility = make_facility(directory)
    counts = {
        "kill": kills, "pause": pauses, "jump": jumps,
        "backup": restores, "disk": restores, "register": restores,
    }  # fmt: skip
    refusals: Refusals = REFUSALS_WHERE_CLOCKS_ARE_WRONG if jumps else REFUSALS
    base_s = base_now_s()
    urls = [broker.url for broker in facility.brokers]
    customers = [
        Customer(
            f"customer{number}", urls, facility.resources, base_s,
            random.Random(chance.random()), refusals=refusals,
        )
        for number in range(CUSTOMERS)
    ]  # fmt: skip
    crowd = Crowd(facility, customers)
    restoring = Restores(facility, crowd.quiet)
    kinds = _kinds(facility, restoring, directory if jumps else None)
    async with running(*facility.servers), contextlib.AsyncExitStack() as opened:
        for customer in customers:
            await opened.enter_async_context(customer)
        striker = Striker(facility, kinds, chance, base_s + DAY_S, report, crowd, refusals, tell)
        await crowd.work_while(striker.strike_all(counts))
        tell(f"{time.monotonic() - began_s:.0f} s: no more strikes; waiting until all is at rest")
        healed_s = time.monotonic()
        for customer in customers:
            await customer.settle_everything()
        everyone = crowd.customers
        end_s = base_s + DAY_S + (len(everyone) + 1) * GRAIN_S
        report.violations += await audit(
            facility, everyone, start_s=base_s, end_s=end_s,
            news=(
                *(NEWS_OF_RESTORES if restores else ()),
                *(strikes.NEWS_OF_JUMPS if jumps else ()),
            ),
        )  # fmt: skip
        # Nobody could book the room of what was forgotten: all of it can be made good.
        report.violations += [f"NAMED AS LOST: {lost}" for lost in sorted(restoring.lost)]
        report.violations += [
            line for server in facility.servers for line in _failed_stores(server)
        ]
        report.rest_s = time.monotonic() - healed_s
        for customer in everyone:
            report.told += customer.counts
    report.seconds = time.monotonic() - began_s
    return report


def _kinds(facility: Facility, restoring: Restores, clocks_in: Path | None) -> dict[str, Kind]:
    """All kinds of strikes by name; clocks jump where there is a directory for them."""
    anyone = [(server,) for server in facility.servers]
    sites = [(site,) for site in facility.sites]
    kinds = {
        "kill": Kind(strikes.kill, anyone),
        "pause": Kind(strikes.pause, anyone),
        "backup": Kind(restoring.backup, sites),
        "disk": Kind(restoring.disk, sites),
        "register": Kind(restoring.register, [facility.brokers]),
    }
    if clocks_in is not None:
        clocks = strikes.Clocks(clocks_in)
        for server in facility.servers:
            server.environment = clocks.environment(server.name)
        kinds["jump"] = Kind(clocks.jump, anyone)
    return kinds


class Striker:
    """Strikes, and measures how long it takes until the server is of use again.

    For that, each strike gets a customer of its own, who joins `crowd` and books from `probes_from_s` on.
    """

    def __init__(
        self,
        facility: Facility,
        kinds: Mapping[str, Kind],
        chance: random.Random,
        probes_from_s: int,
        report: Report,
        crowd: Crowd,
        refusals: Refusals,
        tell: Tell,
    ) -> None:
        self._facility = facility
        self._kinds = kinds
        self._chance = chance
        self._probes_from_s = probes_from_s
        self._report = report
        self._crowd = crowd
        self._refusals = refusals
        self._tell = tell
        self._busy: set[str] = set()
        self._strikes: Counter[str] = Counter()
        self._probes = 0
        self._began_s = time.monotonic()

    async def strike_all(self, counts: Mapping[str, int]) -> None:
        """Return when so many strikes of each kind are done, and every server is well again."""
        planned = [kind for kind, count in counts.items() for _ in range(count)]
        self._chance.shuffle(planned)
        async with self._telling(len(planned)), asyncio.TaskGroup() as tasks:
            while planned:
                # The moment is left to chance: it shall hit anything that can be going on.
                await asyncio.sleep(self._chance.uniform(0, BETWEEN_S_MAX))
                idle = [
                    group
                    for group in self._kinds[planned[-1]].groups
                    if not self._busy & {server.name for server in group}
                ]
                if len(self._busy) >= STRUCK_MAX or not idle:
                    continue
                victims = self._chance.choice(idle)
                self._busy |= {server.name for server in victims}
                tasks.create_task(self._strike(victims, planned.pop(), tasks))

    @contextlib.asynccontextmanager
    async def _telling(self, planned: int) -> AsyncIterator[None]:
        async def tell() -> None:
            while True:
                await asyncio.sleep(TELL_EVERY_S)
                self._tell(self._progress(planned))

        telling = asyncio.create_task(tell())
        try:
            yield
        finally:
            telling.cancel()

    def _progress(self, planned: int) -> str:
        booked = sum(customer.counts["booked"] for customer in self._crowd.customers)
        return (
            f"{time.monotonic() - self._began_s:.0f} s: {self._report.struck.total()} of {planned}"
            f" strikes, {booked} booked; being struck: {', '.join(sorted(self._busy)) or 'nobody'}"
        )

    async def _strike(self, victims: Sequence[Server], kind: str, tasks: asyncio.TaskGroup) -> None:
        began_s = time.monotonic()
        self._strikes.update(server.name for server in victims)
        await self._kinds[kind].strike(victims[0], self._chance)
        what = f"{kind} {victims[0].name.rstrip('0123456789')}"
        self._report.struck[what] += 1
        self._report.until_well_s.setdefault(what, []).append(time.monotonic() - began_s)
        self._busy -= {server.name for server in victims}
        for server in victims:
            tasks.create_task(self._probe(server, what, began_s))

    async def _probe(self, server: Server, what: str, began_s: float) -> None:
        """Book by `server` until it succeeds; counts unless it is struck again meanwhile."""
        strikes_before = self._strikes[server.name]
        is_site = server in self._facility.sites
        number, self._probes = self._probes, self._probes + 1
        probe = Customer(
            f"probe{number}",
            [broker.url for broker in self._facility.brokers] if is_site else [server.url],
            [f"{server.name}/cluster"] if is_site else self._facility.resources,
            self._probes_from_s,
            random.Random(self._chance.random()),
            refusals=self._refusals,
        )
        self._crowd.customers.append(probe)
        async with probe, self._crowd.at_work():
            resource = self._chance.choice(probe.resources)
            await probe.book_patiently(resource, number, within_s=PROBE_S_MAX)
        if self._strikes[server.name] == strikes_before:
            taken_s = time.monotonic() - began_s
            self._report.until_booking_s.setdefault(what, []).append(taken_s)


def _failed_stores(server: Server) -> list[str]:
    """No disk was full or cut off: a store that fails all the same is a fault of ours."""
    lines = server.configuration.with_suffix(".log").read_text().splitlines()
    return [f"{server.name}: {line[:300]}" for line in lines if '"store_failed"' in line]


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
    parser.add_argument(
        "--restores", type=int, default=0,
        help="so many sites put back from backups, sites' disks, and disks of the register",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kalends-ordeal-"))
    _tell(f"seed {arguments.seed}, stores and logs in {directory}")
    report = asyncio.run(ordeal(directory, **vars(arguments), tell=_tell))
    print(report.as_json())
    if report.violations:
        return 1
    shutil.rmtree(directory)
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
