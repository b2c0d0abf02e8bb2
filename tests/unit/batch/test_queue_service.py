"""The queues of a site over its real calendar and store, by the clock that the site has."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.support.bookings import booking

from kalends.batch.job_notices import JobNotices
from kalends.batch.journal.contract import JobEntries, StoredHost
from kalends.batch.journal.sqlite.job_journal import SqliteJobJournal
from kalends.batch.queue.facts import JobEnded, NodeClaim, Terms
from kalends.batch.queue.queue import BatchQueue, QueueBroken
from kalends.batch.service import QueueService
from kalends.calendars import OwnerRules, ResourceCalendar, open_access
from kalends.contract import owner_calls
from kalends.core.errors import NotFound, Unavailable
from kalends.core.identifiers import queue_of
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.notices.notifier import Notifier
from kalends.resource_servers.jobs.job_ledger import JobLedger
from kalends.resource_servers.journal.sqlite.site_journal import SqliteJournal
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.resource_servers.participation.kernel import MakePayments
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.sockets import Unpaid
from kalends.resource_servers.service import SiteEngine
from kalends.scheduling import Job, Scheduler
from kalends.servers.restored_participant import site_machine
from kalends.serving.alarms import Alarms
from kalends.serving.logs import get_logger
from kalends.serving.metrics import Metrics
from kalends.stores.group_commit import StoreFailed

BOX = "lab/box"
STORED_S = 1_800_000_000
TERMS = Terms(machine="pool:4", policy="easy")
JOB = JobRequest(machine=BOX, limit_s=60, nodes=3, command=("true",))


@dataclass
class Clock:
    wall_s: int
    monotonic_s: int = 0

    def moment(self) -> Moment:
        return Moment(self.monotonic_s * 1000, self.wall_s * 1000)

    def pass_s(self, seconds: int) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds


@asynccontextmanager
async def queues_of_a_site(
    path: Path,
    clock: Clock,
    queue: BatchQueue,
    alarmed: Callable[[str], None] = lambda text: None,
    failed: Callable[[StoreFailed], None] = lambda failure: None,
    reported: Callable[[str, str], None] = lambda about, text: None,
    made: Callable[[Participant], None] = lambda participant: None,
    rules: OwnerRules | None = None,
    payments: MakePayments = Unpaid,
) -> AsyncIterator[QueueService]:
    journal = SqliteJournal(SiteStore.open(path, "lab", sync="off"))
    calendars = {
        name: ResourceCalendar(ResourceInfo(name=name, capacity=4), open_access(), (), rules)
        for name in (BOX, queue_of(BOX))
    }
    participant = site_machine(
        "lab", calendars, epoch=journal.epoch, jitter=lambda: 0.0, wings=(PlacedJobs,),
        payments=payments, now=clock.moment(),
    )  # fmt: skip
    made(participant)
    engine = SiteEngine(
        journal, participant, moment=clock.moment,
        deliver=lambda sends: None, set_out=lambda errands, relays: None,
        provision=lambda provisions, still_ours: None, alarmed=lambda text: None,
        reported=lambda about, text: None, failed=failed,
    )  # fmt: skip
    notifier = Notifier(
        None, now_s=lambda: clock.wall_s, chance=lambda: 0.0, reported=lambda about, text: None,
        logger=get_logger(role="site", name="lab"),
        metrics=Metrics(role="site", name="lab", version="1"),
    )  # fmt: skip
    service = QueueService(
        {BOX: queue}, JobLedger(engine, participant.wing(PlacedJobs)), moment=clock.moment,
        carry_out=lambda machine, actions: None, moved=lambda machine, numbers: None,
        alarmed=alarmed, reserved={}, reported=reported,
        notices=JobNotices(notifier), broken=lambda machine, error: engine.broken(error),
        over=(),
    )  # fmt: skip
    try:
        yield service
    finally:
        service.close()
        await engine.close()


async def test_a_site_goes_on_when_its_clock_was_set_back_while_it_was_stopped(
    tmp_path: Path,
) -> None:
    queue = BatchQueue(BOX, TERMS, STORED_S)
    clock = Clock(STORED_S - 3_600)
    async with queues_of_a_site(tmp_path / "lab.sqlite", clock, queue) as service:
        service.begin()
        clock.pass_s(5)
        service.step(BOX, lambda queue, now: queue.submit(Principal("ann"), JOB, "", now))
        assert queue.job(1).on_nodes
        assert queue.last_s == STORED_S, "time stands still until the clock has caught up"


async def test_time_goes_on_by_itself_after_a_clock_was_set_a_little_back(tmp_path: Path) -> None:
    queue = BatchQueue(BOX, TERMS, STORED_S)
    clock = Clock(STORED_S)
    async with queues_of_a_site(tmp_path / "lab.sqlite", clock, queue) as service:
        service.begin()
        later = JobRequest(machine=BOX, limit_s=60, command=("true",), not_before=STORED_S + 30)
        service.step(BOX, lambda queue, now: queue.submit(Principal("ann"), later, "", now))
        clock.pass_s(20)
        service.claims_moved([(BOX, 1)])
        clock.wall_s -= 40
        service.claims_moved([(BOX, 1)])
        clock.pass_s(60)
        service.step(BOX, lambda queue, now: queue.advance(now))
        assert queue.job(1).on_nodes


async def test_a_machine_moves_to_another_host_in_the_same_write_in_which_its_jobs_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash in between would lose those that run again a second time, or look for the first here."""
    queue, clock, stored = BatchQueue(BOX, TERMS, STORED_S), Clock(STORED_S), list[list[object]]()
    queue.submit(Principal("ann"), JOB, "the-key-1", STORED_S)
    store = JobLedger.store_jobs

    def noted(self: JobLedger, operations: Any, durable: Any, charged: Any) -> None:
        stored.append([*operations])
        store(self, operations, durable, charged)

    monkeypatch.setattr(JobLedger, "store_jobs", noted)
    host = StoredHost(BOX, "2b", "there")
    async with queues_of_a_site(tmp_path / "lab.sqlite", clock, queue) as service:
        queue.take_effects()
        service.begin({BOX: (lambda queue, now: queue.lose_host("it was lost", now), host)})
    (written,) = [each for each in stored if host in each]
    (entries,) = [each.entries for each in written if isinstance(each, JobEntries)]
    assert [type(each.fact) for each in entries] == [JobEnded]
    with SiteStore.open(tmp_path / "lab.sqlite", "lab").file.connection as connection:
        assert SqliteJobJournal(connection).hosts() == [host]


async def test_a_queue_follows_a_jump_that_its_site_believes(tmp_path: Path) -> None:
    """Else its jobs would run on nodes whose reservations have begun by everybody else's clock."""
    queue, clock = BatchQueue(BOX, TERMS, STORED_S), Clock(STORED_S)
    async with queues_of_a_site(tmp_path / "lab.sqlite", clock, queue) as service:
        service.begin()
        later = JobRequest(machine=BOX, limit_s=60, command=("true",), not_before=STORED_S + 7_000)
        service.step(BOX, lambda queue, now: queue.submit(Principal("ann"), later, "", now))
        clock.wall_s += 7_200
        service.step(BOX, lambda queue, now: queue.advance(now))
        assert queue.job(1).on_nodes


async def test_after_a_restart_no_reservation_gets_the_nodes_of_promised_starts(
    tmp_path: Path,
) -> None:
    queue = BatchQueue(BOX, Terms(machine="pool:4", policy="conservative"), STORED_S)
    until_s = STORED_S + 3_600
    claim = NodeClaim(7, STORED_S, until_s, 4, "a reservation", "bob")
    queue.claims_changed((), [claim], STORED_S)
    queue.submit(Principal("ann"), JOB, "", STORED_S)
    queue.take_effects()
    made: list[Participant] = []

    def reserved(participant: Participant) -> None:
        made.append(participant)
        participant.book.calendars[BOX].calendar.book(
            booking(
                claim.booking, claim.start, claim.end, units=claim.nodes, state="locked",
                holder=claim.user, reservation=claim.reservation,
            )
        )  # fmt: skip

    path = tmp_path / "lab.sqlite"
    async with queues_of_a_site(path, Clock(STORED_S), queue, made=reserved) as service:
        service.begin()
        assert queue.flow.claims() == {claim.booking: claim}
        planned = made[0].room.planned
        assert planned.units(BOX, until_s, until_s + JOB.limit_s) == JOB.nodes


async def test_what_the_owner_has_taken_back_the_queue_leaves_free_and_nobody_is_charged_for_it(
    tmp_path: Path,
) -> None:
    queue, clock, made = BatchQueue(BOX, TERMS, STORED_S), Clock(STORED_S), list[Participant]()
    path = tmp_path / "lab.sqlite"
    async with queues_of_a_site(path, clock, queue, made=made.append) as service:
        service.begin()
        (site,) = made
        body = owner_calls.Reclaim(
            key="two-nodes", resource=BOX, start=STORED_S + 60, end=STORED_S + 3_660, units=2
        )
        site.wing(ReclaimReminders).reclaim(body, clock.moment())
        service.claims_moved(site.book.take_moved())
        (claim,) = queue.flow.claims().values()
        assert (claim.nodes, claim.reservation, claim.user) == (2, "", "")
        ann, large, small = Principal("ann"), JOB, structs.replace(JOB, nodes=2)
        for key in ("first", "second"):
            service.step(BOX, lambda queue, now, key=key: queue.submit(ann, large, key, now))
        assert queue.job(1).on_nodes, "it is over when the owner's time begins"
        clock.pass_s(600)
        service.step(BOX, lambda queue, now: queue.submit(ann, small, "third", now))
        assert not queue.job(2).on_nodes
        assert service._reserved[BOX]._open == {}
        site.wing(ReclaimReminders).end("two-nodes", clock.moment())
        service.claims_moved(site.book.take_moved())
        assert queue.flow.claims() == {}


@pytest.mark.parametrize(("ahead_s", "told"), [(0, False), (60, False), (864_000, True)])
async def test_an_operator_is_told_of_a_queue_that_is_far_ahead_of_the_clock(
    tmp_path: Path, ahead_s: int, told: bool
) -> None:
    told_of: list[tuple[str, str]] = []
    queue, clock = BatchQueue(BOX, TERMS, STORED_S), Clock(STORED_S - ahead_s)
    async with queues_of_a_site(
        tmp_path / "lab.sqlite", clock, queue, reported=lambda *told: told_of.append(told)
    ) as service:
        service.begin()
    assert [BOX in text and "10d" in text for _, text in told_of] == [True] * told


async def test_an_operator_hears_that_the_clock_has_caught_up_with_a_queue(tmp_path: Path) -> None:
    alarms = Alarms(get_logger(role="site", name="lab"), lambda: None)
    queue, clock = BatchQueue(BOX, TERMS, STORED_S), Clock(STORED_S - 7_200)
    async with queues_of_a_site(
        tmp_path / "lab.sqlite", clock, queue, reported=alarms.report
    ) as service:
        service.begin()
        (problem,) = alarms.problems
        assert "2h behind" in problem
        clock.pass_s(7_199)
        service.claims_moved([(BOX, 1)])
        assert alarms.problems == (problem,)
        clock.pass_s(1)
        service.claims_moved([(BOX, 1)])
    assert alarms.problems == ()


class Brittle(Scheduler):
    """Breaks in the midst of a step, when the job with this id is there."""

    breaks_at = 2

    def submit(self, job: Job, now: int) -> list[Job]:
        touched = super().submit(job, now)
        assert job.id != self.breaks_at
        return touched

    def wake(self, now: int) -> list[Job]:
        touched = super().wake(now)
        assert now < STORED_S + 30
        return touched


async def test_a_step_that_breaks_ends_this_life_and_nothing_of_it_is_stored(
    tmp_path: Path,
) -> None:
    queue, clock = BatchQueue(BOX, TERMS, STORED_S, scheduler_type=Brittle), Clock(STORED_S)
    failures: list[StoreFailed] = []
    path = tmp_path / "lab.sqlite"
    async with queues_of_a_site(path, clock, queue, failed=failures.append) as service:
        service.begin()
        service.step(BOX, lambda queue, now: queue.submit(Principal("ann"), JOB, "1", now))
        with pytest.raises(Unavailable):
            service.step(BOX, lambda queue, now: queue.submit(Principal("ann"), JOB, "2", now))
        (failure,) = failures
        assert isinstance(failure.__cause__, QueueBroken)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        entries = list(SqliteJobJournal(connection).entries_after(BOX, 0))
    again = BatchQueue(BOX, TERMS, STORED_S, entries)
    assert [job.number for job in again.flow.table] == [1]


async def test_a_refusal_changes_nothing_and_ends_nothing(tmp_path: Path) -> None:
    queue, clock = BatchQueue(BOX, TERMS, STORED_S), Clock(STORED_S)
    failures: list[StoreFailed] = []
    async with queues_of_a_site(
        tmp_path / "lab.sqlite", clock, queue, failed=failures.append
    ) as service:
        service.begin()
        with pytest.raises(NotFound):
            service.step(BOX, lambda queue, now: queue.cancel(7, "", now))
        service.step(BOX, lambda queue, now: queue.submit(Principal("ann"), JOB, "1", now))
        assert not failures


async def test_time_that_breaks_a_queue_ends_this_life_and_not_the_timer(tmp_path: Path) -> None:
    queue, clock = BatchQueue(BOX, TERMS, STORED_S, scheduler_type=Brittle), Clock(STORED_S)
    failures: list[StoreFailed] = []
    over = asyncio.Event()

    def failed(failure: StoreFailed) -> None:
        failures.append(failure)
        over.set()

    async with queues_of_a_site(tmp_path / "lab.sqlite", clock, queue, failed=failed) as service:
        service.begin()
        later = JobRequest(machine=BOX, limit_s=60, command=("true",), not_before=STORED_S + 30)
        service.step(BOX, lambda queue, now: queue.submit(Principal("ann"), later, "", now))
        clock.pass_s(30)
        # This sets the timer anew, which is due by now.
        service.step(BOX, lambda queue, now: queue.hold(1, "user", now))
        await asyncio.wait_for(over.wait(), 60)
        assert isinstance(failures[0].__cause__, QueueBroken)
