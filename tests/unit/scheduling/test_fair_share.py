"""Fair shares: whose turn it is, and how use fades."""

from __future__ import annotations

from kalends.scheduling import Cluster, Job, Scheduler, policy_maker
from kalends.scheduling.decayed_use import DecayedUse

DAY_S = 86_400
NOW_S = 1_790_000_000


def job(number: int, now: int, user: int, **more: int) -> Job:
    return Job(number, now, 4, 100, user=user, **more)


def order_of(policy: str, jobs: list[Job], now: int = NOW_S) -> list[int]:
    """The jobs, each of which needs all nodes, in the order in which they run."""
    scheduler = Scheduler(policy_maker(policy)(Cluster(4)))
    running = [each for job in jobs for each in scheduler.submit(job, now)]
    order = []
    while running:
        (first,) = running
        order.append(first.id)
        now += 100
        running = scheduler.end(first, now)
    return order


def test_users_take_turns_however_many_jobs_one_has() -> None:
    jobs = [job(number, NOW_S, user=1 if number < 5 else 2) for number in range(8)]
    assert order_of("fair-share", jobs) == [0, 5, 1, 6, 2, 7, 3, 4]


def test_who_has_three_shares_runs_three_times_as_much() -> None:
    jobs = [job(number, NOW_S, user=1) for number in range(6)]
    jobs += [job(number, NOW_S, user=2, share=3) for number in range(6, 12)]
    first = order_of("fair-share:0", jobs)[:8]
    assert [sum(number < 6 for number in first), sum(number >= 6 for number in first)] == [2, 6]


def test_an_account_stands_for_all_of_its_users() -> None:
    jobs = [job(number, NOW_S, user=number, account=1) for number in range(3)]
    jobs.append(job(9, NOW_S, user=9, account=2))
    assert order_of("fair-share", jobs) == [0, 9, 1, 2]


def test_priorities_go_before_shares() -> None:
    jobs = [job(0, NOW_S, user=1), job(1, NOW_S, user=2), job(2, NOW_S, user=1, priority=1)]
    assert order_of("fair-share", jobs) == [0, 2, 1]


def test_use_counts_half_after_a_half_life_and_nothing_after_many() -> None:
    use = DecayedUse(DAY_S)
    old, new = job(1, NOW_S, user=1), job(2, NOW_S, user=2)
    old.order, new.order, old.start_s, new.start_s = 0, 1, NOW_S, NOW_S + DAY_S
    use.begin(old)
    use.begin(new)
    assert use.rank(2, 1) == 2 * use.rank(1, 1) > 0
    later = job(3, NOW_S, user=3)
    later.order, later.start_s = 2, NOW_S + 200 * DAY_S
    use.begin(later)
    assert use.rank(1, 1) == use.rank(2, 1) == 0 < use.rank(3, 1)


def test_a_job_that_ends_early_has_used_only_what_it_had() -> None:
    use = DecayedUse(0)
    one = job(1, NOW_S, user=1)
    one.order, one.start_s = 0, NOW_S
    use.begin(one)
    assert use.rank(1, 1) == 400
    use.end(one, NOW_S + 10)
    assert use.rank(1, 1) == 40
