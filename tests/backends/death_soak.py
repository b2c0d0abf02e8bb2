"""Kill a Slurm controller and the site before it again and again, under load, and compare what they keep.

    python -m tests.backends.death_soak --kills 500 --seed 7

Customers book, hold, move, resize and cancel on two sites, one of which stands before a real Slurm on
loopback; everybody settles every unknown outcome. Every few kills all is left in peace until the Slurm has
just the reservations that customers were told of, and nothing else of the site. Prints what happened as JSON;
the exit code is 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from kalends.backends.adapter import SystemSilent
from kalends.backends.slurm.adapter import Slurm
from tests.backends.operated_slurm import OperatedSlurm
from tests.processes.crowd import while_working
from tests.processes.customers import Customer, base_now_s
from tests.processes.facility import Facility, broker_text, connected, site_text, write
from tests.processes.servers import Server, running, until
from tests.support.ports import free_urls

NODES: Final = 4
KILLS_A_ROUND: Final = 10
PEACE_S_MAX: Final = 60.0
"""Orphans may be as old as this; after an answer that did not come, as old as Slurm's credentials."""

PAUSE_S_MAX: Final = 2.0
CLUSTER: Final = "site0/cluster"
USERS: Final = {"ada": "daemon", "bob": "nobody"}

SYSTEM: Final = """
[[site.batch_systems]]
name = "slurm"
configuration = "{configuration}"
users = {{ ada = "daemon", bob = "nobody" }}
look_every = "1s"
"""

Kept = tuple[int, int, int, str]
"""Start, end, nodes, user: of a slot, or of the reservation for it."""


def make_owners(directory: Path, configuration: Path) -> Facility:
    """A site before the Slurm, one without a batch system, and a broker."""
    urls = free_urls(3)
    before_slurm = site_text("site0", urls[0], capacity=NODES).replace(
        f"capacity = {NODES}", f'capacity = {NODES}\nnodes = "n[1-{NODES}]"\nbatch_system = "slurm"'
    ) + SYSTEM.format(configuration=configuration)
    texts = {
        "site0": before_slurm,
        "site1": site_text("site1", urls[1], capacity=NODES),
        "broker": broker_text(
            urls[2], {"site0": urls[0], "site1": urls[1]}, replica="1", coords=[urls[2]]
        ),
    }
    servers = [
        Server(name, write(directory / f"{name}.toml", text), url)
        for (name, text), url in zip(texts.items(), urls, strict=True)
    ]
    return Facility(servers[:2], servers[2:])


class DeathSoak:
    def __init__(self, slurm: OperatedSlurm, adapter: Slurm, facility: Facility, seed: int) -> None:
        self.slurm = slurm
        self.adapter = adapter
        self.facility = facility
        self.chance = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.peace_s: list[float] = []
        self.broken: list[str] = []

    async def round(self, customers: list[Customer], kills: int) -> None:
        await while_working(customers, self._kill(kills))
        for each in customers:
            await each.settle_everything()
        began_s = time.monotonic()
        try:
            await until(
                lambda: self._agree(customers), "Slurm and the site agree", within_s=PEACE_S_MAX
            )
        except AssertionError as error:
            self.broken.append(f"{error}: {await self._difference(customers)}")
        self.peace_s.append(time.monotonic() - began_s)
        for each in customers:
            self.broken += each.violations

    async def _kill(self, kills: int) -> None:
        for _ in range(kills):
            # Real processes die at moments that nothing foresees: these pauses wait for nothing.
            await asyncio.sleep(self.chance.uniform(0.1, PAUSE_S_MAX))
            what = self.chance.choice(("controller", "controller", "site", "both"))
            self.kills[what] += 1
            if what != "site":
                await asyncio.to_thread(self.slurm.kill_controller)
            if what != "controller":
                await self.facility.sites[0].kill()
            await asyncio.sleep(self.chance.uniform(0, PAUSE_S_MAX))
            if what != "site":
                await asyncio.to_thread(self.slurm.start_controller)
            if what != "controller":
                await self.facility.sites[0].start()

    async def _agree(self, customers: list[Customer]) -> bool:
        return await self._difference(customers) == {}

    async def _difference(self, customers: list[Customer]) -> dict[str, list[Kept]]:
        """Return what was told and is not kept, and what is kept and was not told."""
        try:
            state = await self.adapter.state()
        except SystemSilent as error:
            return {str(error): []}
        kept: Counter[Kept] = Counter(
            (each.start, each.end, len(each.nodes), ",".join(each.users))
            for each in state.reservations
            if each.name.startswith("kal.site0.") and not each.broken
        )
        told: Counter[Kept] = Counter(
            (start, end, units, USERS[each.user])
            for each in customers
            for claims in each.reserved.values()
            for resource, start, end, units in claims
            if resource == CLUSTER and end > state.clock_s
        )
        found = {"told and not kept": told - kept, "kept and not told": kept - told}
        return {what: sorted(which.elements()) for what, which in found.items() if which}


async def soak(kills: int, seed: int, directory: Path) -> dict[str, object]:
    top = directory / "slurm"
    top.mkdir(mode=0o755)
    with OperatedSlurm(top, NODES) as slurm:
        adapter = Slurm(str(top / "slurm.conf"))
        facility = make_owners(directory, top / "slurm.conf")
        urls = [broker.url for broker in facility.brokers]
        chance = random.Random(seed)
        base_s = base_now_s()
        customers = [
            Customer(user, urls, facility.resources, base_s, random.Random(chance.random()))
            for user in USERS
        ]
        one = DeathSoak(slurm, adapter, facility, seed)
        async with running(*facility.servers):
            await connected(facility)
            async with customers[0], customers[1]:
                while sum(one.kills.values()) < kills and not one.broken:
                    await one.round(customers, min(KILLS_A_ROUND, kills - sum(one.kills.values())))
                    told = f"{sum(one.kills.values())} kills, {len(one.broken)} broken"
                    print(told, file=sys.stderr, flush=True)
    told_counts = sum((each.counts for each in customers), Counter[str]())
    return {
        "seed": seed,
        "kills": dict(one.kills),
        "customers": dict(told_counts),
        "peace_s": {"most": max(one.peace_s), "all": [round(each, 1) for each in one.peace_s]},
        "broken": one.broken,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kalends-deaths-") as directory:
        Path(directory).chmod(0o755)
        report = asyncio.run(soak(options.kills, options.seed, Path(directory)))
    print(json.dumps(report, indent=2))
    return 1 if report["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
