"""Moldable and malleable jobs on machines whose mapper names nodes: sizes are chosen, none is changed."""

from __future__ import annotations

from kalends.machines.spec import machine_from
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.moldable.moldable import Adaptive, Lazy
from kalends.scheduling.policies.moldable.reconfigurable import Reconfigurable
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.kernel import replay
from kalends.simulation.malleable import Course, MalleableJob

COURSE = Course(sizes=(2, 4, 8), solution_s=(400, 200, 100), iterations=100, reconfiguration_s=10)


def malleable_job(number: int, submit_s: int) -> MalleableJob:
    return MalleableJob(number, submit_s, 2, 400, molds=COURSE.molds(malleable=True), course=COURSE)


def test_on_a_mapped_machine_all_three_policies_run_and_nothing_is_resized() -> None:
    for policy in (Lazy, Adaptive, Reconfigurable):
        jobs = [malleable_job(number, 3 * number) for number in range(6)]
        ended = list(replay(jobs, Scheduler(policy(MappedCluster(machine_from("pool:8"))))))
        assert len(ended) == 6
        assert all(each.changes == 0 for each in jobs)
