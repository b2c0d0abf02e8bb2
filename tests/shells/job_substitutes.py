"""Puts simulated hosts beneath the machines of sites, in the place of processes: for stories with jobs."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from kalends.batch import runner
from kalends.batch.follower import Foreseen, JournalFollower, Question, Span
from kalends.batch.journal.contract import StoredState
from kalends.batch.journal.sqlite.job_journal import job_journal_at
from kalends.batch.queue.facts import Terms
from kalends.batch.shepherds.conclusion import Conclusion, State
from kalends.batch.shepherds.folders import is_name, job_of
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.order_check import check_name, check_order
from kalends.batch.shepherds.watch import Heard
from kalends.core.errors import Conflict, NotFound, Unavailable
from kalends.resource_servers.jobs import machines
from kalends.serving.configuration import StorePlace
from kalends.serving.logs import Logger
from tests.shells.job_host import Attempt, host_below, host_called
from tests.shells.stage import NODE, world

BEGIN_S_MAX: Final = 2.0
POLL_S: Final = 0.5
GRACE_S: Final = 2.0


class SimulatedLauncher:
    """One life of a site's launcher, over the host that its process is on."""

    def __init__(self, top: str, heard: Heard, **more: Any) -> None:
        node = NODE.get()
        assert node is not None
        self._host = host_called(world(), host_below(node.host))
        self._heard = heard
        self._context = contextvars.copy_context()
        self._told: dict[str, int] = {}
        """Attempts that are watched, and how many of their facts were told."""
        self._void_from_s: dict[str, float] = {}
        """From when on what nobody has begun is made void."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._host.hints = [self._hint]
        self._task = asyncio.create_task(self._poll())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def prepare(self, names: Iterable[str]) -> None:
        await asyncio.sleep(0.001)
        if self._host.goes_wrong():
            raise Unavailable("no job can be recorded: its disk is full")
        for name in names:
            check_name(name)
            self._host.attempts.setdefault(name, Attempt())

    def launch(self, orders: Iterable[JobOrder]) -> None:
        for order in orders:
            check_order(order)
            assert order.name in self._host.attempts, f"{order.name} was not prepared"
            self._told.setdefault(order.name, 0)
            self._void_from_s[order.name] = world().loop.now_s + BEGIN_S_MAX
            self._host.begin(order)

    def look(self, name: str) -> Conclusion:
        attempt = self._host.attempts.get(name)
        return attempt.conclusion if attempt is not None else Conclusion(State.ABSENT)

    def attempts_from(self, number: int) -> list[str]:
        found = [name for name in self._host.attempts if is_name(name) and job_of(name) >= number]
        return sorted(found, key=lambda name: tuple(map(int, name.split("."))))

    async def void(self, name: str) -> Conclusion:
        await asyncio.sleep(0.001)
        if self._host.goes_wrong():
            raise Unavailable("its start cannot be withdrawn: its disk is full")
        found = self._host.void(name)
        self._look(name)
        return found

    async def adopt(self, names: Iterable[str]) -> dict[str, Conclusion]:
        found = {}
        for name in list(names):
            found[name] = self.look(name)
            self._told[name] = 0
            self._void_from_s[name] = world().loop.now_s
            self._look(name)
            await asyncio.sleep(0)
        return found

    async def kill(self, name: str, reason: str, grace_s: float | None = None) -> None:
        if (await self.void(name)).state is State.RUNNING:
            await self._reach(name)
            self._host.kill(name, reason, GRACE_S if grace_s is None else grace_s)

    async def prolong(self, name: str, limit_s: float) -> None:
        await self._reach(name)
        self._host.prolong(name, limit_s)

    async def change(self, name: str, number: int, to: int, cores: tuple[int, ...]) -> Any:
        raise Conflict("no program of this world changes its size")

    withdraw = change

    async def deny(self, name: str, ranks: int, why: str) -> None:
        raise Conflict("no program of this world changes its size")

    async def attach(self, name: str) -> Any:
        raise Conflict("no program of this world has a terminal")

    def read_output(self, name: str, path: str, start: int, bytes_max: int) -> bytes:
        raise NotFound("no program of this world writes anything")

    def unchanged_since(self, before_s: float) -> list[str]:
        return []

    async def forget(self, name: str) -> None:
        del self._host.attempts[name]

    async def _reach(self, name: str) -> None:
        await asyncio.sleep(0.001)
        if self._host.goes_wrong():
            raise Unavailable("the supervisor of the job does not answer")
        if self.look(name).state is not State.RUNNING:
            raise Conflict("it does not run")

    def _hint(self, name: str) -> None:
        world().loop.call_soon(self._look, name, context=self._context)

    def _look(self, name: str) -> None:
        """As the watch does: tell what is new, and do what follows from how the attempt stands."""
        if name not in self._told:
            return
        found = self.look(name)
        if found.state is State.VOID:
            self._told[name] = 0
        new = found.facts[self._told[name] :]
        self._told[name] += len(new)
        for fact in new:
            self._heard(name, fact)
        if found.state in (State.ENDED, State.VOID):
            self._told.pop(name, None)
        elif found.state is State.LOST:
            self._host.close_lost(name)
        elif found.state is not State.RUNNING and world().loop.now_s >= self._void_from_s[name]:
            self._host.void(name)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            for name in list(self._told):
                self._look(name)


class FollowerHere:
    """The follower of a site's queues without a process of its own, which a world cannot have."""

    def __init__(self, store: StorePlace, terms: dict[str, Terms], logger: Logger) -> None:
        assert store.path is not None
        self._follower = JournalFollower(partial(job_journal_at, store.path))
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        pass

    async def foreseen(
        self, question: Question, machine: str, number: int, wait_s: float
    ) -> Foreseen:
        async with self._turn:
            return await asyncio.to_thread(self._follower.foresee, question, machine)

    async def delays(self, machine: str, spans: tuple[Span, ...]) -> Foreseen:
        async with self._turn:
            return await asyncio.to_thread(self._follower.delays, machine, spans)

    async def state(self, machine: str) -> StoredState | None:
        async with self._turn:
            return (await asyncio.to_thread(self._follower.foresee, "state", machine)).state


runner.Launcher = SimulatedLauncher  # type: ignore[misc, assignment]
machines.Forecaster = FollowerHere  # type: ignore[misc, assignment]
