"""The gate before the runners: a job that starts at most once waits there for its broker's word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from kalends.batch.place_keys import key_of_place
from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.jobs.start_gate import LATE_S, WAITS, StartGate
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.service import SiteEngine

NOW: Final = 1_000_000
BOX: Final = "lab/box"


class Lab:
    """A queue, the gate behind it, and what has passed; `words` come when a test says them."""

    def __init__(self) -> None:
        self.queue = BatchQueue(BOX, f.Terms(machine="pool:4", policy="easy"), NOW)
        self.now = NOW
        self.passed: list[Action] = []
        self.asked: list[Any] = []
        self.gate = StartGate(
            cast(SiteEngine, self),
            cast(StartQuestions, self),
            {BOX: self.queue},
            lambda machine, actions: self.passed.extend(actions),
            self._report,
        )

    def apply(self, step: Any) -> None:
        self.asked.append(step)

    def _report(self, machine: str, step: Callable[[BatchQueue, int], None]) -> None:
        step(self.queue, self.now)
        self.carry_out()

    def carry_out(self) -> None:
        effects = self.queue.take_effects()
        for job in effects.over:
            self.gate.over(BOX, job)
        self.gate.carry_out(BOX, effects.actions)

    async def placed(self, rid: str, *, once: bool = True, nodes: int = 4) -> BatchJob:
        """A job whose place was taken: it has its nodes, if there are as many."""
        job = JobRequest(
            machine=BOX, nodes=nodes, limit_s=3_600, command=("true",), at_most_once=once
        )
        key = key_of_place(self.queue.next_number, rid)
        number = PlaceOffers(self.queue).offer(Principal("ann"), job, key, 10, self.now)
        PlaceOffers(self.queue).take(number, self.now)
        self.carry_out()
        await asyncio.sleep(0)
        return self.queue.job(number)

    async def hear(self, rid: str, says: Any, at: str = "") -> None:
        self.gate.said([StartWord(rid, says, at)])
        await asyncio.sleep(0)

    @property
    def started(self) -> list[int]:
        return [each.job.number for each in self.passed if isinstance(each, Start)]


async def test_a_job_that_starts_at_most_once_starts_when_its_broker_says_so() -> None:
    lab = Lab()
    job = await lab.placed("one")
    assert (lab.started, len(lab.asked), lab.gate.words(BOX, job)) == ([], 1, WAITS)
    await lab.hear("another", "start")
    assert lab.started == []
    await lab.hear("one", "start")
    assert (lab.started, lab.gate.words(BOX, job)) == ([job.number], "")


async def test_other_jobs_do_not_wait() -> None:
    lab = Lab()
    job = await lab.placed("one", once=False)
    assert (lab.started, lab.asked) == ([job.number], [])


async def test_a_job_that_has_started_elsewhere_ends_and_its_nodes_are_free() -> None:
    lab = Lab()
    job, behind = await lab.placed("one"), await lab.placed("two", once=False)
    await lab.hear("one", "elsewhere", "there")
    await asyncio.sleep(0)
    assert (job.phase, job.kill_detail) == ("withdrawn", "it has started at there")
    assert lab.started == [behind.number]


async def test_a_job_that_waits_for_nodes_ends_as_well() -> None:
    lab = Lab()
    await lab.placed("one", once=False)
    job = await lab.placed("two")
    await lab.hear("two", "elsewhere")
    assert (job.phase, job.number in lab.started) == ("withdrawn", False)


async def test_what_is_killed_while_it_waits_never_was_and_no_other_site_may_start_it() -> None:
    lab = Lab()
    job = await lab.placed("one")
    lab.queue.cancel(job.number, "enough", lab.now)
    lab.carry_out()
    await asyncio.sleep(0)
    assert (job.phase, lab.passed) == ("withdrawn", [])
    await asyncio.sleep(0)
    assert len(lab.asked) == 2, "the second time for its only start, which is used up"
    await lab.hear("one", "start")
    assert lab.passed == []


async def test_after_a_word_that_comes_late_a_job_is_planned_anew_and_asks_again() -> None:
    lab = Lab()
    job = await lab.placed("one")
    lab.now += LATE_S + 1
    await lab.hear("one", "start")
    await asyncio.sleep(0)
    assert (lab.started, job.attempt, len(lab.asked)) == ([], 2, 2)
    await lab.hear("one", "start")
    assert lab.started == [job.number]
