"""Errands to a batch system: those of one reservation follow each other, those of others do not wait."""

from __future__ import annotations

import asyncio
from typing import Any

from kalends.backends.records import (
    CreateReservation,
    DeleteReservation,
    SystemAnswer,
    SystemReservation,
    Traits,
)
from kalends.resource_servers.jobs.batch_desk import AT_ONCE, BatchDesk
from kalends.resource_servers.participation.effects import Provision
from kalends.stores.group_commit import StoreFailed


class Slow:
    """A system in which a name can be given twice, and that answers when it is told to."""

    traits = Traits(unique_names=False)

    def __init__(self) -> None:
        self.has: list[str] = []
        self.goes_on = asyncio.Event()

    async def find(self, name: str) -> SystemReservation | None:
        found = name in self.has
        await self.goes_on.wait()
        return wish(name) if found else None

    async def create(self, reservation: SystemReservation) -> None:
        self.has.append(reservation.name)

    async def delete(self, name: str) -> None:
        self.has = [each for each in self.has if each != name]

    async def __call__(self, *_: Any) -> None:
        raise AssertionError("nobody asks for this")

    state = change = end_jobs = __call__


def wish(name: str) -> SystemReservation:
    return SystemReservation(name, 1_000, 2_000, ("n1",), ("ann",))


async def still_ours() -> None:
    pass


async def test_a_creation_that_is_asked_for_again_while_it_is_under_way_is_made_once() -> None:
    system, ends = Slow(), asyncio.Queue[tuple[int, SystemAnswer]]()
    desk = BatchDesk({"slow": system}, lambda number, answer: ends.put_nowait((number, answer)))
    wishes = [wish("a"), wish("a"), wish("b")]
    errands = [Provision(n, "slow", CreateReservation(each)) for n, each in enumerate(wishes)]
    desk.carry(errands, still_ours)
    for _ in range(10):  # All that may begin look for their names first.
        await asyncio.sleep(0)
    system.goes_on.set()
    ended = dict([await ends.get() for _ in wishes])
    assert sorted(system.has) == ["a", "b"]
    assert [ended[number].outcome for number in range(3)] == ["done", "refused", "done"]
    assert ended[1].found == ended[0].found == wish("a")
    desk.carry([Provision(3, "slow", DeleteReservation("a"))], still_ours)
    assert await ends.get() == (3, SystemAnswer("done"))
    await desk.close()


async def test_errands_of_a_life_that_is_over_never_begin_and_keep_nobody_waiting() -> None:
    async def taken_over() -> None:
        raise StoreFailed("another process has taken over")

    system, ends = Slow(), asyncio.Queue[tuple[int, SystemAnswer]]()
    system.goes_on.set()
    desk = BatchDesk({"slow": system}, lambda number, answer: ends.put_nowait((number, answer)))
    late = [Provision(n, "slow", CreateReservation(wish(f"late-{n}"))) for n in range(AT_ONCE + 1)]
    desk.carry(late, taken_over)
    desk.carry([Provision(99, "slow", CreateReservation(wish("a")))], still_ours)
    assert (await ends.get())[0] == 99
    assert (system.has, ends.empty()) == (["a"], True)
    await desk.close()
