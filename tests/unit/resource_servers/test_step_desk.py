"""Parts of jobs in step at a site's queue: taken with their slots, and reported when they fail or end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace
from tests.reserved_room import ANN, DONE, RESERVED, Room

from kalends.batch.journal.contract import JobHistory, JobOver
from kalends.batch.queue import facts as f
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import QueueService
from kalends.batch.views import over_of
from kalends.core.errors import NotAllowed, Refusal, RefusalCode, Unavailable
from kalends.core.jobs import After, JobRequest
from kalends.core.principals import Principal
from kalends.core.steps import is_key_of_part, key_of_part, part_in
from kalends.resource_servers.jobs.step_desk import StepDesk
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.placed_jobs.part_reports import PartReports
from kalends.resource_servers.service import SiteEngine

BOX: Final = "lab/box"
JOB: Final = JobRequest(machine="", limit_s=60, command=("true",))


class Desk(Room):
    """A desk over the queue with Ann's reservation, whose stake says what is to run there."""

    def __init__(self, job: JobRequest | None = JOB) -> None:
        super().__init__()
        self.queues: Mapping[str, BatchQueue] = {BOX: self.queue}
        claim = Claim(7, BOX, 2_000, 3_000, 3, state="locked")
        self.stake = Stake(
            RESERVED, 1, ANN, "s" * 32, 1, (), (), [claim], jobs={BOX: job} if job else {}
        )
        self.told: list[tuple[Any, ...]] = []
        self.no_account = False
        self.participant = SimpleNamespace(
            book=SimpleNamespace(stakes=SimpleNamespace(peek={RESERVED: self.stake}.get)),
        )
        self.part_reports = SimpleNamespace(
            submitted=self._submitted,
            failed=self._failed,
            ended=self._ended,
            used_again=lambda *slot: self.told.append(slot),
        )
        self.past: dict[int, JobOver] = {}
        self.unreadable = 0
        """So often the store cannot be read."""
        self.desk = self.begun()

    async def reopened(self) -> None:
        """A new life of the site has a desk of its own."""
        self.desk = self.begun()
        await self.looked_up()

    def begun(self) -> StepDesk:
        desk = StepDesk(
            cast(SiteEngine, self),
            cast(PartReports, self.part_reports),
            cast(QueueService, self),
            self.check_part,
            cast(JobHistory, self),
        )
        desk.begin()
        return desk

    async def looked_up(self) -> None:
        await asyncio.gather(*self.desk._look_ups)

    def _submitted(self, rid: str, machine: str, job: int) -> None:
        self.stake.jobs = {}
        self.told.append((rid, machine, job))

    def _failed(self, rid: str, machine: str, job: int, why: str, now: Any) -> None:
        self.told.append((rid, machine, job, why))

    def _ended(self, rid: str, machine: str, job: int, at: int, now: Any) -> None:
        self.told.append((rid, machine, job, at))

    # The engine, the service of the queues and the machines, as far as a desk sees them

    def apply(self, step: Callable[[Any, Any], None]) -> None:
        step(self.participant, None)

    def claims(self, machine: str) -> Mapping[int, f.NodeClaim]:
        return self.queue.flow.claims()

    def step(self, machine: str, step: Callable[[BatchQueue, int], Any]) -> Any:
        return step(self.queue, self.now)

    async def job(self, machine: str, number: int) -> JobOver | None:
        await asyncio.sleep(0)
        if self.unreadable:
            self.unreadable -= 1
            raise Unavailable("the disk is away")
        return self.past.get(number)

    def check_part(self, principal: Principal, job: JobRequest) -> None:
        if self.no_account:
            raise NotAllowed("no account")

    def why_not(self, job: JobRequest, machine: str = BOX) -> Refusal | None:
        return self.desk.why_not(ANN, part_in(job, machine, 3, RESERVED))

    @property
    def part(self) -> BatchJob:
        (job,) = (each for each in self.queue.flow.table if is_key_of_part(each.key))
        return job

    async def ends(self, ending: f.JobEnding) -> None:
        """The part has its nodes, and then ends so."""
        job = self.part
        self.at(2_000)
        self.end(job.number, ending)
        await self.over(job)

    async def over(self, job: BatchJob) -> None:
        """The desk hears that a job is over, which is stored then."""
        self.desk.over(BOX, job)
        self.past[job.number] = over_of(BOX, job)
        await asyncio.sleep(0)
        await self.looked_up()


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_a_part_is_submitted_into_its_slot_when_that_is_locked(desk: Desk) -> None:
    assert desk.told == [(RESERVED, BOX, 1)]
    job = desk.part
    assert (job.key, job.principal) == (key_of_part(RESERVED), ANN)
    assert job.request == part_in(JOB, BOX, 3, RESERVED)


async def test_it_is_submitted_once_also_by_a_life_that_does_not_know_it(desk: Desk) -> None:
    desk.desk.moved([(BOX, 7), (BOX, 8)])
    desk.stake.jobs = {BOX: JOB}
    await desk.reopened()
    assert desk.told == [(RESERVED, BOX, 1)] * 3
    assert len(desk.queue.flow.table.jobs) == 1


async def test_what_is_only_booked_has_no_job() -> None:
    desk = Desk(job=None)
    assert (desk.told, desk.queue.flow.table.jobs) == ([], {})


async def test_what_the_queue_does_not_take_after_all_is_reported(desk: Desk) -> None:
    desk.queue.cancel(1, "", desk.now)
    desk.told.clear()
    desk.stake.jobs = {BOX: replace(JOB, priority="royal")}
    desk.stake.rid = RESERVED
    desk.desk.moved([(BOX, 7)])
    ((_, _, number, why),) = desk.told
    assert number == 0
    assert "key" in why or "royal" in why


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (f.JobEnding(kind="exit", status=3), "exit 3"),
        (f.JobEnding(kind="killed", status=-9, detail="killed by ann"), "killed by ann"),
        (f.JobEnding(kind="not-started", detail="no such user"), "no such user"),
        (f.JobEnding(kind="lost"), "lost 0"),
    ],
)
async def test_a_part_that_does_not_end_well_is_reported_in_this_life_and_the_next(
    desk: Desk, ending: f.JobEnding, why: str
) -> None:
    desk.told.clear()
    await desk.ends(ending)
    assert desk.told == [(RESERVED, BOX, 1, why)]
    await desk.reopened()
    assert [each[:3] for each in desk.told[1:]] == [(RESERVED, BOX, 1)]
    assert len(desk.told[-1]) == 4


@pytest.mark.parametrize("ending", [DONE, f.JobEnding(kind="limit", status=-15)])
async def test_a_part_that_ends_well_or_has_had_its_time_ends_nobody_and_needs_its_slot_no_more(
    desk: Desk, ending: f.JobEnding
) -> None:
    desk.told.clear()
    await desk.ends(ending)
    ended = (RESERVED, BOX, 1, 2_000)
    assert desk.told == [ended]
    await desk.reopened()
    assert desk.told[1:] == [(RESERVED, BOX, 1), ended]


async def test_an_end_is_reported_in_the_next_life_once_its_store_can_be_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kalends.resource_servers.jobs.reading_again.AGAIN_S", 0)
    await desk.ends(DONE)
    desk.told.clear()
    desk.unreadable = 3
    await desk.reopened()
    assert desk.told == [(RESERVED, BOX, 1), (RESERVED, BOX, 1, 2_000)]


async def test_a_life_that_is_over_says_nothing_of_what_it_has_looked_up(desk: Desk) -> None:
    await desk.ends(DONE)
    desk.told.clear()
    over = desk.begun()
    await asyncio.sleep(0)
    over.close()
    await asyncio.gather(*over._look_ups, return_exceptions=True)
    assert desk.told == []


async def test_a_slot_that_is_gone_when_its_part_was_looked_up_is_not_spoken_of(desk: Desk) -> None:
    await desk.ends(DONE)
    desk.told.clear()
    desk.desk = desk.begun()
    desk.cancel()
    await desk.looked_up()
    assert desk.told == []


async def test_who_keeps_the_slot_has_it_when_the_part_has_ended() -> None:
    desk = Desk(job=replace(JOB, keep_slot=True))
    desk.told.clear()
    await desk.ends(DONE)
    assert desk.told == []
    await desk.reopened()
    assert desk.told == [(RESERVED, BOX, 1)]


async def test_a_slot_in_which_its_user_has_another_job_is_needed_until_that_is_over(
    desk: Desk,
) -> None:
    other = desk.queue.job(desk.submit(nodes=1))
    desk.told.clear()
    await desk.ends(DONE)
    assert desk.told == []
    desk.at(2_100)
    desk.end(other.number)
    await desk.over(other)
    assert desk.told == [(RESERVED, BOX, 1, 2_100)]


async def test_a_job_that_comes_into_the_slot_later_has_it_needed_again(desk: Desk) -> None:
    other = desk.queue.job(desk.submit(nodes=1))
    await desk.ends(DONE)
    desk.at(2_100)
    desk.end(other.number)
    desk.told.clear()
    desk.desk.moved_jobs(BOX, [1, 99, desk.submit(reservation="", nodes=1)])
    await asyncio.sleep(0)
    assert desk.told == []
    desk.desk.moved_jobs(BOX, [desk.submit(nodes=1)])
    await asyncio.sleep(0)
    assert desk.told == [(RESERVED, BOX)]


async def test_other_jobs_in_plain_reservations_and_beside_a_part_that_runs_say_nothing() -> None:
    plain, beside = Desk(job=None), Desk()
    for desk in (plain, beside):
        desk.told.clear()
        other = desk.queue.job(desk.submit(nodes=1, limit_s=60))
        desk.queue.cancel(other.number, "", desk.now)
        await desk.over(other)
        assert desk.told == []


async def test_a_part_whose_reservation_is_cancelled_is_no_failure(desk: Desk) -> None:
    desk.told.clear()
    job = desk.part
    desk.cancel()
    assert job.phase == "withdrawn"
    desk.desk.over(BOX, job)
    await asyncio.sleep(0)
    assert desk.told == []


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (replace(JOB, priority="royal"), RefusalCode.NO_PLACE),
        (replace(JOB, indices=(1, 2)), RefusalCode.NO_PLACE),
        (replace(JOB, after=(After(job=1),)), RefusalCode.NO_PLACE),
        (replace(JOB, command=()), RefusalCode.NO_PLACE),
    ],
)
async def test_whatever_a_broker_sends_along_what_would_not_be_taken_is_refused_with_its_slot(
    desk: Desk, job: JobRequest, code: RefusalCode
) -> None:
    assert desk.why_not(JOB) is None
    refusal = desk.why_not(job)
    assert refusal is not None
    assert (refusal.where, refusal.code) == (BOX, code)


async def test_who_has_no_account_and_what_runs_no_jobs_is_refused_as_such(desk: Desk) -> None:
    desk.no_account = True
    refusal, nowhere = desk.why_not(JOB), desk.why_not(JOB, "lab/beamline")
    assert refusal is not None
    assert nowhere is not None
    assert (refusal.code, nowhere.detail) == (RefusalCode.NOT_ALLOWED, "no jobs run there")
