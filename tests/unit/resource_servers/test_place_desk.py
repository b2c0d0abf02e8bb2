"""How the queues of a site follow the claims on places, however many come or go at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from msgspec import structs
from tests.unit.batch.queue.test_offers import OfferRoom

from kalends.agents.runs import Engine, RunOutcome
from kalends.agents.sandbox import NoEngine
from kalends.batch.queue import facts as f
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import QueueService
from kalends.client.trials.engines import engine_here
from kalends.contract import messages as m
from kalends.core.identifiers import queue_of
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.federation.schedules import Aim
from kalends.resource_servers.jobs import way_choice
from kalends.resource_servers.jobs.bid_terms import credits_of, load_of, with_terms
from kalends.resource_servers.jobs.place_desk import FOLLOWED_MAX, PlaceDesk
from kalends.resource_servers.jobs.way_choice import TRIAL, schedules_of
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.effects import PlaceAsk, RunTask
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.service import SiteEngine
from kalends.serving.configuration import MachineConfiguration

BOX: Final = "lab/box"
QUEUE: Final = queue_of(BOX)
ANN: Final = Principal("ann")
JOB: Final = JobRequest(machine="", nodes=4, limit_s=3_600, command=("true",))


class Desk(OfferRoom):
    """A desk over a real queue; `stakes` says what is claimed, and everything that is asked for is held."""

    def __init__(self, **terms: Any) -> None:
        super().__init__(**terms)
        self.queues = {BOX: self.queue}
        self.stakes: dict[str, Stake] = {}
        self.participant = SimpleNamespace(
            book=SimpleNamespace(calendars={}, stakes=SimpleNamespace(peek=self.stakes.get))
        )
        self.withdrawn: list[int] = []
        self.aim: Aim = ""
        self.engine: Engine = NoEngine("there is none")
        self.offers: list[m.PlaceOffer] = []
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

    def reserve(self, principal: Principal, queue: BatchQueue, job: JobRequest) -> None:
        """Nothing costs anything here."""

    def rules_of(self, machine: str) -> MachineConfiguration:
        return MachineConfiguration(resource="box", aim=self.aim)

    async def run_script(self, task: RunTask) -> RunOutcome:
        return await self.engine.run(task.job)

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
        self.offers = offers
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


async def test_a_bid_says_its_price_by_the_tariff_the_load_and_whether_nodes_are_shared() -> None:
    desk = Desk(tariff={"normal": 3})
    (id_,) = await desk.give(1)
    desk.lock(id_)
    await turns_until(lambda: not desk.queue.job(id_).offered)
    job = desk.queue.job(id_)
    offer = m.PlaceOffer(
        machine=BOX, hold_id=1, job=id_, nodes=4, start=1_000, end=1_000 + 1_800, start_by=1_000
    )
    rules = MachineConfiguration(resource="box", shared=True, disclosed=False)
    told = with_terms(offer, rules, desk.queue)
    assert (told.shared, told.undisclosed, told.price) == (True, True, 3 * 4 * 0.5)
    assert told.load == 100 * len(job.nodes) // desk.queue.flow.room.nodes > 0
    job.request = JOB
    assert credits_of(Desk().queue, job, 4 * 1_800) == load_of(Desk().queue) == 0


WAYS: Final = tuple(
    structs.replace(JOB, nodes=nodes, limit_s=limit_s, implementation="mpi")
    for nodes, limit_s in ((4, 1_200), (2, 2_000), (1, 3_600))
)
NARROW: Final = (
    "def rank(schedules, machine):\n    return [min(schedules, key=by('nodes'))['way'], 0]\n"
)


@pytest.fixture
async def ranking(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """A desk whose site runs scripts, and waits for them on however slow a host."""
    monkeypatch.setattr(way_choice, "RANK_S_MAX", 60)
    async with engine_here() as here:
        desk = Desk()
        desk.engine = here.engine
        yield desk


async def way_offered(desk: Desk, rank: str = "") -> m.PlaceOffer:
    """Return the offer of a place for a job that may run in three ways."""
    ask = PlaceAsk(1, "r1", ANN, JOB, {}, ((BOX, 1),), 10, {BOX: WAYS}, rank)
    desk.desk.ask([ask])
    await asyncio.gather(*desk.desk._tasks)
    (offer,) = desk.offers
    return offer


async def test_the_owners_aim_chooses_the_way_and_nothing_else_is_held() -> None:
    for aim, way, nodes in (
        ("", 0, 4),
        ("parallel", 0, 4),
        ("sequential", 2, 1),
        ("response", 0, 4),
    ):
        desk = Desk()
        desk.aim = aim  # type: ignore[assignment]
        offer = await way_offered(desk)
        assert (offer.way, offer.nodes, offer.chosen_by) == (way, nodes, "aim" if aim else "")
        assert offer.end - offer.start == WAYS[way].limit_s
        (job,) = desk.queue.flow.table
        assert job.request == structs.replace(WAYS[way], machine=BOX)


async def test_a_job_that_was_only_tried_when_the_site_stopped_is_withdrawn_at_its_next_start() -> (
    None
):
    desk = Desk()
    ask = PlaceAsk(1, "r1", ANN, JOB, {}, ((BOX, 1),), 10, {BOX: WAYS})
    tried = structs.replace(WAYS[0], machine=BOX)
    desk.step(BOX, lambda queue, now: PlaceOffers(queue).offer(ANN, tried, f"{TRIAL} 1 0", 10, now))
    assert len(list(desk.queue.flow.table)) == 1
    desk.desk.begin()
    assert not list(desk.queue.flow.table)
    assert schedules_of(partial(desk.step, BOX), ask, 2, [tried], desk.reserve)
    assert not list(desk.queue.flow.table)


async def test_the_job_ranks_the_ways_itself_in_the_sandbox_of_the_site(ranking: Desk) -> None:
    offer = await way_offered(ranking, NARROW)
    assert (offer.way, offer.nodes, offer.chosen_by, offer.rank_fault) == (2, 1, "rank", "")


async def test_a_way_that_begins_sooner_is_seen_by_the_aim_though_another_is_faster_alone() -> None:
    desk = Desk()
    desk.aim = "response"
    desk.submit(nodes=2, limit_s=5_000)
    desk.settle()
    offer = await way_offered(desk)
    assert (offer.way, offer.nodes) == (1, 2), "the other two nodes are taken for long"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def rank(schedules, machine):\n    return 7\n", "no schedule with the way 7"),
        ("def rank(schedules, machine):\n    return []\n", "rank answers the way"),
        ("def rank(schedules, machine):\n    return schedules[9]\n", ""),
        ("def rank(schedules, machine):\n    while True:\n        pass\n", ""),
    ],
)
async def test_a_rank_that_fails_changes_nothing_and_its_user_reads_why(
    source: str, fault: str, ranking: Desk
) -> None:
    ranking.aim = "sequential"
    offer = await way_offered(ranking, source)
    assert (offer.way, offer.chosen_by) == (2, "aim")
    assert offer.rank_fault
    assert fault in offer.rank_fault


async def test_a_later_attempt_keeps_the_way_whose_place_is_held(ranking: Desk) -> None:
    await way_offered(ranking, NARROW)
    ranking.offers = []
    offer = await way_offered(ranking)
    assert (offer.way, offer.nodes) == (2, 1)
    assert len(list(ranking.queue.flow.table)) == 1


async def test_a_site_without_a_sandbox_and_a_script_without_end_fall_back_to_the_owners_order() -> (
    None
):
    offer = await way_offered(Desk(), NARROW)
    assert (offer.way, offer.chosen_by, offer.rank_fault) == (0, "", "there is none")
    desk = Desk()
    desk.run_script = lambda task: asyncio.Event().wait()  # type: ignore
    offer = await way_offered(desk, NARROW)
    assert (offer.way, offer.rank_fault) == (0, "it did not answer in time")
