"""How the queues of a site follow the claims on places, however many come or go at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

from tests.unit.batch.queue.test_offers import OfferRoom

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import QueueService
from kalends.core.identifiers import queue_of
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.jobs.place_desk import FOLLOWED_MAX, PlaceDesk
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.effects import PlaceAsk
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.service import SiteEngine

BOX: Final = "lab/box"
QUEUE: Final = queue_of(BOX)
ANN: Final = Principal("ann")
JOB: Final = JobRequest(machine="", nodes=4, limit_s=3_600, command=("true",))


class Desk(OfferRoom):
    """A desk over a real queue; `stakes` says what is claimed, and everything that is asked for is held."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = {BOX: self.queue}
        self.stakes: dict[str, Stake] = {}
        self.participant = SimpleNamespace(
            book=SimpleNamespace(stakes=SimpleNamespace(peek=self.stakes.get))
        )
        self.withdrawn: list[int] = []
        self.desk = PlaceDesk(
            cast(SiteEngine, self),
            cast(PlacedJobs, self),
            cast(QueueService, self),
            self,
            self.fail,
            cast(Any, None),
        )

    def fail(self, alarm: str) -> None:
        raise AssertionError(alarm)

    def check_place(self, principal: Principal, job: JobRequest) -> None:
        pass

    async def foreseen(self, question: object, machine: str, wait_s: float) -> Any:
        raise AssertionError("the policy promises")

    def now_s(self) -> int:
        return self.now

    def step(self, machine: str, step: Callable[[BatchQueue, int], Any]) -> Any:
        answer = step(self.queue, self.now)
        facts = [
            each.fact.about if isinstance(each.fact, f.Decided) else each.fact
            for each in self.queue.take_effects().entries
        ]
        self.withdrawn += [each.job for each in facts if isinstance(each, f.JobWithdrawn)]
        return answer

    def apply(self, step: Callable[[Any, object], bool]) -> bool:
        return step(self.participant, None)

    def offered(self, number: int, rid: str, offers: Any, refusals: object, now: object) -> bool:
        claims = [Claim(each.hold_id, QUEUE, each.start, each.end, 1) for each in offers]
        self.stakes[rid] = Stake(rid, 1, ANN, "s" * 32, 1, (), (), claims)
        return True

    async def give(self, count: int) -> list[int]:
        """Have so many places held; return their claims."""
        ids = [*range(1, count + 1)]
        self.desk.ask(PlaceAsk(id_, f"r{id_}", ANN, JOB, {}, ((BOX, id_),), 10) for id_ in ids)
        await turns_until(lambda: len(self.stakes) == count)
        return ids

    def end(self, ids: list[int]) -> None:
        """All these holds end in one moment."""
        for id_ in ids:
            del self.stakes[f"r{id_}"]
        self.desk.moved((QUEUE, id_) for id_ in ids)

    def lock(self, id_: int) -> None:
        self.stakes[f"r{id_}"].claims[0].state = "locked"
        self.desk.moved([(QUEUE, id_)])


async def turns_until(holds: Callable[[], bool]) -> int:
    """Let the loop turn until something holds; return how often."""
    for turn in range(1_000):
        if holds():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("it does not come true")


async def test_of_places_that_end_together_the_last_is_withdrawn_first() -> None:
    desk = Desk()
    desk.end(await desk.give(5))
    assert desk.withdrawn == [5, 4, 3, 2, 1]


async def test_while_a_flood_of_places_ends_others_have_their_turn_and_places_are_taken() -> None:
    desk = Desk()
    ids = await desk.give(4 * FOLLOWED_MAX)
    kept = ids.pop(1)
    desk.end(ids)
    assert len(desk.withdrawn) == FOLLOWED_MAX
    desk.lock(kept)
    turns = await turns_until(lambda: not desk.queue.job(kept).offered)
    assert turns == 1, "what has come last is not kept waiting by what has gone before"
    await turns_until(lambda: len(desk.withdrawn) == len(ids))
    assert sorted(desk.withdrawn) == ids
    assert [job.number for job in desk.queue.flow.table] == [kept]
