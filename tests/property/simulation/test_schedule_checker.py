"""The checker finds nothing wrong in what the policies do, and finds every change that breaks a rule."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples, steps

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.checking import CheckReport, check
from kalends.simulation.checking.ordered import RANKED
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

NODES = 8


class Row(NamedTuple):
    """One job of a schedule."""

    id: int
    submit: int
    start: int
    end: int
    nodes: int
    requested: int


def workload(random: Random) -> list[SimulatedJob]:
    submit = 0
    jobs = []
    for number in range(1, random.choice([2, 6, 20, 40])):
        submit += random.choice([0, 0, 1, 3, 20])
        run = random.randint(1, 30)
        requested = run + random.choice([0, 0, 1, 5, 40])
        jobs.append(SimulatedJob(number, submit, random.randint(1, NODES), requested, run_s=run))
    return jobs


def scheduled(
    jobs: list[SimulatedJob], policy: str, reservations: tuple[Reservation, ...] = ()
) -> list[Row]:
    scheduler = Scheduler(policy_maker(policy)(Cluster(NODES, reservations)))
    done = sorted(replay(jobs, scheduler), key=lambda job: job.order)
    return [
        Row(job.id, job.submit_s, job.start_s, job.end_s, job.nodes, job.requested_s)
        for job in done
    ]


def checked(
    log: list[Row], result: list[Row], policy: str, reservations: tuple[Reservation, ...] = ()
) -> CheckReport:
    """Written as a log and a result and checked; the result alternates between SWF and CSV."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "log.swf").write_text(
            "".join(
                f"{row.id} {row.submit} -1 {row.end - row.start} {row.nodes} -1 -1 {row.nodes}"
                f" {row.requested} -1 1 1 1 1 1 1 -1 -1\n"
                for row in log
            )
        )
        if len(log) % 2:
            text = "job_id,submission_time,starting_time,finish_time,nodes\n" + "".join(
                f"w0!{row.id},{row.submit}.0,{row.start}.000,{row.end},{row.nodes}\n"
                for row in result
            )
        else:
            text = "".join(
                f"{row.id} {row.submit} {row.start - row.submit} {row.end - row.start} {row.nodes}"
                f" -1 -1 {row.nodes} {row.requested} -1 1 1 1 1 1 1 -1 -1\n"
                for row in result
            )
        (folder / "result").write_text(text)
        kept = None
        if reservations:
            kept = folder / "reservations.csv"
            kept.write_text(
                "start,end,nodes\n"
                + "".join(f"{each.start_s},{each.end_s},{each.nodes}\n" for each in reservations)
            )
        return check(folder / "log.swf", folder / "result", policy, NODES, reservations=kept)


randoms = st.builds(Random, st.integers(0, 1 << 40))
POLICIES = ["fcfs", "easy", "easy-sjbf", "conservative", *RANKED]


@settings(max_examples=examples(200), deadline=None)
@given(randoms, st.sampled_from(POLICIES))
def test_what_the_policies_do_is_right(random: Random, policy: str) -> None:
    rows = scheduled(workload(random), policy)
    assert checked(rows, rows, policy).findings == []
    steps["schedules checked"] += 1


@settings(max_examples=examples(100), deadline=None)
@given(randoms, st.sampled_from(["fcfs", "easy", "easy-sjbf", *RANKED]))
def test_what_the_policies_do_among_reservations_is_right(random: Random, policy: str) -> None:
    begin = random.randint(0, 100)
    reservations = (
        Reservation(begin, begin + random.randint(1, 50), random.randint(1, NODES)),
        Reservation(begin + 200, begin + 201 + random.randint(0, 50), random.randint(1, NODES)),
    )
    rows = scheduled(workload(random), policy, reservations)
    assert checked(rows, rows, policy, reservations).findings == []


RANK: dict[str, Callable[[Row], int]] = {
    "fcfs": lambda row: row.submit,
    "sjf": lambda row: row.requested,
    "ljf": lambda row: -row.requested,
    "smjf": lambda row: row.nodes,
    "swjf": lambda row: row.nodes * row.requested,
    "bjf": lambda row: -row.nodes,
}


def broken_ranks(rows: list[Row], policy: str) -> set[str]:
    """The slow twin of ranked policies: looks at every second, and knows no queue."""
    name, _, scan = policy.partition("-")
    place = {row.id: (RANK[name](row), at) for at, row in enumerate(rows)}
    found = {"early" for row in rows if row.start < row.submit}
    for now in range(max(row.end for row in rows) + 1):
        free = NODES - sum(row.nodes for row in rows if row.start <= now < row.end)
        if free < 0:
            found.add("capacity")
        waiting = [row for row in rows if row.submit <= now < row.start]
        turn = waiting if scan else sorted(waiting, key=lambda row: place[row.id])[:1]
        if any(row.nodes <= free for row in turn):
            found.add("held-back" if scan else "idle")
        events = sum((row.submit == now) + (row.end == now) for row in rows)
        for started in rows:
            for first in waiting:
                passed = started.start == now and place[started.id] > place[first.id]
                if not passed or first.submit == now:
                    continue
                behind = sum(
                    row.nodes
                    for row in rows
                    if row.start == now and place[row.id] > place[first.id]
                )
                if not scan or (events <= 1 and first.nodes <= free + behind):
                    found.add("order")
    return found


@settings(max_examples=examples(300), deadline=None)
@given(randoms, st.sampled_from(RANKED))
def test_a_shifted_job_breaks_the_rules_of_ranks_that_a_slow_twin_finds_broken(
    random: Random, policy: str
) -> None:
    rows = scheduled(workload(random), policy)
    at = random.randrange(len(rows))
    start = max(rows[at].start + random.choice([0, -40, -3, -1, 1, 2, 10, 60]), 0)
    changed = list(rows)
    changed[at] = rows[at]._replace(start=start, end=start + rows[at].end - rows[at].start)
    assert set(checked(rows, changed, policy).kinds) == broken_ranks(changed, policy)
    steps["schedules checked"] += 1


def test_a_head_starts_when_a_reservation_ends_though_a_job_is_submitted_in_that_second() -> None:
    jobs = [
        SimulatedJob(1, 1, 2, 50, run_s=10),
        SimulatedJob(2, 1, 6, 26, run_s=26),
        SimulatedJob(3, 7, 2, 16, run_s=15),
    ]
    reservations = (Reservation(5, 7, 2),)
    rows = scheduled(jobs, "easy", reservations)
    assert rows[1].start == 7
    assert checked(rows, rows, "easy", reservations).findings == []


def shadow_of(head: Row, running: list[Row], now: int) -> int:
    """When the head could start, if all that runs takes its requested time."""
    shadow = now
    while (
        sum(row.nodes for row in running if max(row.start + row.requested, now) > shadow)
        + head.nodes
        > NODES
    ):
        shadow += 1
    return shadow


def broken_rules(rows: list[Row], policy: str) -> set[str]:
    """The slow twin: looks at every second, and knows no running totals and no sorted lists."""
    found = set()
    last = max(row.end for row in rows)
    promised: dict[int, int] = {}
    for row in rows:
        if row.start < row.submit:
            found.add("early")
    for now in range(last + 1):
        running = [row for row in rows if row.start <= now < row.end]
        if sum(row.nodes for row in running) > NODES:
            found.add("capacity")
        waiting = [row for row in rows if row.submit <= now < row.start]
        if not waiting:
            continue
        head = waiting[0]
        shadow = shadow_of(head, running, now)
        if shadow == now:
            found.add("idle")
            if head.id in promised:
                promised[head.id] = now
        elif policy != "fcfs":
            if head.id not in promised and head.start > shadow:
                found.add("promise")
            if shadow > promised.get(head.id, shadow):
                found.add("delayed")
            promised[head.id] = shadow
            free = NODES - sum(row.nodes for row in running)
            for row in waiting[1:]:
                if row.nodes > free or "held-back" in found:
                    continue
                if shadow_of(head, [*running, row._replace(start=now)], now) == shadow:
                    found.add("held-back")
    if policy == "fcfs" and any(
        later.start < row.start for at, row in enumerate(rows) for later in rows[at:]
    ):
        found.add("order")
    return found


@settings(max_examples=examples(300), deadline=None)
@given(randoms, st.sampled_from(["fcfs", "easy"]))
def test_a_shifted_job_is_found_or_the_schedule_is_still_legal(random: Random, policy: str) -> None:
    rows = scheduled(workload(random), policy)
    at = random.randrange(len(rows))
    shift = random.choice([-40, -3, -1, 1, 2, 10, 60])
    changed = list(rows)
    changed[at] = rows[at]._replace(
        start=max(rows[at].start + shift, 0),
        end=max(rows[at].start + shift, 0) + rows[at].end - rows[at].start,
    )
    expected = broken_rules(changed, policy)
    kinds = set(checked(rows, changed, policy).kinds)
    # Within the very second in which a job comes to the head, the checker sees more than the twin.
    assert expected <= kinds <= expected | {"delayed", "promise"}
    assert (not kinds) or kinds & expected or kinds <= {"delayed", "promise"}
    steps["schedules checked"] += 1


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda rows: rows[1:], "missing"),
        (lambda rows: [*rows, rows[0]], "twice"),
        (lambda rows: [*rows, rows[0]._replace(id=999)], "invented"),
        (lambda rows: [rows[0], rows[1]._replace(submit=9), *rows[2:]], "submit"),
        (lambda rows: [rows[0]._replace(nodes=1), *rows[1:]], "nodes"),
        (lambda rows: [rows[0]._replace(end=rows[0].end + 1), *rows[1:]], "run-time"),
    ],
)
@pytest.mark.parametrize("even", [True, False], ids=["swf", "csv"])
def test_what_is_not_as_in_the_log_is_found(
    change: Callable[[list[Row]], list[Row]], kind: str, even: bool
) -> None:
    jobs = [
        SimulatedJob(number, 10 * number, 3, 25, run_s=20) for number in range(1, 7 if even else 8)
    ]
    rows = scheduled(jobs, "easy")
    report = checked(rows, change(rows), "any")
    assert report.kinds[kind] == 1
    found = next(finding for finding in report.findings if finding.kind == kind)
    assert found.job in {999} | {row.id for row in rows}


def test_a_job_inside_a_reservation_is_found_by_job_time_and_amount() -> None:
    rows = [Row(1, 0, 0, 50, 6, 60), Row(2, 5, 120, 130, 6, 10)]
    report = checked(rows, rows, "any", (Reservation(40, 60, 4), Reservation(100, 200, 3)))
    assert [(found.kind, found.job, found.at_s, found.by) for found in report.findings] == [
        ("reservation", 1, 40, 2),
        ("reservation", 2, 120, 1),
    ]


def test_a_backfilled_job_that_delays_the_head_is_named_at_once() -> None:
    log = [Row(1, 0, 0, 100, 6, 100), Row(2, 1, 100, 150, 8, 50), Row(3, 2, 150, 350, 2, 200)]
    rows = [log[0], log[1]._replace(start=202, end=252), log[2]._replace(start=2, end=202)]
    report = checked(log, rows, "easy")
    delayed, promise = (
        next(found for found in report.findings if found.kind == kind)
        for kind in ("delayed", "promise")
    )
    assert (delayed.job, delayed.at_s, delayed.by) == (2, 2, 102)
    assert delayed.detail.endswith("jobs started before it: 3")
    assert (promise.job, promise.at_s, promise.by) == (2, 1, 102)
    assert (report.waited, report.broken_promises, report.worst_s) == (1, 1, 102)


def test_a_delay_in_the_second_in_which_the_head_came_to_wait_is_found() -> None:
    log = [
        Row(1, 0, 0, 50, 6, 50), Row(2, 1, 50, 90, 6, 40), Row(3, 2, 90, 99, 8, 9),
        Row(4, 3, 99, 199, 2, 100),
    ]  # fmt: skip
    rows = [*log[:2], log[2]._replace(start=150, end=159), log[3]._replace(start=50, end=150)]
    report = checked(log, rows, "easy")
    assert [(found.kind, found.job, found.by) for found in report.findings] == [
        ("held-back", 4, 47),
        ("delayed", 3, 60),
        ("promise", 3, 60),
    ]


@settings(max_examples=examples(150), deadline=None)
@given(randoms)
def test_a_conservative_promise_that_is_broken_is_found_with_its_amount(random: Random) -> None:
    rows = scheduled(workload(random), "conservative")
    late = rows[-1]._replace(start=rows[-1].start + 500, end=rows[-1].end + 500)
    report = checked(rows, [*rows[:-1], late], "conservative")
    # Its place stays empty, and those behind it do not move up into it.
    assert set(report.kinds) <= {"promise", "held-back"}
    [promise] = [found for found in report.findings if found.kind == "promise"]
    assert promise.job == late.id
    assert 0 < promise.by <= 500


def test_who_could_backfill_and_does_not_is_named_with_what_was_free() -> None:
    log = [Row(1, 0, 0, 60, 6, 100), Row(2, 1, 60, 110, 8, 50), Row(3, 2, 2, 90, 2, 98)]
    easy = [log[0], log[1]._replace(start=90, end=140), log[2]]
    assert checked(log, easy, "easy").findings == []
    log.append(Row(4, 5, 198, 208, 8, 10))
    rows = [log[0], log[1], log[2]._replace(start=110, end=198), log[3]]
    for policy in ("easy", "easy-sjbf"):
        [found] = checked(log, rows, policy).findings
        assert (found.kind, found.job, found.at_s, found.by) == ("held-back", 3, 2, 108)
        assert (
            found.detail == "2 nodes are free for its 2; job 2, the first, could still start at 100"
        )
    assert checked(log, rows, "fcfs").findings == []


@pytest.mark.parametrize(("requested", "free"), [(98, True), (99, False)])
def test_who_would_delay_the_head_by_a_second_is_not_held_back(requested: int, free: bool) -> None:
    rows = [
        Row(1, 0, 0, 100, 6, 100),
        Row(2, 1, 100, 150, 8, 50),
        Row(3, 2, 150, 160, 2, requested),
    ]
    assert checked(rows, rows, "easy").kinds == ({"held-back": 1} if free else {})


@pytest.mark.parametrize(("begin", "free"), [(12, True), (11, False)])
def test_who_would_run_into_a_reservation_is_not_held_back(begin: int, free: bool) -> None:
    rows = [Row(1, 0, 0, 100, 5, 100), Row(2, 1, 100, 150, 8, 50), Row(3, 2, 150, 160, 2, 10)]
    report = checked(rows, rows, "easy", (Reservation(begin, 100, 3),))
    assert report.kinds == ({"held-back": 1} if free else {})


def test_who_does_not_move_up_when_others_end_early_is_held_back_under_conservative() -> None:
    log = [Row(1, 0, 0, 40, 8, 100), Row(2, 1, 100, 150, 8, 50)]
    report = checked(log, log, "conservative")
    assert [(found.kind, found.job, found.at_s, found.by) for found in report.findings] == [
        ("held-back", 2, 40, 60)
    ]
    assert (report.waited, report.broken_promises) == (1, 0)
    right = [log[0], log[1]._replace(start=40, end=90)]
    assert checked(log, right, "conservative").findings == []
