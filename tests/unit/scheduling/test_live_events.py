"""What a live queue may tell its scheduler, and what each event does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hostile_policies
import pytest
from tests.live_worlds import ALL, CLUSTERS

from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.scheduling import (
    Cluster,
    Job,
    NodeRequest,
    Policy,
    Reservation,
    Scheduler,
    policy_maker,
)
from kalends.scheduling.job import Moldability
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.backfill.conservative import Conservative
from kalends.scheduling.prediction.frozen import predicted_starts
from kalends.scheduling.prediction.predictor import PredictingScheduler

LEVELS = {"ffdh", "ffih", "ffdh*", "ffih*", "fcfs*", "ivs", "ivs-autonomous"}
"""Policies under which a job may wait for the next level."""
PLANNING = {"conservative", *LEVELS}

every_policy = pytest.mark.parametrize("policy", ALL)
every_cluster = pytest.mark.parametrize("cluster", CLUSTERS)


def live(policy: str = "easy", cluster: str = "counted") -> Scheduler:
    return Scheduler(policy_maker(policy)(CLUSTERS[cluster]()))


def submitted(scheduler: Scheduler, number: int, nodes: int, length_s: int, now: int) -> Job:
    job = Job(number, now, nodes, length_s)
    scheduler.submit(job, now)
    return job


@every_cluster
@every_policy
def test_a_job_that_is_late_keeps_its_nodes_until_its_end_is_told(
    policy: str, cluster: str
) -> None:
    scheduler = live(policy, cluster)
    late = submitted(scheduler, 1, 8, 10, 0)
    length_s = late.until_s
    following = submitted(scheduler, 2, 8, 5, length_s + 3)
    for now in range(length_s + 3, length_s + 40, 7):
        scheduler.wake(now)
        assert following.start_s < 0
        assert late.until_s > now
    assert scheduler.end(late, length_s + 40) == [following]


def test_a_late_job_is_expected_to_end_later_by_steps_that_double() -> None:
    scheduler = live()
    late = submitted(scheduler, 1, 8, 10, 0)
    expected = []
    for now in (9, 10, 11, 12, 13, 14, 17, 18, 26):
        scheduler.wake(now)
        expected.append(late.until_s)
    assert expected == [10, 11, 12, 14, 14, 18, 18, 26, 42]


@pytest.mark.parametrize("cluster", ["counted", "mesh"])
def test_a_job_that_is_displaced_for_a_second_is_not_overtaken_by_a_later_one(cluster: str) -> None:
    scheduler = live("conservative", cluster)
    nodes = scheduler.cluster.nodes
    late = submitted(scheduler, 1, 1, 3, 0)
    wide = submitted(scheduler, 2, nodes, 1, 0)
    narrow = submitted(scheduler, 3, 1, 11, 0)
    scheduler.wake(3)
    assert narrow.start_s < 0
    assert scheduler.end(late, 4) == [wide]
    assert scheduler.end(wide, 5) == [narrow]


def test_promises_stand_beside_a_late_job_where_they_can() -> None:
    policy = Conservative(Cluster(8, live=True))
    scheduler = Scheduler(policy)
    late, other = submitted(scheduler, 1, 4, 10, 0), submitted(scheduler, 2, 4, 20, 0)
    wide = submitted(scheduler, 3, 8, 5, 0)
    narrow, next_narrow = submitted(scheduler, 4, 4, 10, 1), submitted(scheduler, 5, 4, 30, 1)
    assert [policy.promised(job) for job in (wide, narrow, next_narrow)] == [20, 10, 25]
    scheduler.wake(10)
    assert [policy.promised(job) for job in (wide, narrow, next_narrow)] == [20, 25, 25]
    scheduler.end(late, 11)
    assert (narrow.start_s, policy.promised(wide), other.granted) == (-1, 20, 4)


@pytest.mark.parametrize("now", [9, 0])
def test_time_never_goes_back(now: int) -> None:
    scheduler = live()
    running = submitted(scheduler, 1, 4, 10, 10)
    for event in (
        lambda: scheduler.submit(Job(2, now, 4, 10), now),
        lambda: scheduler.end(running, now),
        lambda: scheduler.wake(now),
        lambda: scheduler.drain([0], now),
        lambda: scheduler.reserve(Reservation(20, 30, 1, "a"), now),
    ):
        with pytest.raises(Conflict, match=f"it was 10 before, and is {now} now"):
            event()
    assert (scheduler.waiting, running.granted) == (0, 4)


def test_a_job_is_submitted_once_and_with_an_id_of_its_own() -> None:
    scheduler = live()
    job = submitted(scheduler, 1, 4, 10, 0)
    for again in (job, Job(1, 0, 1, 1)):
        with pytest.raises(Conflict, match="job 1 was submitted before"):
            scheduler.submit(again, 1)
    scheduler.end(job, 2)
    with pytest.raises(Conflict, match="job 1 was submitted before"):
        scheduler.submit(job, 3)
    assert submitted(scheduler, 1, 4, 10, 3).granted == 4


@pytest.mark.parametrize(("nodes", "length_s"), [(0, 10), (-3, 10), (3, 0), (3, -5)])
def test_a_job_asks_for_some_nodes_and_some_time(nodes: int, length_s: int) -> None:
    scheduler = live()
    with pytest.raises(InvalidInput, match="ask for 1 or more of both"):
        scheduler.submit(Job(1, 0, nodes, length_s), 0)
    assert (scheduler.cluster.free, scheduler.jobs) == (8, {})


def test_one_scheduler_drives_a_cluster() -> None:
    scheduler = live()
    with pytest.raises(Conflict, match="another scheduler drives this cluster"):
        Scheduler(policy_maker("fcfs")(scheduler.cluster))


@pytest.mark.parametrize("ending", ["end", "break_off"])
def test_what_is_broken_off_says_nothing_about_run_times(ending: str) -> None:
    scheduler = PredictingScheduler(policy_maker("easy")(Cluster(8, live=True)))
    failed = Job(1, 0, 8, 3600, user=7)
    scheduler.submit(failed, 0)
    getattr(scheduler, ending)(failed, 1)
    guess_s = scheduler.run_times.guess(Job(2, 2, 8, 3600, user=7))
    assert guess_s == (1 if ending == "end" else 3600)


@every_cluster
def test_nodes_have_numbers_and_a_failed_one_names_its_job(cluster: str) -> None:
    scheduler = live("fcfs", cluster)
    jobs = [submitted(scheduler, number, 2, 10, 0) for number in range(3)]
    nodes = [job.partition.nodes for job in jobs if job.partition is not None]
    assert len({node for each in nodes for node in each}) == 6
    scheduler.drain([nodes[1][0]], 1)
    assert scheduler.jobs_on([nodes[1][0]]) == [jobs[1]]
    assert scheduler.jobs_on(nodes[0] + nodes[2]) == [jobs[0], jobs[2]]
    scheduler.break_off(jobs[1], 2)
    again = [submitted(scheduler, number, 1, 10, 3) for number in range(3, 6)]
    given = [node for job in again if job.partition for node in job.partition.nodes]
    assert nodes[1][0] not in given
    scheduler.resume([nodes[1][0]], 4)
    assert scheduler.jobs_on([nodes[1][0]]) == []
    assert submitted(scheduler, 7, 1, 10, 5).granted == 1


@every_cluster
@every_policy
def test_a_reservation_arrives_changes_and_leaves(policy: str, cluster: str) -> None:
    scheduler = live(policy, cluster)
    scheduler.reserve(Reservation(10, 20, 4, "a"), 0)
    long = submitted(scheduler, 1, 8, 15, 0)
    assert long.start_s < 0
    scheduler.reserve(Reservation(40, 50, 4, "a"), 1)
    assert long.start_s == 1
    with pytest.raises(Conflict, match="4 nodes are not free"):
        scheduler.reserve(Reservation(5, 8, 4, "b"), 2)
    scheduler.end(long, 10)
    other = submitted(scheduler, 2, 8, 60, 11)
    assert other.start_s < 0
    scheduler.unreserve("a", 12)
    assert other.start_s == 12
    with pytest.raises(NotFound, match="no reservation 'a'"):
        scheduler.unreserve("a", 13)


@every_cluster
@every_policy
def test_the_queue_goes_on_by_itself_when_a_reservation_that_arrived_is_over(
    policy: str, cluster: str
) -> None:
    scheduler = live(policy, cluster)
    scheduler.reserve(Reservation(5, 10, 5, "a"), 0)
    job = submitted(scheduler, 1, 8, 20, 1)
    woken = 0
    while job.start_s < 0 and woken < 5:
        wake_s = scheduler.wake_at(max(woken, 1))
        assert wake_s is not None
        scheduler.wake(wake_s)
        woken += 1
    assert job.start_s == 10
    assert predicted_starts(scheduler, 10) == {}


@every_cluster
def test_predictions_know_of_reservations_that_have_arrived(cluster: str) -> None:
    scheduler = live("easy", cluster)
    scheduler.reserve(Reservation(5, 10, 5, "a"), 0)
    job, held = submitted(scheduler, 1, 8, 20, 1), submitted(scheduler, 2, 8, 20, 1)
    scheduler.hold(held, 2)
    assert predicted_starts(scheduler, 2) == {job: 10}
    assert job.start_s < 0


def test_a_reservation_that_is_changed_keeps_its_nodes_if_it_can() -> None:
    scheduler = live("easy", "mesh")
    cluster = scheduler.cluster
    assert isinstance(cluster, MappedCluster)
    scheduler.reserve(Reservation(10, 20, 2, "first"), 0)
    scheduler.reserve(Reservation(10, 20, 2, "second"), 0)
    kept = {room.name: nodes for room, nodes in cluster.rooms}
    scheduler.unreserve("first", 1)
    scheduler.reserve(Reservation(10, 40, 2, "second"), 2)
    assert [(room.end_s, nodes) for room, nodes in cluster.rooms] == [(40, kept["second"])]


@pytest.mark.parametrize(
    ("reservation", "match"),
    [
        (Reservation(0, 9, 1, "a"), "it ends at 9, and it is 10 now"),
        (Reservation(20, 30, 1), "without a name"),
        (Reservation(20, 30, 1, "a", 2), "no such part 2"),
        (Reservation(20, 30, 9, "a"), "9 nodes are not free"),
    ],
)
@every_cluster
def test_a_reservation_that_makes_no_sense_is_refused(
    cluster: str, reservation: Reservation, match: str
) -> None:
    scheduler = live("easy", cluster)
    scheduler.wake(10)
    with pytest.raises((InvalidInput, Conflict), match=match):
        scheduler.reserve(reservation, 10)
    assert not scheduler.cluster.reserved


@every_policy
def test_a_held_job_waits_again_at_its_old_place(policy: str) -> None:
    scheduler = live(policy)
    running = submitted(scheduler, 1, 8, 10, 0)
    first, second = submitted(scheduler, 2, 8, 10, 1), submitted(scheduler, 3, 8, 10, 1)
    scheduler.hold(first, 2)
    assert (scheduler.waiting, scheduler.held) == (1, {2: first})
    with pytest.raises(Conflict, match="job 2 is held"):
        scheduler.hold(first, 2)
    scheduler.release(first, 3)
    assert list(scheduler.policy.waiting()) == [first, second]
    with pytest.raises(Conflict, match="job 2 is not held"):
        scheduler.release(first, 3)
    # Policies that plan keep what they have promised to the other meanwhile.
    [started] = scheduler.end(running, 4)
    assert started is first or policy in PLANNING
    other = second if started is first else first
    scheduler.hold(other, 5)
    scheduler.withdraw(other, 6)
    assert (scheduler.waiting, scheduler.held, list(scheduler.jobs)) == (0, {}, [started.id])


@every_policy
def test_a_held_job_is_not_started_though_all_is_free(policy: str) -> None:
    scheduler = live(policy)
    running = submitted(scheduler, 1, 8, 10, 0)
    waiting = submitted(scheduler, 2, 8, 10, 1)
    scheduler.hold(waiting, 2)
    assert scheduler.end(running, 3) == []
    assert scheduler.release(waiting, 4) == [waiting]


def test_what_a_user_asked_for_stays_whatever_is_done_with_the_job() -> None:
    molds = Moldability((1, 2, 4), (40, 25, 15), malleable=True, reconfiguration_s=1)
    asked = NodeRequest(1, 0, 1, 40, user=3, molds=molds)
    scheduler = live("lazy")
    job = asked.job()
    assert scheduler.submit(job, 0) == [job]
    assert (job.granted, job.request) == (4, asked)
    with pytest.raises(AttributeError):
        asked.nodes = 2  # type: ignore[misc]  # what is tried
    scheduler = live("preemptive")
    stopped = submitted(scheduler, 1, 8, 10, 0)
    urgent = Job(2, 4, 8, 5, priority=1)
    scheduler.submit(urgent, 4)
    scheduler.stopped(stopped, 4)
    assert (stopped.granted, stopped.requested_s) == (0, 6)
    scheduler.end(urgent, 5)
    assert (stopped.granted, stopped.request) == (8, NodeRequest(1, 0, 8, 10))


@every_cluster
def test_nodes_of_a_job_that_is_to_stop_are_given_away_when_it_stands_still(cluster: str) -> None:
    scheduler = live("preemptive", cluster)
    job = submitted(scheduler, 1, 8, 10, 0)
    urgent = Job(2, 4, 8, 5, priority=1)
    assert scheduler.submit(urgent, 4) == [job]
    assert (job.stopping, job.granted, urgent.granted) == (True, 8, 0)
    assert predicted_starts(scheduler, 4) == {urgent: 4}
    assert scheduler.wake(5) == []
    assert scheduler.stopped(job, 6) == [urgent]
    assert (job.stopping, job.granted, urgent.granted) == (False, 0, 8)
    with pytest.raises(Conflict, match="job 1 was not asked to stop"):
        scheduler.stopped(job, 6)
    assert scheduler.end(urgent, 11) == [job]
    assert job.until_s == 15


def test_a_job_that_cannot_be_stopped_is_passed_over() -> None:
    scheduler = live("preemptive")
    first, second = submitted(scheduler, 1, 3, 10, 0), submitted(scheduler, 2, 3, 10, 0)
    scheduler.submit(Job(3, 1, 3, 5, priority=1), 1)
    assert (first.stopping, second.stopping) == (False, True)
    assert scheduler.not_stopped(second, 2) == [first]
    assert (first.stopping, second.stopping) == (True, False)


@every_cluster
@every_policy
def test_the_policy_is_switched_while_jobs_run_wait_and_are_held(policy: str, cluster: str) -> None:
    scheduler = live("fcfs", cluster)
    running = submitted(scheduler, 1, 8, 10, 0)
    waiting = [submitted(scheduler, number, 8, 12 - number, 0) for number in (2, 3, 4)]
    scheduler.hold(waiting[0], 1)
    assert scheduler.switch(policy_maker(policy), 2) == []
    assert list(scheduler.policy.waiting()) == waiting[1:]
    assert (scheduler.waiting, running.granted > 0) == (2, True)
    [started] = scheduler.end(running, 3)
    assert started in waiting[1:]


def test_a_policy_that_raises_is_disabled_and_no_job_is_lost() -> None:
    scheduler = live("fcfs")
    running = submitted(scheduler, 1, 8, 10, 0)
    waiting = [submitted(scheduler, number, 8, 10, 0) for number in (2, 3)]
    own = policy_maker(f"{hostile_policies.__name__}:Raises")
    scheduler.switch(own, 1)
    with pytest.raises(InvalidInput, match="raised ZeroDivisionError"):
        scheduler.end(running, 2)
    assert scheduler.switch(policy_maker("easy"), 2) == [waiting[0]]
    assert list(scheduler.policy.waiting()) == waiting[1:]


def test_a_policy_that_cannot_be_made_leaves_the_former_one() -> None:
    def broken(cluster: Cluster) -> Policy:
        raise InvalidInput("no", where="policy", remedy="none")

    scheduler = live("fcfs")
    submitted(scheduler, 1, 8, 10, 0)
    before = scheduler.policy
    with pytest.raises(InvalidInput, match="no"):
        scheduler.switch(broken, 1)
    assert scheduler.policy is before


def test_what_only_a_live_queue_may_do_is_refused_in_a_simulation() -> None:
    scheduler = Scheduler(policy_maker("easy")(Cluster(8)))
    job = submitted(scheduler, 1, 4, 10, 0)
    events: list[Callable[[], Any]] = [
        lambda: scheduler.hold(job, 1),
        lambda: scheduler.reserve(Reservation(20, 30, 1, "a"), 1),
        lambda: scheduler.drain([0], 1),
        lambda: scheduler.switch(policy_maker("fcfs"), 1),
    ]
    for event in events:
        with pytest.raises(Conflict, match="the cluster is not live"):
            event()
