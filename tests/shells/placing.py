"""Users who leave it to a broker where their jobs run; and what really ran, against what they were told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

import kalends
from kalends.contract.calls import PlacedJob, RequestView
from kalends.core.implementations import Implementation
from kalends.core.jobs import JobRequest
from tests.shells.facility import Facility
from tests.shells.job_host import HOSTS, Run
from tests.shells.job_judging import KILLED_S_MAX, judge_hosts
from tests.shells.judging_restarts import Absence, judge_restarts
from tests.shells.scenarios import Broken
from tests.shells.stage import NOBODY
from tests.shells.substitutes import WALL_AT_BEGIN_S

TRIES_MAX: Final = 600
AGAIN_S: Final = 0.5
LIMIT_S_MAX: Final = 300
RUN_S_MAX: Final = 120.0
MOVED_S_MAX: Final = 20.0
STRIKE_S_MAX: Final = 0.4
END_BY_S: Final = 3_600
LATE_S: Final = 5.0
"""A program begins so long after its job has nodes, at most, where nothing fails."""


@dataclass
class Wish:
    """A job that somebody has asked a broker for. `view` is what they were told last."""

    key: str
    user: str
    broker: str
    request: JobRequest
    prefer: dict[str, str] = field(default_factory=dict)
    implementations: tuple[Implementation, ...] = ()
    at_most_once: bool = False
    redundant: bool = False
    view: RequestView | None = None
    end_by: int = 0
    """A site that cannot end it by then (seconds UTC) does not count; 0: any does."""
    answered_after_s: float = 0.0
    moved: bool = False
    """Somebody has had it placed elsewhere."""
    unwanted: bool = False
    """Somebody has tried to cancel it."""
    cancelled_s: float = 0.0
    """When they were told that it is cancelled (in seconds since the world began); 0: they were not."""


@dataclass
class PlaceCustomers:
    """`count` users of the brokers of a facility, who leave `jobs` jobs each to them."""

    facility: Facility
    chance: random.Random
    count: int = 3
    jobs: int = 10
    pause_s: float = 30.0
    cancels: float = 0.2
    moves: float = 0.3
    """How often somebody wants a job elsewhere: not all may go."""
    again: float = 0.0
    """How often a job may start again."""
    once: float = 0.25
    """How often a job starts at most once; as many wait at two sites."""
    strikes: float = 0.0
    """How often some server dies while bids are made, compared, or decided."""
    deadlines: float = 0.0
    """How often a job is wanted by some time."""
    limits_s: Sequence[int] = (10, 60, LIMIT_S_MAX)
    named: str = "user"
    brokers: Sequence[str] = ()
    """The replicas that are asked; else all."""
    wishes: list[Wish] = field(default_factory=list)
    once_at: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The brokers of commands that start at most once."""
    broken: str = ""

    def __post_init__(self) -> None:
        self._tasks = [
            self.facility.client(
                f"{self.named}{number}", self._live(f"{self.named}{number}", self._draw())
            )
            for number in range(self.count)
        ]

    async def end(self, within_s: float) -> None:
        """Wait until everybody is answered; `Broken` when some never are."""
        done, late = await asyncio.wait(self._tasks, timeout=within_s)
        for task in done:
            task.result()
        if self.broken or late:
            raise Broken(self.broken or f"{len(late)} users are not answered within {within_s} s")

    def leave(self) -> None:
        """Nobody waits for an answer any more."""
        for task in self._tasks:
            task.cancel()

    @property
    def _now_s(self) -> float:
        return self.facility.world.loop.now_s

    def _draw(self) -> random.Random:
        return random.Random(self.chance.random())

    async def _live(self, user: str, chance: random.Random) -> None:
        for count in range(self.jobs):
            broker = chance.choice(self.brokers or self.facility.replicas)
            key = f"a-job-of-{user}-{count:04}"
            request = self._request(user, count, chance)
            if random.Random(f"{key} again").random() < self.again:
                request = self._again(request, user, count)
            draw = random.Random(key)
            wish = Wish(key, user, broker, request, *_wished(request, draw), *self._once(draw))
            if self.deadlines and draw.random() < self.deadlines:
                wish.end_by = WALL_AT_BEGIN_S + int(self._now_s) + END_BY_S
            self.wishes.append(wish)
            if wish.at_most_once or wish.redundant:
                self.once_at[request.command] = self.facility.host_of(broker)
            self._strike(chance)
            asked_s = self._now_s
            async with self.facility.connect(broker, user, timeout_s=10) as client:
                wish.view = await self._ask(
                    lambda c=client, w=wish: c.place_job(  # type: ignore[misc]
                        w.request,
                        prefer=w.prefer,
                        implementations=w.implementations,
                        at_most_once=w.at_most_once,
                        redundant=w.redundant,
                        end_by=w.end_by or None,
                        key=w.key,
                    )
                )
                wish.answered_after_s = self._now_s - asked_s
                if wish.view is not None and draw.random() < self.moves:
                    await asyncio.sleep(draw.uniform(0, MOVED_S_MAX))
                    moved = await self._ask(
                        lambda c=client, w=wish: c.place_elsewhere(w.view.id, key=f"move-{w.key}")  # type: ignore[misc]
                    )
                    wish.moved = moved is not None
                    self.facility.counts["moved"] += wish.moved
                if wish.view is not None and chance.random() < self.cancels:
                    wish.unwanted = True
                    await asyncio.sleep(chance.uniform(0, max(self.limits_s)))
                    told = await self._ask(lambda c=client, v=wish.view: c.cancel(v.id))  # type: ignore[misc]
                    if told is not None and told.state == "cancelled":
                        wish.cancelled_s = self._now_s
            await asyncio.sleep(chance.uniform(0, self.pause_s))

    def _once(self, chance: random.Random) -> tuple[bool, bool]:
        """Draw whether a job asks before it starts, and whether it waits at two sites."""
        drawn = chance.random()
        return drawn < self.once, self.once <= drawn < 2 * self.once

    def _strike(self, chance: random.Random) -> None:
        if chance.random() < self.strikes:
            name, dark = chance.choice(self.facility.servers), chance.random() < 0.3
            later = self.facility.world.loop.call_later
            later(chance.uniform(0, STRIKE_S_MAX), self._kill, name, dark, context=NOBODY)

    def _kill(self, name: str, dark: bool) -> None:
        if not self.facility.world.nodes[name].dead:
            self.facility.restart(name, dark=dark)

    def _request(self, user: str, count: int, chance: random.Random) -> JobRequest:
        run_s = chance.choice((0.0, chance.uniform(0, RUN_S_MAX)))
        return JobRequest(
            machine="",
            nodes=chance.choice((1, 1, 2, 4)),
            limit_s=chance.choice(self.limits_s),
            command=("program", f"{run_s:.3f}", f"{user}-{count}"),
        )

    @staticmethod
    def _again(request: JobRequest, user: str, count: int) -> JobRequest:
        """Return a job that may start again, and runs for long enough to be moved."""
        run_s = random.Random(f"{user} {count}").uniform(RUN_S_MAX / 4, 2 * RUN_S_MAX)
        command = ("program", f"{run_s:.3f}", f"{user}-{count}")
        return structs.replace(request, limit_s=LIMIT_S_MAX, rerun=True, command=command)

    async def _ask(self, ask: Callable[[], Awaitable[RequestView]]) -> RequestView | None:
        """Ask until there is an answer; None for a refusal."""
        for _ in range(TRIES_MAX):
            try:
                view = await ask()
            except kalends.OutcomeUnknown:
                await asyncio.sleep(AGAIN_S)
            except kalends.Unavailable as error:
                if error.request_id:
                    return None  # That is the answer, and will be it for ever.
                await asyncio.sleep(AGAIN_S)
            except kalends.KalendsError as error:
                self.facility.world.note("refused", repr(error))
                return None
            else:
                if view.state != "open":
                    return view
                await asyncio.sleep(AGAIN_S)
        self.broken = self.broken or f"no answer after {TRIES_MAX} tries"
        return None


def _wished(
    request: JobRequest, chance: random.Random
) -> tuple[dict[str, str], tuple[Implementation, ...]]:
    """Draw what a user prefers, and in which ways a job can run: all run the same program."""
    prefer = {"site=site1": chance.choice(("5s", "2m"))} if chance.random() < 0.3 else {}
    if chance.random() < 0.7:
        return prefer, ()
    ways = (
        Implementation(
            name="plain",
            sizes=(request.nodes,),
            limits_s=(request.limit_s,),
            command=request.command,
        ),
        Implementation(
            name="wide", sizes=(2, 4), limits_s=(LIMIT_S_MAX, 150), command=request.command
        ),
    )
    return prefer, ways


async def judge_places(
    facility: Facility,
    customers: PlaceCustomers,
    *,
    punctual: bool,
    liars: Collection[str] = (),
    slow: Collection[str] = (),
    absences: Collection[Absence] = (),
    lost_s: float = 0.0,
) -> None:
    """Raise `Broken` unless each job ran where its user was told, once, and nowhere else.

    All is calm, and nothing waits any more. `punctual`: nothing has failed, and promised starts were kept,
    but at sites that are `slow`. What has a place at one of the sites `liars` may run or not, but at honest
    sites no more than once, and only where its user was told. Jobs that may start again have done so at most
    where sites were lost: after `lost_s` of these `absences`.
    """
    judge_hosts(liars)
    ran = runs_by_command(liars)
    for wish in customers.wishes:
        if wish.view is not None:
            # It may have another place by now, where that was asked for, or something has failed.
            async with facility.connect(wish.broker, wish.user) as client:
                now = await client.show(wish.view.id)
            told = wish.view.placed
            facility.counts["at two sites"] += bool(told is not None and told.also)
            facility.counts["elsewhere"] += not wish.redundant and _machine(now) != _machine(
                wish.view
            )
            stays = punctual and not wish.moved and not _is_at(told, liars)
            if stays and not set(_machines(now.placed)) <= set(_machines(told)):
                raise Broken(f"{wish.key} was told to be at {told}, and is at {now.placed}")
            wish.view = now
        runs = ran.get(wish.request.command, [])
        placed = wish.view.placed if wish.view is not None else None
        what = f"{wish.key}, told as {wish.view and (wish.view.state, placed)}, ran as {runs}"
        if placed is not None and bool(placed.implementation) != bool(wish.implementations):
            raise Broken(f"it was placed in another way than was asked for: {what}")
        again = wish.request.rerun and placed is not None
        if len(runs) > 1 and not again:
            raise Broken(f"it ran twice: {what}")
        if again and placed is not None:
            facility.counts["two at once"] += judge_restarts(
                runs, placed, what, wanted=not wish.unwanted, twice=not wish.at_most_once,
                absences=absences, lost_s=lost_s,
            )  # fmt: skip
            facility.counts["ran again"] += len(runs) > 1
        if runs and placed is None:
            raise Broken(f"it ran, and its user was told of no place: {what}")
        places = (placed, *placed.also) if placed is not None else ()
        at = {each.machine.partition("/")[0] for each in places}
        if len(places) > 1 + wish.redundant:
            raise Broken(f"it has more places than were asked for: {what}")
        if runs and not again and runs[0][0] not in at:
            raise Broken(f"it ran elsewhere: {what}")
        trusting = _is_at(placed, liars)
        facility.counts["with liars"] += trusting
        if placed is not None and not runs and not wish.unwanted and not trusting:
            raise Broken(f"it never ran: {what}")
        if wish.cancelled_s and any(
            run.until_s > wish.cancelled_s + KILLED_S_MAX for _, run in runs
        ):
            raise Broken(f"it ran on after {wish.cancelled_s:.1f}, when it was cancelled: {what}")
        if punctual and placed is not None and runs and not at.intersection((*liars, *slow)):
            await _judge_start(facility, wish.user, placed, runs[0], what)
        facility.counts["ran"] += bool(runs)
        facility.counts["placed" if placed is not None else "not placed"] += 1
        facility.counts["promised"] += bool(placed is not None and placed.start_by)


def _is_at(placed: PlacedJob | None, sites: Collection[str]) -> bool:
    return any(each.partition("/")[0] in sites for each in _machines(placed))


def _machines(placed: PlacedJob | None) -> list[str]:
    places = (placed, *placed.also) if placed is not None else ()
    return [each.machine for each in places]


def _machine(view: RequestView) -> str:
    return view.placed.machine if view.placed is not None else ""


async def _judge_start(
    facility: Facility, user: str, placed: PlacedJob, ran: tuple[str, Run], what: str
) -> None:
    """Raise `Broken` where a place was taken later than it was promised, or its program has begun so."""
    site, run = ran
    own = next(each for each in (placed, *placed.also) if each.machine.startswith(f"{site}/"))
    if not own.start_by:
        return
    async with facility.connect(site, user, timeout_s=10) as client:
        view = await client.job(own.machine, own.number)
    if view.started > own.start_by:
        raise Broken(
            f"it was taken {view.started - own.start_by} s later than was promised: {what}"
        )
    late_s = WALL_AT_BEGIN_S + run.since_s - own.start_by
    if late_s > LATE_S:
        raise Broken(f"it has begun {late_s:.1f} s later than was promised: {what}")
    facility.counts["punctual"] += 1


def runs_by_command(
    left_out: Collection[str] = (),
) -> dict[tuple[str, ...], list[tuple[str, Run]]]:
    found: dict[tuple[str, ...], list[tuple[str, Run]]] = {}
    for host in (each for each in HOSTS.values() if each.name not in left_out):
        for run in host.history:
            order = host.attempts[run.name].order
            assert order is not None
            found.setdefault(order.argv, []).append((host.name, run))
    return found


async def until_all_is_over(
    facility: Facility, within_s: float, liars: Collection[str] = ()
) -> None:
    """Wait until no job is left at any honest site, offered or not; raise `Broken` if some are for ever."""
    deadline_s = facility.world.loop.now_s + within_s
    for site in (each for each in facility.sites if each not in liars):
        async with facility.connect(site, "user0", timeout_s=10) as client:
            while jobs := (await client.jobs(f"{site}/cluster", everyone=True)).jobs:
                if facility.world.loop.now_s > deadline_s:
                    raise Broken(f"{site} still has {[(job.job, job.phase) for job in jobs]}")
                await asyncio.sleep(LIMIT_S_MAX / 4)
