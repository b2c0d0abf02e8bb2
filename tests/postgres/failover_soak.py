"""Strike servers and their databases at random moments, and see whether each promise is kept.

    python -m tests.postgres.failover_soak --rounds 700 --seed 7

Customers book, hold, change and cancel through two replicas of a broker, at a site that has a standby and at
one that has none. All stores are on a primary with two standbys, of which commits wait for one. In each round
something strikes (`struck_servers.KINDS`). Then all customers stop, and once all is at rest an auditor holds
what every server shows against what customers were told, and each entry of the ledgers against the price of
what they have. Prints a line for each round, and in the end, or
at an interrupt, totals for each kind of strike. The seed gives the order of the strikes. After a broken
promise the exit code is 1, and configurations and logs stay.

With `--mutation` commits wait for no standby, and the primary is killed as soon as it has committed alone:
the auditor has to find what is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

from kalends.core.errors import KalendsError
from tests.processes.auditing import at_rest, judged, look, open_access, undecided
from tests.processes.crowd import Crowd
from tests.processes.customers import STARTS, Customer, base_now_s
from tests.processes.facility import GRAIN_S
from tests.processes.ledgers import PRICES, grant, wrong_ledgers
from tests.processes.servers import until

from .struck_servers import BROKERS, CUSTOMERS, KINDS, Strike, Struck, struck_servers
from .take_over_soak import late_owners, note_writers
from .three_databases import SYNCHRONOUS

WORKING: Final = 4
SITE_SCHEMAS: Final = ("site0", "site1")
EPISODE_ROUNDS: Final = 40
"""So often the same servers are struck; then all begins anew, so that an audit stays short."""
NEWS_OF_STANDBYS: Final = ("standby", "commits wait for")
"""By these, servers tell their owners that a standby was missing."""
INSTANT_S_MAX: Final = 0.5
"""A strike comes within this time after customers have begun to work."""
DECIDED_S_MAX: Final = 15.0


@dataclasses.dataclass
class Totals:
    """What came of the strikes of one kind.

    `undecided` counts rounds in which not all was decided `DECIDED_S_MAX` after the strike had ended.
    """

    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    undecided: int = 0
    gaps_s: list[float] = dataclasses.field(default_factory=list)
    decided_s: list[float] = dataclasses.field(default_factory=list)

    def as_row(self, kind: str) -> str:
        return (
            f"{kind:<22} {self.rounds:>6} {self.acknowledged:>12} {self.lost:>5} {self.undecided:>9}"
            f" {statistics.median(self.gaps_s):>8.2f} {max(self.gaps_s):>8.2f}"
            f" {statistics.median(self.decided_s):>11.2f} {max(self.decided_s):>8.2f}"
        )


@dataclasses.dataclass
class Report:
    """What happened; `faults` is empty when every promise was kept."""

    totals: dict[str, Totals] = dataclasses.field(default_factory=dict)
    faults: list[str] = dataclasses.field(default_factory=list)
    owners: int = 0
    late: int = 0
    """Sessions at sites, and those of them that have written after their successors' first write."""

    def table(self) -> str:
        """One line for each kind of strike, and one for all."""
        head = (
            f"{'strike':<22} {'rounds':>6} {'acknowledged':>12} {'lost':>5} {'undecided':>9}"
            f" {'gap p50':>8} {'worst':>8} {'decided p50':>11} {'worst':>8}"
        )
        each = self.totals.values()
        all_of_them = Totals(
            *(
                sum(getattr(of, name) for of in each)
                for name in ("rounds", "acknowledged", "lost", "undecided")
            ),
            *([s for of in each for s in getattr(of, name)] for name in ("gaps_s", "decided_s")),
        )
        rows = [*sorted(self.totals.items()), ("all", all_of_them)] if each else []
        failovers = self._rounds(lambda kind: KINDS[kind].fails_over)
        processes = self._rounds(lambda kind: KINDS[kind].is_of_process)
        return "\n".join(
            [
                head,
                *(totals.as_row(kind) for kind, totals in rows),
                f"failovers: {failovers}; processes killed or paused: {processes}",
                f"sessions that wrote at sites: {self.owners}, after their successors: {self.late}",
                f"faults: {len(self.faults)}",
            ]
        )

    def _rounds(self, counts: Callable[[str], bool]) -> int:
        return sum(of.rounds for kind, of in self.totals.items() if counts(kind))


def planned(rounds: int, seed: int) -> list[str]:
    """The kinds of `rounds` strikes, in their order."""
    chance = random.Random(seed)
    return chance.choices(list(KINDS), [kind.share for kind in KINDS.values()], k=rounds)


async def soak(
    folder: Path,
    plan: Sequence[str],
    seed: int,
    tell: Callable[[str], None],
    *,
    report: Report,
    is_over: Callable[[], bool] = lambda: False,
    synchronous: str = SYNCHRONOUS,
) -> None:
    """Strike as `plan` says, until all is done, something is broken, or it `is_over`; adds to `report`."""
    chance = random.Random(seed)
    for first in range(0, len(plan), EPISODE_ROUNDS):
        if report.faults or is_over():
            return
        place = folder / f"episode-{first}"
        place.mkdir()
        kinds = plan[first : first + EPISODE_ROUNDS]
        async with struck_servers(place, synchronous=synchronous, prices=PRICES) as struck:
            primary = struck.databases.primary.cluster
            for site in SITE_SCHEMAS:
                await asyncio.to_thread(note_writers, primary, schema=site)
            episode = _Episode(struck, chance, report)
            try:
                async with episode.at_work():
                    for number, kind in enumerate(kinds, first + 1):
                        strike = KINDS[kind].strike if synchronous else episode.tell_and_kill
                        tell(f"round {number}: {await episode.round(kind, strike)}")
                        if report.faults or is_over():
                            break
            except* (KalendsError, AssertionError) as errors:
                # What customers meet that they must not meet, and what does not come true in time.
                report.faults += [repr(error) for error in errors.exceptions]
            for site in SITE_SCHEMAS:
                late, owners = late_owners(struck.databases.primary.cluster, schema=site)
                report.late += late
                report.owners += owners
                if late:
                    report.faults.append(f"{late} of {owners} sessions at {site} wrote too late")
        if not report.faults:
            shutil.rmtree(place)


class _Episode:
    def __init__(self, struck: Struck, chance: random.Random, report: Report) -> None:
        self._struck = struck
        self._chance = chance
        self._report = report
        self._base_s = base_now_s()
        # Each begins at one of the replicas, and goes on at the other.
        urls = [struck.lines[CUSTOMERS, name].url for name in BROKERS]
        self._customers = [
            Customer(
                f"customer{number}",
                [",".join(urls), ",".join(reversed(urls))],
                ["site0/cluster", "site1/cluster"],
                self._base_s,
                random.Random(chance.random()),
            )
            for number in range(WORKING)
        ]
        self._crowd: Crowd
        self._told_s: list[float] = []
        """When bookings were acknowledged."""
        self._open: list[str] = []
        """What was not decided yet at the last look."""
        self._ended_s = 0.0
        """When the last strike ended."""
        self._late: list[str] = []
        """What was not decided at the first look `DECIDED_S_MAX` after that."""

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """All customers work; they end what they do at the end."""
        facility = await self._struck.facility()
        await grant(facility, self._customers)
        self._crowd = Crowd(facility, self._customers)
        over = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            for customer in self._customers:
                await stack.enter_async_context(customer)
            noting = [tasks.create_task(self._note(customer)) for customer in self._customers]
            working = tasks.create_task(self._crowd.work_while(over.wait()))
            try:
                yield
            finally:
                over.set()
                for task in noting:
                    task.cancel()
            await working

    async def _note(self, customer: Customer) -> None:
        while True:
            await customer.booked_again(1)
            self._told_s.append(time.monotonic())

    async def tell_and_kill(self, struck: Struck, _chance: random.Random) -> None:
        """Cut the primary off, and kill it once it has committed what some customer was told."""
        async with struck.primary_alone() as kill:
            # What each customer had on its way may be at a standby.
            for _ in range(WORKING + 1):
                await self._told_after(time.monotonic())
            await kill()
        await asyncio.to_thread(struck.fail_over)

    async def round(self, kind: str, strike: Strike) -> str:
        """Strike once, and audit; says what came of it."""
        before = len(self._told_s)
        await self._told_after(time.monotonic())
        # Anything that can be going on may be struck.
        await asyncio.sleep(self._chance.uniform(0, INSTANT_S_MAX))
        began_s = time.monotonic()
        await strike(self._struck, self._chance)
        self._ended_s = ended_s = time.monotonic()
        self._late = []
        await self._told_after(ended_s)
        gap_s = longest_pause_s(self._told_s, began_s, ended_s)
        async with self._crowd.quiet():
            await until(self._is_decided, "all is decided", explain=lambda: self._open)
            decided_s = time.monotonic() - ended_s
            for customer in self._customers:
                await customer.settle_everything()
            facility = await self._struck.facility()
            seen = await at_rest(facility, self._customers)
            await self._struck.whole()
            faults = await judged(
                facility, self._customers, seen, start_s=self._base_s,
                end_s=self._base_s + (STARTS + 8) * GRAIN_S,
                news=NEWS_OF_STANDBYS,
            )  # fmt: skip
            faults += await wrong_ledgers(facility, self._customers)
        totals = self._report.totals.setdefault(kind, Totals())
        totals.rounds += 1
        totals.acknowledged += len(self._told_s) - before
        totals.lost += sum(fault.startswith("LOST") for fault in faults)
        totals.undecided += decided_s > DECIDED_S_MAX
        totals.gaps_s.append(gap_s)
        totals.decided_s.append(decided_s)
        self._report.faults += [f"{kind}: {fault}" for fault in faults]
        return (
            f"{kind}, {ended_s - began_s:.1f} s; no booking for {gap_s:.2f} s, all decided after"
            f" {decided_s:.2f} s; round of {time.monotonic() - began_s:.1f} s; {len(faults)} faults"
            + "".join(f"\n  open after {DECIDED_S_MAX:.0f} s: {each}" for each in self._late)
        )

    async def _is_decided(self) -> bool:
        """Customers know all outcomes, and nothing is open at brokers, nor promised at sites."""
        try:
            seen = await look(await self._struck.facility(), open_access)
        except KalendsError as error:
            self._open = [str(error)]
        else:
            self._open = undecided(seen)
        if not self._late and time.monotonic() > self._ended_s + DECIDED_S_MAX:
            self._late = self._open
        return not self._open

    async def _told_after(self, since_s: float) -> None:
        async def is_told() -> bool:
            return bool(self._told_s) and self._told_s[-1] > since_s

        await until(is_told, "some customer gets a booking")


def longest_pause_s(told_s: Sequence[float], began_s: float, ended_s: float) -> float:
    """The longest time without an acknowledgement from `began_s` to the first one after `ended_s`."""
    first = next(at for at in told_s if at > ended_s)
    times = [began_s, *(at for at in told_s if began_s < at <= first)]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


async def _until_interrupted(
    folder: Path, plan: Sequence[str], given: argparse.Namespace, report: Report
) -> None:
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    await soak(
        folder, plan, given.seed, _tell, report=report, is_over=interrupted.is_set,
        synchronous="" if given.mutation else SYNCHRONOUS,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=700)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of them, with commas")
    parser.add_argument("--mutation", action="store_true", help="commits wait for no standby")
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    plan = [kind for kind in planned(given.rounds * 10, given.seed) if kind in kinds][
        : given.rounds
    ]
    folder = Path(tempfile.mkdtemp(prefix="kalends-failovers-"))
    _tell(f"seed {given.seed}, configurations and logs in {folder}")
    report = Report()
    try:
        asyncio.run(_until_interrupted(folder, plan, given, report))
    finally:
        print(report.table())
        print(json.dumps(report.faults, indent=2))
    if report.faults:
        return 1
    shutil.rmtree(folder)
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
