"""What results say of jobs that were stopped on their way, or that changed their size."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest

import kalends
from kalends.scheduling import Cluster, Job
from kalends.simulation.job import SimulatedJob
from kalends.simulation.malleable import Course, MalleableJob
from kalends.simulation.schedule import Schedule
from kalends.simulation.workloads.swf import ResultWriter

COURSE = Course((2, 4, 8), (800, 400, 200), iterations=10)


def rigid() -> SimulatedJob:
    return SimulatedJob(id=1, submit_s=0, nodes=4, requested_s=100, run_s=50)


def malleable(number: int, submit_s: int, priority: int = 0) -> MalleableJob:
    return MalleableJob(
        id=number,
        submit_s=submit_s,
        nodes=8,
        requested_s=200,
        priority=priority,
        molds=COURSE.molds(malleable=True),
        course=COURSE,
    )


@pytest.mark.parametrize("machine", ["", "pool:4", "grid:4"])
def test_a_stopped_job_is_written_with_the_time_it_requested_at_first(machine: str) -> None:
    urgent = SimulatedJob(id=2, submit_s=10, nodes=4, requested_s=10, run_s=10, priority=5)
    again = SimulatedJob(id=3, submit_s=40, nodes=4, requested_s=10, run_s=10, priority=5)
    stream, schedule = io.StringIO(), Schedule()
    writer = ResultWriter(stream, {})
    kalends.simulate(
        [rigid(), urgent, again],
        policy="preemptive",
        nodes=4,
        machine=machine,
        watchers=[writer.add, schedule.add],
    )
    writer.close()
    lines = [line.split() for line in stream.getvalue().splitlines() if line[0] != ";"]
    assert [line[8] for line in lines] == ["100", "10", "10"]
    assert [schedule.requested[index] for index in schedule.by_submission()] == [100, 10, 10]
    assert list(schedule.stretches())[-3:] == [(2, 0, 10, 4), (2, 20, 40, 4), (2, 50, 70, 4)]


def test_utilization_counts_the_nodes_that_a_malleable_job_had_at_each_time() -> None:
    held: list[int] = []
    result = kalends.simulate(
        [malleable(1, 0), malleable(2, 50), malleable(3, 60)],
        policy="reconfigurable",
        nodes=8,
        watchers=[lambda job: held.append(job.node_seconds())],
    )
    assert result.utilization == sum(held) / (8 * result.makespan_s)
    assert result.utilization <= 1


def test_a_malleable_job_tells_when_it_did_not_run() -> None:
    schedule = Schedule()
    urgent = SimulatedJob(id=2, submit_s=10, nodes=8, requested_s=10, run_s=10, priority=5)
    result = kalends.simulate(
        [malleable(1, 0), urgent], policy="preemptive", nodes=8, watchers=[schedule.add]
    )
    assert list(schedule.stretches()) == [(0, 10, 20, 8), (1, 0, 10, 8), (1, 20, 210, 8)]
    assert result.utilization == 1


class Fickle:
    """Starts a job and thinks better of it, in the same pass; a second later it means it."""

    wakes = True

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.queue: list[Job] = []

    def submitted(self, job: Job, now: int) -> None:
        self.queue.append(job)

    def ended(self, job: Job, now: int) -> None:
        """Nothing to note."""

    def withdrawn(self, job: Job, now: int) -> None:
        self.queue.remove(job)

    def schedule(self, now: int) -> None:
        for job in list(self.queue):
            if self.cluster.start(job, now):
                if now == job.submit_s:
                    self.cluster.stop(job, now)
                else:
                    self.queue.remove(job)

    def waiting(self) -> Iterator[Job]:
        return iter(self.queue)

    def wake_at(self, now: int) -> int | None:
        return now + 1 if self.queue else None


@pytest.mark.parametrize("make", [rigid, lambda: malleable(1, 0)])
def test_a_job_that_is_started_and_stopped_in_one_pass_has_run_for_no_time(
    make: Callable[[], SimulatedJob],
) -> None:
    job = make()
    schedule = Schedule()
    kalends.simulate(iter([job]), policy=Fickle, nodes=8, watchers=[schedule.add])
    run_s = 200 if isinstance(job, MalleableJob) else 50
    assert list(schedule.stretches()) == [(0, 1, 1 + run_s, job.nodes)]
    assert job.pauses == ((0, 1),)
    assert job.node_seconds() == run_s * job.nodes
