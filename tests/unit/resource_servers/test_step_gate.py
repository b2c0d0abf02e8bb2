"""The gate before the runners for parts of jobs in step: none starts before all have their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace
from tests.reserved_room import ANN, RESERVED, Room

from kalends.batch.queue.effects import Action, Kill, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Moment
from kalends.core.steps import StepPart, key_of_part
from kalends.resource_servers.jobs.step_gate import (
    ASKS,
    MISSED,
    MOVED,
    OVER,
    STARTS,
    WAIT_S,
    WAITS,
    StepGate,
    request_of,
)
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.service import SiteEngine

BOX: Final = "lab/box"
HERE: Final = ("box.lab.example",)
OTHER: Final = StepPart("ctc/sp2", 3, ("sp2.ctc.edu",))


class Timers:
    """The timers of the running loop, which go off when a test says so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.waiting: list[tuple[float, asyncio.TimerHandle]] = []
        patch.setattr(asyncio.get_running_loop(), "call_later", self._later)

    def _later(self, delay_s: float, call: Any, *arguments: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(0, call, arguments, asyncio.get_running_loop())
        self.waiting.append((delay_s, handle))
        return handle

    @property
    def delays(self) -> list[float]:
        return [delay_s for delay_s, handle in self.waiting if not handle.cancelled()]

    async def pass_(self, delay_s: float) -> None:
        """Let the timers of this delay go off."""
        due = [each for each in self.waiting if each[0] == delay_s and not each[1].cancelled()]
        assert due, f"no timer of {delay_s} s among {self.delays}"
        self.waiting = [each for each in self.waiting if each not in due]
        for _, handle in due:
            handle._run()
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Bench(Room):
    """A reserved part that has its nodes, and the gate behind its queue."""

    def __init__(self, timers: Timers, **fields: Any) -> None:
        super().__init__()
        self.timers = timers
        self.passed: list[Action] = []
        self.asked: list[tuple[str, tuple[StepPart, ...]]] = []
        self.gave_up: list[str] = []
        self.hosts = HERE
        self.refusal: Exception | None = None
        self.gate = StepGate(
            cast(SiteEngine, self),
            cast(StartQuestions, Asked(self)),
            {BOX: self.queue},
            lambda machine, actions: self.passed.extend(actions),
            self._hosts,
            self._report,
        )
        self.part = self.submit(key=key_of_part(RESERVED), nodes=3, limit_s=0, **fields)
        self.queue.advance(2_000)
        self.now = 2_000

    def apply(self, step: Any) -> None:
        step(None, Moment(0, self.now * 1_000))

    def _hosts(self, machine: str, start: Start) -> tuple[str, ...]:
        if self.refusal is not None:
            raise self.refusal
        return self.hosts

    def _report(self, machine: str, step: Callable[[BatchQueue, int], None]) -> None:
        step(self.queue, self.now)
        self.carry_out()

    def carry_out(self) -> None:
        self.gate.carry_out(BOX, self.settle())

    async def come(self) -> StepPart:
        """Let the part get its nodes; return what the others are told of it."""
        self.carry_out()
        await settled()
        return StepPart(BOX, self.part, self.hosts)

    async def hear(
        self, *parts: StepPart, rid: str = RESERVED, says: Any = "start", in_ms: int = 0
    ) -> None:
        """Hear what the broker says; a start of now is at once."""
        self.gate.said([StartWord(rid, says, "", parts, in_ms)])
        await settled()
        if says == "start" and not in_ms and 0.0 in self.timers.delays:
            await self.timers.pass_(0.0)

    @property
    def started(self) -> list[dict[str, str]]:
        return [dict(each.said) for each in self.passed if isinstance(each, Start)]


class Asked:
    """What the gate asks the broker for, by the site of a bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def ask(self, rid: str, now: Moment, parts: tuple[StepPart, ...], *, gives_up: bool) -> None:
        if gives_up:
            self.bench.gave_up.append(rid)
        else:
            self.bench.asked.append((rid, parts))


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    return Timers(monkeypatch)


@pytest.fixture
async def bench(timers: Timers) -> Bench:
    return Bench(timers)


async def test_a_part_starts_when_all_have_come_and_knows_where_they_are(bench: Bench) -> None:
    here = await bench.come()
    assert (bench.started, len(bench.asked)) == ([], 1)
    assert bench.gate.words(BOX, bench.queue.job(bench.part)) == WAITS
    await bench.hear(here, OTHER, rid="another")
    assert bench.started == []
    await bench.hear(OTHER, here)
    addresses = f"ctc/sp2=sp2.ctc.edu {BOX}=box.lab.example"
    assert bench.started == [{"KALENDS_PARTS": addresses, "KALENDS_PART": "1"}]
    await bench.hear(OTHER, here)
    assert len(bench.started) == 1
    assert bench.gate.words(BOX, bench.queue.job(bench.part)) == ""


async def test_other_jobs_of_the_reservation_do_not_wait(bench: Bench) -> None:
    await bench.come()
    bench.submit(ANN, reservation="", nodes=1)
    bench.carry_out()
    assert len(bench.started) == 1


@pytest.mark.parametrize(("said_s", "told"), [(0, "2m"), (300, "5m")])
async def test_a_part_that_has_waited_long_enough_keeps_its_nodes_until_its_broker_answers(
    said_s: int, told: str, timers: Timers
) -> None:
    bench = Bench(timers, parts_wait_s=said_s)
    await bench.come()
    job = bench.queue.job(bench.part)
    await timers.pass_(said_s or WAIT_S)
    assert bench.gave_up == [RESERVED]
    assert (job.phase, bench.gate.words(BOX, job)) == ("starting", ASKS)
    await bench.hear(says="over")
    assert (job.phase, job.kill_detail, bench.passed) == ("withdrawn", MISSED.format(told), [])


async def test_a_part_that_asks_to_give_up_when_all_are_to_start_starts_with_them(
    bench: Bench, timers: Timers
) -> None:
    here = await bench.come()
    await timers.pass_(WAIT_S)
    await bench.hear(here, OTHER)
    assert len(bench.started) == 1


async def test_all_start_at_the_moment_that_they_were_told_first(
    bench: Bench, timers: Timers
) -> None:
    here = await bench.come()
    await bench.hear(here, OTHER, in_ms=3_000)
    await bench.hear(here, OTHER, in_ms=2_500)
    assert (bench.started, timers.delays) == ([], [1_000, 3.0])
    assert bench.gate.words(BOX, bench.queue.job(bench.part)) == STARTS
    await timers.pass_(3.0)
    assert (len(bench.started), timers.delays) == (1, [])


async def test_a_part_is_ended_at_the_end_of_its_slot_whatever_its_broker_says(
    bench: Bench, timers: Timers
) -> None:
    await bench.come()
    job = bench.queue.job(bench.part)
    await timers.pass_(WAIT_S)
    bench.change(replace(bench.slot, booking=8, end=4_000))
    bench.now = 3_000
    await timers.pass_(1_000)
    assert (job.phase, timers.delays) == ("starting", [1_000]), "its slot is longer by now"
    bench.now = 4_000
    await timers.pass_(1_000)
    assert (job.phase, bench.passed) == ("withdrawn", [])


async def test_a_part_that_is_killed_while_it_waits_ends_once_it_is_known_that_none_starts(
    bench: Bench,
) -> None:
    here = await bench.come()
    job = bench.queue.job(bench.part)
    bench.queue.cancel(bench.part, "enough", bench.now)
    bench.carry_out()
    await settled()
    assert (job.phase, bench.gave_up) == ("ending", [RESERVED])
    await bench.hear(says="over")
    assert (job.phase, job.kill_detail, bench.passed) == ("withdrawn", "enough", [])
    await bench.hear(here, OTHER)
    assert bench.passed == []


async def test_a_part_that_is_killed_when_all_are_to_start_starts_with_them_and_ends(
    bench: Bench,
) -> None:
    here = await bench.come()
    bench.queue.cancel(bench.part, "enough", bench.now)
    bench.carry_out()
    await settled()
    await bench.hear(here, OTHER)
    assert [type(each) for each in bench.passed] == [Start, Kill]


async def test_a_part_whose_reservation_is_cancelled_while_it_waits_asks_nobody(
    bench: Bench,
) -> None:
    await bench.come()
    job = bench.queue.job(bench.part)
    bench.gate.carry_out(BOX, bench.cancel())
    await settled()
    assert (job.phase, bench.gave_up, bench.passed) == ("withdrawn", [], [])


async def test_a_part_of_which_the_others_know_other_nodes_does_not_start(bench: Bench) -> None:
    await bench.come()
    job = bench.queue.job(bench.part)
    await bench.hear(StepPart(BOX, bench.part, ("gone.lab.example",)), OTHER)
    assert (job.phase, job.kill_detail, bench.passed) == ("withdrawn", MOVED, [])


async def test_a_part_without_a_way_to_its_nodes_ends_and_nobody_waits_for_it(bench: Bench) -> None:
    bench.refusal = InvalidInput("the batch system has no such reservation")
    await bench.come()
    assert (bench.asked, bench.passed) == ([], [])
    assert bench.part not in bench.queue.flow.table.jobs
    assert not bench.queue.flow.table.past[bench.part].succeeded


async def test_what_is_cancelled_ends_where_it_waits(bench: Bench) -> None:
    await bench.come()
    job = bench.queue.job(bench.part)
    await bench.hear(says="over")
    assert (job.phase, job.kill_detail, bench.passed) == ("withdrawn", OVER, [])


async def test_a_part_is_of_the_request_that_has_changed_its_reservation_last(bench: Bench) -> None:
    job = bench.queue.job(bench.part)
    assert request_of(bench.queue, job) == RESERVED
    bench.change(replace(bench.slot, booking=8, request="the-move"))
    assert request_of(bench.queue, job) == "the-move"
    bench.cancel()
    assert request_of(bench.queue, job) == ""


async def test_a_part_whose_reservation_is_changed_while_it_waits_asks_for_what_it_is_now(
    bench: Bench,
) -> None:
    here = await bench.come()
    bench.change(replace(bench.slot, booking=8, end=4_000, request="the-longer-one"))
    await bench.hear(says="over")
    assert len(bench.asked) == 2
    await bench.hear(here, OTHER)
    assert bench.started == []
    await bench.hear(here, OTHER, rid="the-longer-one")
    assert len(bench.started) == 1
