"""Users of machines: they submit jobs and end some, until they are answered, and remember every answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import kalends
from kalends.core.jobs import After, JobRequest
from tests.shells.facility import Facility
from tests.shells.scenarios import Broken
from tests.shells.stage import NOBODY

T = TypeVar("T")

TRIES_MAX: Final = 600
AGAIN_S: Final = 0.5
RUN_S_MAX: Final = 200.0
LIMIT_S_MAX: Final = 400
SLOT_S: Final = 600
DOWN_S_MAX: Final = 20.0


class Reserved(NamedTuple):
    site: str
    rid: str
    start_s: float
    """In seconds since the world began, as the end."""
    end_s: float
    nodes: int


@dataclass(frozen=True)
class ToldJob:
    """A job whose submission was answered."""

    site: str
    number: int
    user: str
    request: JobRequest


@dataclass
class JobCustomers:
    """`count` users at the machines of all sites, with `jobs` submissions each."""

    facility: Facility
    chance: random.Random
    count: int = 3
    jobs: int = 12
    pause_s: float = 60.0
    strikes: float = 0.0
    """How often a site dies just when it has answered."""
    told: list[ToldJob] = field(default_factory=list)
    killed: dict[tuple[str, int], float] = field(default_factory=dict)
    """Jobs that somebody has asked to end, by site and number, and when that was answered."""
    unwanted: set[tuple[str, int]] = field(default_factory=set)
    """Jobs that somebody has wished to end, whether they were answered or not."""
    reserved: list[Reserved] = field(default_factory=list)
    broken: str = ""

    def __post_init__(self) -> None:
        self._tasks = [
            self.facility.client(f"user{number}", self._live(number, self._draw()))
            for number in range(self.count)
        ]
        self._tasks.append(self.facility.client("booker", self._book_slots(self._draw())))

    async def end(self, within_s: float) -> None:
        """Wait until everybody is answered; `Broken` when some never are."""
        done, late = await asyncio.wait(self._tasks, timeout=within_s)
        for task in done:
            task.result()
        if self.broken or late:
            raise Broken(self.broken or f"{len(late)} users are not answered within {within_s} s")

    def _draw(self) -> random.Random:
        return random.Random(self.chance.random())

    async def _live(self, number: int, chance: random.Random) -> None:
        site = chance.choice(self.facility.sites)
        user = f"user{number}"
        mine: list[ToldJob] = []
        async with self.facility.connect(site, user, timeout_s=10) as client:
            for count in range(self.jobs):
                request = self._request(site, user, mine, chance)
                key = f"job-of-{user}-{count:04}"
                told = await self._ask(lambda r=request, k=key: client.submit(r, key=k))  # type: ignore[misc]
                if told is not None:
                    first = told.job.job
                    for each in range(told.count):
                        mine.append(ToldJob(site, first + each, user, request))
                        self.told.append(mine[-1])
                    self._strike(site)
                if mine and chance.random() < 0.3:
                    await self._kill(client, chance.choice(mine))
                await asyncio.sleep(chance.uniform(0, self.pause_s))

    def _request(
        self, site: str, user: str, mine: list[ToldJob], chance: random.Random
    ) -> JobRequest:
        run_s = chance.choice((0.0, chance.uniform(0, 5), chance.uniform(0, RUN_S_MAX)))
        after: tuple[After, ...] = ()
        if mine and chance.random() < 0.2:
            after = (After(job=chance.choice(mine).number, happened="ended"),)
        now_s = self.facility.world.loop.now_s
        own = [each.rid for each in self.reserved if each.site == site and each.end_s > now_s]
        return JobRequest(
            machine=f"{site}/cluster",
            nodes=chance.choice((1, 1, 2, 4)),
            limit_s=chance.choice((10, 60, LIMIT_S_MAX)),
            command=("program", f"{run_s:.3f}"),
            rerun=chance.random() < 0.4,
            indices=chance.choice(((), (), (), (1, 2, 3))),
            after=after,
            held=False,
            project=chance.choice(("", "dna")),
            reservation=own[0] if own and chance.random() < 0.2 else "",
        )

    async def _kill(self, client: kalends.Client, job: ToldJob) -> None:
        machine = f"{job.site}/cluster"
        self.unwanted.add((job.site, job.number))
        found = await self._ask(lambda: client.kill_job(machine, job.number))
        if found is not None and not found.end:
            self.killed[job.site, job.number] = self.facility.world.loop.now_s
            self._strike(job.site)

    def _strike(self, site: str) -> None:
        """The site may die just when it has answered."""
        world = self.facility.world
        if self.chance.random() < self.strikes and not world.nodes[site].dead:
            world.kill(site, dark=self.chance.random() < 0.3)
            world.loop.call_later(
                self.chance.uniform(0.1, DOWN_S_MAX), self._start, site, context=NOBODY
            )

    def _start(self, site: str) -> None:
        if self.facility.world.nodes[site].dead:
            self.facility.start(site)

    async def _book_slots(self, chance: random.Random) -> None:
        """Book some nodes for the next ten minutes, now and then, and keep them."""
        loop = self.facility.world.loop
        async with self.facility.connect(
            self.facility.replicas[0], "booker", timeout_s=10
        ) as client:
            for count in range(2):
                site, nodes = chance.choice(self.facility.sites), chance.choice((1, 2, 3))
                start_s = (loop.now_s // SLOT_S + 1) * SLOT_S
                start = self.facility.tomorrow - 86_400 + int(start_s)
                view = await self._ask(
                    lambda s=site, n=nodes, a=start, c=count: client.book(  # type: ignore[misc]
                        f"{s}/cluster:{n}", duration="10m", at=a, key=f"slot-{c:04}", wait_s=10,
                        patience="none",
                    )
                )  # fmt: skip
                if view is not None and view.state == "reserved":
                    self.reserved.append(Reserved(site, view.id, start_s, start_s + SLOT_S, nodes))
                await asyncio.sleep(chance.uniform(SLOT_S / 2, SLOT_S))

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Ask until there is an answer; None for a refusal."""
        for _ in range(TRIES_MAX):
            try:
                return await ask()
            except kalends.OutcomeUnknown:
                await asyncio.sleep(AGAIN_S)
            except kalends.Unavailable as error:
                if error.request_id:
                    return None
                await asyncio.sleep(AGAIN_S)
            except kalends.KalendsError as error:
                self.facility.world.note("refused", repr(error))
                return None
        self.broken = self.broken or f"no answer after {TRIES_MAX} tries"
        return None
