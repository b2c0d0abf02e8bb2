"""What must hold between policies, on any log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.policy_logs import Recording, SmallLog, crowded_log, decided, small_logs

from kalends.scheduling import Job, Policy, Scheduler, policy_maker
from kalends.simulation.kernel import replay

LOGS = range(effort.examples(150))
SAME = [
    ("easy-slack:0", "easy"),
    ("no-starvation:0", "fcfs"),
    ("no-starvation:999", "fcfs-scan"),
    ("priority:999999999", "priority"),
    ("priority-scan:999999999", "priority-scan"),
]
PAIRS = [
    ("fcfs", "fcfs-scan"),
    ("sjf", "sjf-scan"),
    ("ljf", "ljf-scan"),
    ("swjf", "swjf-scan"),
    ("bjf", "bjf-scan"),
    ("priority", "priority-scan"),
    ("priority:3", "priority-scan:3"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_names_for_the_same_rule_decide_alike(one: str, other: str) -> None:
    for seed in LOGS:
        log = crowded_log(seed)
        assert decided(log, one) == decided(log, other)


@pytest.mark.parametrize(("strict", "scan"), PAIRS)
@given(log=small_logs(reserved=False), nodes=st.integers(1, 3))
@settings(max_examples=effort.examples(40))
def test_a_scan_changes_nothing_where_all_jobs_are_as_wide(
    strict: str, scan: str, log: SmallLog, nodes: int
) -> None:
    alike = tuple((job[0], nodes, *job[2:]) for job in log.jobs)
    same_width = SmallLog(max(log.nodes, nodes), alike)
    assert decided(same_width, strict) == decided(same_width, scan)


def test_without_priorities_all_priority_policies_are_first_come_first_served() -> None:
    for seed in LOGS:
        log = crowded_log(seed)
        level = SmallLog(log.nodes, tuple((*job[:4], 2) for job in log.jobs), log.reservations)
        for age in ("", ":1", ":5"):
            assert decided(level, f"priority{age}") == decided(level, "fcfs")
            assert decided(level, f"preemptive{age}") == decided(level, "fcfs")
            assert decided(level, f"priority-scan{age}") == decided(level, "fcfs-scan")


def test_a_scan_of_the_fewest_nodes_finds_nobody_that_smjf_has_not() -> None:
    """The paper's reason why there is no SMJF_SCAN; with reservations it would not hold."""
    for seed in LOGS:
        log = crowded_log(seed)
        scheduler = Scheduler(policy_maker("smjf")(SmallLog(log.nodes, ()).cluster()))
        for _ in replay(log.simulated(), scheduler):
            free = scheduler.cluster.free
            assert all(job.nodes > free for job in scheduler.policy.waiting())


class Watching(Recording):
    """Counts how often each waiting job was overtaken."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.overtaken: dict[int, int] = {}

    def passed(self, touched: list[Job], now: int) -> list[Job]:
        waiting = list(self.policy.waiting())
        for started in touched:
            for job in waiting:
                if job.order < started.order:
                    self.overtaken[job.order] = self.overtaken.get(job.order, 0) + 1
        return touched


@pytest.mark.parametrize("hops", [0, 1, 2, 5])
def test_nobody_is_overtaken_more_often_than_the_hops_allow(hops: int) -> None:
    most = 0
    for seed in LOGS:
        scheduler = Watching(policy_maker(f"no-starvation:{hops}")(crowded_log(seed).cluster()))
        list(replay(crowded_log(seed).simulated(), scheduler))
        most = max([most, *scheduler.overtaken.values()])
    assert most == hops


class Promising(Recording):
    """Notes when a job that became the head would start at the latest, by the policy's own cluster."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.promised_s: dict[int, int] = {}

    def passed(self, touched: list[Job], now: int) -> list[Job]:
        head = next(self.policy.waiting(), None)
        if head is not None and head.order not in self.promised_s:
            # Who has gone before it in this very pass has delayed it already: not noted.
            before = [job for job in touched if job.order > head.order]
            if not before:
                self.promised_s[head.order] = self.cluster.promise(head, now).shadow_s
        return touched


@pytest.mark.parametrize(("policy", "percent"), [("easy", 0), ("easy-sjbf", 0)] + [
    (f"easy-slack:{percent}", percent) for percent in (0, 30, 100, 300)
])  # fmt: skip
def test_the_head_is_delayed_by_no_more_than_its_allowance(policy: str, percent: int) -> None:
    late = 0
    for seed in LOGS:
        jobs = crowded_log(seed).simulated()
        scheduler = Promising(policy_maker(policy)(crowded_log(seed).cluster()))
        list(replay(jobs, scheduler))
        for order, promised_s in scheduler.promised_s.items():
            delay_s = jobs[order].start_s - promised_s
            assert delay_s <= jobs[order].requested_s * percent // 100
            late += delay_s > 0
    assert bool(late) == bool(percent), "an allowance is used, and there is none without one"


def test_a_preempted_job_runs_for_all_of_its_time_and_only_less_urgent_ones_are_stopped() -> None:
    stops = 0
    for seed in LOGS:
        log = crowded_log(seed)
        decisions = decided(log, "preemptive")
        begun: dict[int, int] = {}
        ran: dict[int, int] = {}
        for now, order, granted in decisions:
            if granted:
                begun[order] = now
                continue
            stops += 1
            ran[order] = ran.get(order, 0) + now - begun[order]
            urgent = [
                other for at, other, given in decisions if at == now and given and other != order
            ]
            assert any(log.jobs[other][4] > log.jobs[order][4] for other in urgent)
        for job in replay(log.simulated(), Scheduler(policy_maker("preemptive")(log.cluster()))):
            assert job.end_s == begun[job.order] + log.jobs[job.order][3] - ran.get(job.order, 0)
    assert stops > 50
