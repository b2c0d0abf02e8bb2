"""What every policy in the registry keeps to, whoever wrote it: also those that come later."""

from __future__ import annotations

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from tests import effort
from tests.policy_logs import Recording, SmallLog, crowded_log

from kalends.core.errors import Conflict
from kalends.scheduling import Cluster, Job, Reservation, Scheduler, policy_maker
from kalends.scheduling.registry import POLICIES, PolicyInfo
from kalends.simulation.kernel import replay

ROOT = Path(__file__).parents[3]


def writings(info: PolicyInfo) -> list[str]:
    """The policy as a user may write it."""
    if not info.number:
        return [info.name]
    plain = [info.name] if info.optional else []
    return [*plain, *(f"{info.name}:{number}" for number in (0, 1, 5, 200))]


ALL = [text for info in POLICIES for text in writings(info)]
every_policy = pytest.mark.parametrize("policy", ALL)


class Checked(Recording):
    """A scheduler that checks the cluster after every pass, at the time of the pass."""

    def passed(self, touched: list[Job], now: int) -> list[Job]:
        cluster = self.cluster
        running = [job for _, _, job in cluster.ends]
        assert cluster.ends == sorted(cluster.ends)
        assert cluster.free == cluster.nodes - sum(job.granted for job in running)
        waiting = list(self.policy.waiting())
        assert len(waiting) == self.waiting
        assert [job.order for job in waiting] == sorted(job.order for job in waiting)
        assert not {job.order for job in waiting} & {job.order for job in running}
        borders = {now, *(start.start_s for start in cluster.reservations if start.start_s > now)}
        for time_s in borders:
            taken = sum(job.granted for job in running if job.until_s > time_s)
            reserved = cluster.reservations.nodes_at(time_s)
            assert taken + reserved <= cluster.nodes, f"too many nodes at {time_s}"
        for job in touched:
            assert job.submit_s <= now
            assert job.start_s <= now
        return touched


@every_policy
def test_capacity_and_reservations_are_kept_and_every_job_runs_for_its_time(policy: str) -> None:
    for seed in range(effort.examples(60)):
        log = crowded_log(seed)
        jobs = log.simulated()
        scheduler = Checked(policy_maker(policy)(log.cluster()))
        ended = list(replay(jobs, scheduler))
        assert sorted(job.order for job in ended) == list(range(len(jobs)))
        assert [job.order for job in jobs] == list(range(len(jobs)))
        for job, (submit_s, nodes, _, run_s, _) in zip(jobs, log.jobs, strict=True):
            assert submit_s <= job.start_s
            assert job.end_s - job.start_s >= run_s
            assert (job.nodes, job.granted) == (nodes, 0)
        assert scheduler.cluster.free == log.nodes
        assert scheduler.waiting == 0


@every_policy
def test_a_job_that_could_run_is_never_kept_waiting_by_an_empty_cluster(policy: str) -> None:
    for seed in range(1, effort.examples(60), 3):
        log = crowded_log(seed)
        scheduler = Scheduler(policy_maker(policy)(log.cluster()))
        for job in replay(log.simulated(), scheduler):
            assert scheduler.cluster.ends or not scheduler.waiting, f"after job {job.id}"


@every_policy
def test_a_waiting_job_can_be_withdrawn_and_the_others_do_as_if_it_had_not_been(
    policy: str,
) -> None:
    cluster = Cluster(4)
    scheduler = Scheduler(policy_maker(policy)(cluster))
    first = Job(id=1, submit_s=0, nodes=4, requested_s=10)
    second = Job(id=2, submit_s=0, nodes=4, requested_s=10)
    third = Job(id=3, submit_s=0, nodes=4, requested_s=10)
    for job in (first, second, third):
        scheduler.submit(job, 0)
    assert list(scheduler.policy.waiting()) == [second, third]
    assert not scheduler.withdraw(second, 1)
    assert (scheduler.waiting, list(scheduler.policy.waiting())) == (1, [third])
    with pytest.raises(Conflict, match="does not wait"):
        scheduler.withdraw(first, 1)
    assert list(scheduler.end(first, 4)) == [third]
    assert third.start_s == 4
    assert scheduler.waiting == 0


@every_policy
def test_withdrawing_who_does_not_wait_is_a_conflict_and_changes_nothing(policy: str) -> None:
    cluster = Cluster(4)
    scheduler = Scheduler(policy_maker(policy)(cluster))
    running, waiting, gone, over, stranger = (
        Job(id=number, submit_s=0, nodes=4, requested_s=10) for number in range(5)
    )
    scheduler.submit(over, 0)
    scheduler.end(over, 1)
    for job in (running, waiting, gone):
        scheduler.submit(job, 1)
    scheduler.withdraw(gone, 2)
    before = deepcopy((scheduler.waiting, list(scheduler.policy.waiting()), cluster.ends))
    for job in (running, gone, over, stranger):
        with pytest.raises(Conflict, match=f"job {job.id} does not wait"):
            scheduler.withdraw(job, 3)
        after = (scheduler.waiting, list(scheduler.policy.waiting()), cluster.ends)
        assert str(after) == str(before)
    assert scheduler.end(running, 4) == [waiting]
    assert (waiting.start_s, scheduler.waiting, gone.start_s) == (4, 0, -1)


@every_policy
def test_withdrawing_who_is_in_the_way_lets_the_others_start_at_once(policy: str) -> None:
    """A reservation blocks the wide job; when it goes, nothing else ends to wake the policy."""
    cluster = Cluster(4, [Reservation(100, 200, 4)])
    scheduler = Scheduler(policy_maker(policy)(cluster))
    wide = Job(id=1, submit_s=0, nodes=4, requested_s=150, priority=9)
    scheduler.submit(wide, 0)
    assert wide.start_s == -1
    narrow = Job(id=2, submit_s=1, nodes=1, requested_s=20)
    scheduler.submit(narrow, 1)
    scheduler.withdraw(wide, 2)
    assert 1 <= narrow.start_s <= 2


@every_policy
def test_a_job_starts_when_a_reservation_ends_though_others_are_submitted_then(policy: str) -> None:
    log = SmallLog(2, ((0, 2, 5, 5, 0), (10, 2, 5, 5, 0)), ((3, 10, 2),))
    ended = list(replay(log.simulated(), Scheduler(policy_maker(policy)(log.cluster()))))
    assert sorted(job.start_s for job in ended) == [10, 15]


PROGRAM = """
import sys
from tests.policy_logs import crowded_log
from kalends.scheduling import Scheduler, policy_maker
from kalends.simulation.kernel import replay
for policy in sys.argv[1:]:
    for seed in range(12):
        log = crowded_log(seed)
        scheduler = Scheduler(policy_maker(policy)(log.cluster()))
        print(policy, [(job.id, job.start_s, job.end_s) for job in replay(log.simulated(), scheduler)])
"""


def test_the_same_log_gives_the_same_bytes_on_every_hash_seed() -> None:
    def printed(hash_seed: str) -> bytes:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", PROGRAM, *ALL]
        return subprocess.run(command, env=environment, check=True, capture_output=True).stdout

    first = printed("1")
    assert first.count(b"\n") == 12 * len(ALL)
    assert printed("2") == first
