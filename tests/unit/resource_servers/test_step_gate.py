"""The gate before the runners for parts of jobs in step: none starts before all have their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace
from tests.reserved_room import ANN, RESERVED, Room

from kalends.batch.queue.effects import Action, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import InvalidInput
from kalends.core.steps import StepPart, key_of_part
from kalends.resource_servers.jobs.step_gate import (
    MISSED,
    MOVED,
    WAIT_S,
    WAITS,
    StepGate,
    request_of,
)
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.service import SiteEngine

BOX: Final = "lab/box"
HERE: Final = ("box.lab.example",)
OTHER: Final = StepPart("ctc/sp2", 3, ("sp2.ctc.edu",))


class Bench(Room):
    """A reserved part that has its nodes, and the gate behind its queue."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.passed: list[Action] = []
        self.asked: list[Any] = []
        self.hosts = HERE
        self.refusal: Exception | None = None
        self.gate = StepGate(
            cast(SiteEngine, self),
            {BOX: self.queue},
            lambda machine, actions: self.passed.extend(actions),
            self._hosts,
            self._report,
        )
        self.part = self.submit(key=key_of_part(RESERVED), nodes=3, limit_s=0, **fields)
        self.queue.advance(2_000)
        self.now = 2_000

    def apply(self, step: Any) -> None:
        self.asked.append(step)

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
        await asyncio.sleep(0)
        return StepPart(BOX, self.part, self.hosts)

    async def hear(self, *parts: StepPart, rid: str = RESERVED, says: Any = "start") -> None:
        self.gate.said([StartWord(rid, says, "", parts)])
        await asyncio.sleep(0)

    @property
    def started(self) -> list[dict[str, str]]:
        return [dict(each.said) for each in self.passed if isinstance(each, Start)]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


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
async def test_a_part_for_which_the_others_do_not_come_is_ended_and_never_was(
    said_s: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(parts_wait_s=said_s)
    timers: dict[float, Callable[[], None]] = {}

    def later(delay_s: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
        timers[delay_s] = lambda: callback(*args)
        return asyncio.TimerHandle(0, callback, args, asyncio.get_running_loop())

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", later)
    here = await bench.come()
    job = bench.queue.job(bench.part)
    timers[said_s or WAIT_S]()
    await asyncio.sleep(0)
    why = MISSED.format(told)
    assert (job.phase, job.kill_detail, bench.passed) == ("withdrawn", why, [])
    await bench.hear(here, OTHER)
    assert bench.passed == []


async def test_a_part_that_is_killed_while_it_waits_never_was(bench: Bench) -> None:
    here = await bench.come()
    job = bench.queue.job(bench.part)
    bench.queue.cancel(bench.part, "enough", bench.now)
    bench.carry_out()
    await asyncio.sleep(0)
    assert (job.phase, bench.passed) == ("withdrawn", [])
    await bench.hear(here, OTHER)
    assert bench.passed == []


async def test_a_part_of_which_the_others_know_other_nodes_does_not_start(bench: Bench) -> None:
    await bench.come()
    job = bench.queue.job(bench.part)
    await bench.hear(StepPart(BOX, bench.part, ("gone.lab.example",)), OTHER)
    await asyncio.sleep(0)
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
    await asyncio.sleep(0)
    assert (job.phase, bench.passed) == ("withdrawn", [])


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
