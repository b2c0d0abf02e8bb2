"""Starts that a batch system foresees, with the jobs before it that it does not know yet."""

from __future__ import annotations

import pytest

from kalends.batch.queue import facts as f
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import NotFound
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.jobs.starts_elsewhere import StartsElsewhere

NOW = 1_000_000
IDLE, FULL_UNTIL = 2, NOW + 600


class TwoIdleNodes:
    """A system of four nodes, of which two are idle and two have a job; it knows no offers."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.ends: BatchQueue | None = None

    def unknown_there(self, machine: str, job: BatchJob) -> bool:
        return job.offered

    async def foreseen_there(self, machine: str, job: BatchJob, nodes: int, wait_s: float) -> int:
        self.asked.append(nodes)
        if self.ends is not None:
            self.ends.cancel(job.number, "gone", NOW)
        return NOW - 5 if nodes <= IDLE else FULL_UNTIL


@pytest.fixture
def queue() -> BatchQueue:
    return BatchQueue("lab/far", f.Terms(machine="pool:4", policy="easy", handed_to="slurm"), NOW)


def offer(queue: BatchQueue, nodes: int, limit_s: int = 100) -> int:
    job = JobRequest(machine="lab/far", nodes=nodes, limit_s=limit_s, command=("/bin/true",))
    key = f"place {queue.next_number} x"
    return PlaceOffers(queue).offer(Principal("ann"), job, key, 10, NOW)


async def start(queue: BatchQueue, number: int, system: TwoIdleNodes) -> int:
    return await StartsElsewhere(system).start_of(queue, number, NOW)


async def test_an_offered_job_goes_nowhere_before_it_is_taken(queue: BatchQueue) -> None:
    number = offer(queue, 1)
    assert not queue.take_effects().actions
    PlaceOffers(queue).take(number, NOW)
    assert len(queue.take_effects().actions) == 1


async def test_what_is_idle_is_offered_from_now_on(queue: BatchQueue) -> None:
    assert await start(queue, offer(queue, 2), TwoIdleNodes()) == NOW


async def test_bids_that_are_not_decided_are_not_offered_the_same_nodes(queue: BatchQueue) -> None:
    system = TwoIdleNodes()
    first, second = offer(queue, 2), offer(queue, 2)
    assert await start(queue, first, system) == NOW
    assert await start(queue, second, system) == FULL_UNTIL
    assert system.asked == [2, 4]
    PlaceOffers(queue).take(first, NOW)
    queue.cancel(first, "done", NOW)
    assert await start(queue, second, system) == NOW


async def test_where_not_all_of_them_have_nodes_at_once_their_work_comes_first(
    queue: BatchQueue,
) -> None:
    offer(queue, 4, limit_s=400)
    assert await start(queue, offer(queue, 1), TwoIdleNodes()) == FULL_UNTIL + 400 + 400


async def test_a_job_that_has_ended_meanwhile_has_no_start(queue: BatchQueue) -> None:
    system = TwoIdleNodes()
    system.ends = queue
    with pytest.raises(NotFound):
        await start(queue, offer(queue, 1), system)
