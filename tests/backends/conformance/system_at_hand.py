"""A batch system in the hands of a test: as an adapter sees it, and as its operator and its users do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import pytest

from kalends.backends.adapter import Adapter
from kalends.backends.records import SystemReservation
from tests.support.patience import PATIENCE_S

HOUR_S: Final = 3_600
LOOK_EVERY_S: Final = 0.1

OURS: Final = "kal.conformance.00000000-"
"""With what the names of reservations begin that tests make as a site would."""


class SystemAtHand(Protocol):
    """Four nodes, and two Unix users who may use them."""

    @property
    def name(self) -> str: ...

    @property
    def adapter(self) -> Adapter: ...

    @property
    def nodes(self) -> tuple[str, ...]: ...

    @property
    def user(self) -> str: ...

    @property
    def other_user(self) -> str: ...

    @property
    def job_s_min(self) -> int:
        """The shortest limit that a job can have."""

    @property
    def job_begins_s_max(self) -> int:
        """Within this time a slot that begins now is booked, another behind it, and a job runs in it."""

    @property
    def answer_s_max(self) -> float:
        """Within this time a site believes its answers."""

    @property
    def many(self) -> int:
        """How many reservations can be made while a test waits."""

    @property
    def reserves_over(self) -> bool:
        """Whether an operator can reserve over what is there."""

    @property
    def lengthens_over(self) -> bool:
        """Whether a running job can be lengthened into what is reserved."""

    # Its controller

    async def freeze(self) -> None:
        """Let it hear everything and do nothing, until `thaw`."""

    async def thaw(self) -> None: ...

    async def crash(self) -> None:
        """Kill it, with what it has not written down."""

    async def stop(self) -> None:
        """End it as its operator would."""

    async def start(self, nodes: Sequence[str] = ()) -> None:
        """Start it again after `crash` or `stop`; with other nodes than before, if any are named."""

    # Its operator's hands

    async def delete(self, name: str) -> None: ...

    async def change(self, name: str, **fields: object) -> None:
        """Change `start`, `end`, `nodes`, `users` of a reservation; `open=True` lets others overlap it."""

    async def reserve(
        self, name: str, nodes: Sequence[str], start: int, end: int, *, force: bool = False
    ) -> None:
        """Reserve nodes for somebody else, over what is there if `force`."""

    async def take_down(self, node: str) -> None: ...

    async def drain(self, node: str) -> None: ...

    async def mend(self, node: str) -> None: ...

    # Its users

    async def run(
        self,
        nodes: Sequence[str],
        limit_s: int | None,
        *,
        reservation: str = "",
        stubborn: bool = False,
    ) -> str:
        """Run a job that sleeps, and return its id once it runs; `stubborn` ones ignore SIGTERM."""

    async def lengthen(self, job: str, limit_s: int) -> None: ...

    async def cancel_all(self) -> None:
        """End all jobs, and wait until they are gone."""


def with_changes(
    found: SystemReservation, fields: Mapping[str, object]
) -> tuple[list[str], int, int, str]:
    """Nodes, start, end and user of a reservation that an operator makes anew with other `fields`."""
    nodes = str(fields.get("nodes", ",".join(found.nodes))).split(",")
    start, end = (int(str(fields.get(each, getattr(found, each)))) for each in ("start", "end"))
    return nodes, start, end, str(fields.get("users", ",".join(found.users)))


async def put_over(
    system: SystemAtHand, name: str, nodes: Sequence[str], start: int, end: int
) -> bool:
    """Have others take nodes that are reserved then, by what the system lets an operator do.

    Return False where that is nothing: there it refuses.
    """
    if system.reserves_over:
        await system.reserve(name, nodes, start, end, force=True)
    elif system.lengthens_over:
        job = await system.run(nodes, 1_800)
        await system.lengthen(job, end - int(time.time()))
    else:
        with pytest.raises(RuntimeError, match="not valid"):
            await system.reserve(name, nodes, start, end)
        return False
    return True


async def until(
    holds: Callable[[], Awaitable[object]], what: str, within_s: float = PATIENCE_S
) -> None:
    """Return when it holds; fails with `what` if that takes too long."""
    deadline_s = time.monotonic() + within_s
    while not await holds():
        assert time.monotonic() < deadline_s, what
        await asyncio.sleep(LOOK_EVERY_S)


async def time_passes(adapter: Adapter, at_least_s: float) -> None:
    """Return when so much time has passed by the clock of a system."""
    since_s = (await adapter.state()).clock_s

    async def passed() -> bool:
        return (await adapter.state()).clock_s > since_s + at_least_s

    await until(passed, "its clock stands still")


class Slots:
    """Times in which one test has the nodes to itself: each is a day later than the last."""

    def __init__(self, now_s: int) -> None:
        self._next_s = (now_s // HOUR_S + 24) * HOUR_S

    def new(self) -> int:
        """Return the start of an hour that nobody uses."""
        self._next_s += 24 * HOUR_S
        return self._next_s


class Bench:
    """One system, and what a test has made on it, all of which is gone at its end."""

    def __init__(self, system: SystemAtHand, slots: Slots, first: int) -> None:
        self.system = system
        self.adapter = system.adapter
        self.slots = slots
        self._number = first

    def wish(
        self, nodes: Sequence[str] = (), start: int = 0, length_s: int = HOUR_S, user: str = ""
    ) -> SystemReservation:
        """Return a reservation to ask for, of a new name: two nodes for an hour of its own."""
        self._number += 1
        start = start or self.slots.new()
        return SystemReservation(
            name=f"{OURS}{self._number}",
            start=start,
            end=start + length_s,
            nodes=tuple(sorted(nodes or self.system.nodes[:2])),
            users=(user or self.system.user,),
        )

    async def made(self, *nodes: str, start: int = 0) -> SystemReservation:
        """Return a reservation that the system has."""
        wish = self.wish(nodes, start)
        await self.adapter.create(wish)
        assert await self.adapter.find(wish.name) == wish
        return wish


@asynccontextmanager
async def cleared(system: SystemAtHand) -> AsyncIterator[None]:
    """Leave nothing of ours, no jobs, and all nodes well."""
    try:
        yield
    finally:
        await system.thaw()
        await system.start()
        await system.cancel_all()
        for node in system.nodes:
            await system.mend(node)
        left = (await system.adapter.state()).reservations
        await asyncio.gather(*(system.delete(each.name) for each in left))

        async def clean() -> bool:
            state = await system.adapter.state()
            return not state.reservations and not state.jobs and not state.unwell

        await until(clean, f"{system.name} is not as it was before the test")
