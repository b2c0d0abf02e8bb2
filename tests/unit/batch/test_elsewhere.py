"""Which nodes of a batch system an attempt has, for how long, who may have any, and what is left of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kalends.backends.allocations import Allocation, SystemProgram
from kalends.backends.passage import Passage
from kalends.backends.slurm.adapter import Slurm
from kalends.backends.slurm.allocations import SlurmAllocations
from kalends.batch.elsewhere import Elsewhere, SlotNodes
from kalends.batch.queue.effects import Start
from kalends.batch.queue.job import BatchJob
from kalends.core.errors import InvalidInput, NotAllowed
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

NOW_S = 1_000_000
SLOT = 7
LIFE = "1f0c9a2e17aa"
OURS = "kal.centre/cluster.1f0c9a2e-"
NAMESAKES = "kal.centre/cluster.abcdef01-"
OLDER = "kal.centre/cluster."


def elsewhere(reserved: dict[int, SlotNodes] | None = None) -> Elsewhere:
    return Elsewhere(
        machine="centre/cluster",
        allocator=SlurmAllocations(Slurm("/etc/slurm.conf")),
        users={"ann": "rmiller"},
        nodes=("n1", "n2", "n3", "n4"),
        reserved=None if reserved is None else reserved.get,
        ahead_s=60,
        now_s=lambda: NOW_S,
        first_life=LIFE,
    )


def request(**more: Any) -> JobRequest:
    return JobRequest(machine="centre/cluster", limit_s=600, command=("true",), **more)


def start(number: int, nodes: tuple[int, ...], *, limit_s: int = 600, left_s: int = 3_600) -> Start:
    job = BatchJob(number, Principal(user="ann"), request(), NOW_S, "")
    job.attempt, job.limit_s, job.started_s = 1, limit_s, NOW_S
    job.slot, job.slot_end_s = SLOT, NOW_S + left_s
    return Start(job, 1, nodes)


def asked(words: tuple[str, ...], option: str) -> str:
    (found,) = [each for each in words if each.startswith(f"--{option}=")]
    return found.partition("=")[2]


def test_nodes_that_were_handed_over_are_those_that_the_queue_has_chosen() -> None:
    there = elsewhere()
    way = there.passage(start(17, (1, 3)), "17.1")
    assert asked(way.asks, "job-name") == "kal.centre/cluster.1f0c9a2e-17.1"
    assert asked(way.asks, "nodelist") == "n2,n4"
    # Its limit of ten minutes, ten seconds to end in, a minute more.
    assert asked(way.asks, "time") == "12"
    assert there.names("17.1") == ("n2", "n4")


def test_jobs_of_a_reservation_have_nodes_of_it_and_none_that_another_one_has() -> None:
    there = elsewhere({SLOT: SlotNodes("kal.centre.x-1", ("n2", "n3", "n4"))})
    first = there.passage(start(1, (0,)), "1.1")
    second = there.passage(start(2, (1, 2)), "2.1")
    assert [asked(each.asks, "nodelist") for each in (first, second)] == ["n2", "n3,n4"]
    assert asked(first.asks, "reservation") == "kal.centre.x-1"
    with pytest.raises(InvalidInput, match="0 free nodes"):
        there.passage(start(3, (3,)), "3.1")
    there.forget("1.1")
    assert asked(there.passage(start(3, (3,)), "3.1").asks, "nodelist") == "n2"


def test_an_attempt_that_has_told_others_its_nodes_keeps_them() -> None:
    there = elsewhere({SLOT: SlotNodes("kal.centre.x-1", ("n2", "n3", "n4"))})
    before = there.passage(start(1, (0, 1)), "1.1")
    told = there.names("1.1")
    there.passage(start(2, (2,)), "2.1")
    assert there.passage(start(1, (0, 1)), "1.1") == before
    assert there.names("1.1") == told == ("n2", "n3")


def test_an_allocation_is_over_when_its_slot_is_and_the_program_is_asked_to_end_before() -> None:
    there = elsewhere({SLOT: SlotNodes("kal.centre.x-1", ("n2",))})
    whole = start(1, (0,), limit_s=3_600)
    assert there.limit_s(whole.job, 3_600) == 3_540
    assert there.limit_s(whole.job, 600) == 600
    assert asked(there.passage(whole, "1.1").asks, "time") == "59"
    there.forget("1.1")
    with pytest.raises(InvalidInput, match="57 s of the slot are left"):
        there.passage(start(2, (0,), left_s=60), "2.1")


def test_without_a_reservation_in_the_batch_system_nothing_starts() -> None:
    with pytest.raises(InvalidInput, match="no such reservation"):
        elsewhere({}).passage(start(1, (0,)), "1.1")


def test_only_whom_the_owners_table_names_has_jobs_there() -> None:
    there = elsewhere()
    there.check("ann", request())
    assert there.unix_user("ann") == "rmiller"
    for user in ("rmiller", "root", "eve"):
        with pytest.raises(NotAllowed) as caught:
            there.check(user, request())
        assert [each.code for each in caught.value.refusals] == ["no-account"]


def test_what_a_job_cannot_be_there_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput) as caught:
        elsewhere({}).check("ann", request())
    assert caught.value.where == "reservation"
    for name in ("SLURM_CONF", "SALLOC_PARTITION", "SRUN_X", "LD_PRELOAD"):
        with pytest.raises(InvalidInput) as caught:
            elsewhere().check("ann", request(environment={name: "x"}))
        assert caught.value.where == "environment"


@dataclass
class ProgramsThere:
    """A batch system whose programs end when they are released."""

    names: list[str]
    user: str = "rmiller"
    environment: Mapping[str, str] = field(default_factory=dict)
    own_variables: tuple[str, ...] = ()

    def passage(self, allocation: Allocation) -> Passage:
        return SlurmAllocations(Slurm("/etc/slurm.conf")).passage(allocation)

    async def programs(self) -> list[SystemProgram]:
        return [SystemProgram(name, self.user, ("n1",), "") for name in self.names]

    async def prolong(self, name: str, users: Collection[str], until_s: int) -> None:
        pass

    async def release(self, name: str, users: Collection[str], nodes: Collection[str]) -> None:
        if self.user in users and name in self.names:
            self.names.remove(name)


@contextlib.asynccontextmanager
async def swept(there: Elsewhere, *attempts: str) -> Any:
    """Sweep while these attempts have nodes; the value is what is told of namesakes."""
    told: list[str] = []
    living = {each: start(int(each.partition(".")[0]), (0,)).job for each in attempts}
    sweeping = asyncio.create_task(there.sweep(lambda: living, failed, told.append))
    await asyncio.sleep(0)
    await there.ready(failed)
    try:
        yield told
    finally:
        sweeping.cancel()


def failed(detail: str) -> None:
    raise AssertionError(detail)


async def test_what_no_attempt_has_is_ended_and_a_namesakes_is_left_alone_and_told_of() -> None:
    there = elsewhere()
    system = there.allocator = ProgramsThere([f"{OURS}17.1", f"{OURS}99.1", f"{NAMESAKES}17.1"])
    async with swept(there, "17.1") as told:
        assert system.names == [f"{OURS}17.1", f"{NAMESAKES}17.1"]
        assert f"its store does not list them: {NAMESAKES}17.1;" in told[-1]
        await there.release("17.1", failed)
        assert system.names == [f"{NAMESAKES}17.1"]
        system.names.clear()
        await there.ready(failed)
        assert told[-1] == ""


async def test_names_without_a_life_are_ours_only_where_a_job_of_ours_has_nodes() -> None:
    there = elsewhere()
    system = there.allocator = ProgramsThere([f"{OLDER}17.1", f"{OLDER}99.1"])
    async with swept(there, "17.1") as told:
        assert system.names == [f"{OLDER}17.1", f"{OLDER}99.1"]
        assert f"{OLDER}99.1" in told[-1]
        assert f"{OLDER}17.1" not in told[-1]
        assert there.names("17.1") == ("n1",)
        await there.release("17.1", failed)
        assert system.names == [f"{OLDER}99.1"]


async def test_what_a_job_of_ours_leaves_under_an_older_name_is_ended_and_no_namesakes() -> None:
    there = elsewhere()
    system = there.allocator = ProgramsThere([f"{OLDER}17.1"])
    async with swept(there, "17.1"):
        pass
    async with swept(there) as told:
        assert system.names == []
        assert set(told) == {""}


async def test_an_end_before_the_first_look_releases_what_has_an_older_name() -> None:
    there = elsewhere()
    system = there.allocator = ProgramsThere([f"{OLDER}17.1"])
    releasing = asyncio.create_task(there.release("17.1", failed))
    await asyncio.sleep(0)
    async with swept(there, "17.1"):
        await releasing
    assert system.names == []


async def test_an_older_name_of_a_namesakes_is_not_taken_for_that_of_an_attempt_of_ours() -> None:
    there = elsewhere()
    system = there.allocator = ProgramsThere([f"{OURS}17.1", f"{OLDER}17.1"])
    async with swept(there, "17.1"):
        await there.release("17.1", failed)
    assert system.names == [f"{OLDER}17.1"]


async def test_the_name_of_an_attempt_is_known_before_the_system_has_it() -> None:
    there = elsewhere()
    system = there.allocator = ProgramsThere([f"{OLDER}17.1"])
    there.passage(start(17, (1,)), "17.1")
    async with swept(there, "17.1"):
        await there.release("17.1", failed)
    assert system.names == [f"{OLDER}17.1"]
