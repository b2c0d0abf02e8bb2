"""What users see of a machine and its jobs is true at the moment when they look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from msgspec import structs

from kalends.batch.queue.facts import JobEnding, JobLimits, NodeClaim, Terms
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.views import load_of, over_of, view_of, view_over
from kalends.cli.jobs.shown_jobs import details
from kalends.contract.job_calls import PredictedStart
from kalends.core.jobs import After, JobRequest
from kalends.core.principals import Principal
from kalends.core.times import zone_named

NOW = 1_800_000_000
ANN = Principal("ann")
UTC = zone_named("UTC")


def queue_of_four() -> BatchQueue:
    return BatchQueue("lab/box", Terms(machine="pool:4", policy="easy"), NOW)


@pytest.fixture
def queue() -> BatchQueue:
    return queue_of_four()


def job(nodes: int, limit_s: int) -> JobRequest:
    return JobRequest(machine="lab/box", nodes=nodes, limit_s=limit_s, command=("true",))


def test_a_reservation_that_begins_without_an_event_of_the_queue_is_not_shown_as_free() -> None:
    queue = queue_of_four()
    queue.claims_changed((), [NodeClaim(1, NOW + 60, NOW + 120, 3)], NOW)
    shown = [load_of(queue, now) for now in (NOW + 59, NOW + 60, NOW + 120)]
    assert [(load.free, load.reserved) for load in shown] == [(4, 0), (1, 3), (4, 0)]


def test_nodes_that_others_have_in_a_batch_system_are_not_shown_as_free(queue: BatchQueue) -> None:
    queue.claims_changed((), [NodeClaim(1, NOW, NOW + 60, 1)], NOW)
    queue.drain([0, 1], "", NOW)
    shown = [load_of(queue, NOW, left_free).free for left_free in (None, 3, 1, 0)]
    assert shown == [1, 1, 1, 0]


def test_users_are_told_why_nodes_are_out_of_service_until_they_are_back(queue: BatchQueue) -> None:
    queue.drain([0, 2], "new fans", NOW)
    queue.fail([1], "", NOW)
    queue.fail([3], "no power", NOW)
    replayed = BatchQueue("lab/box", None, NOW, queue.take_effects().entries)
    for each in (queue, replayed):
        told = load_of(each, NOW).out_reasons
        assert [(out.nodes, out.reason) for out in told] == [
            ((0, 2), "new fans"),
            ((3,), "no power"),
        ]
    queue.resume([0, 2, 3], NOW)
    assert load_of(queue, NOW).out_reasons == ()
    assert load_of(queue, NOW).out_numbers == (1,)


def test_a_job_whose_time_is_just_over_still_has_its_nodes(queue: BatchQueue) -> None:
    queue.submit(ANN, job(3, 60), "", NOW)
    assert [load_of(queue, now).free for now in (NOW, NOW + 60, NOW + 61)] == [1, 1, 1]


def test_a_job_that_waits_for_what_never_comes_is_over_and_says_why(queue: BatchQueue) -> None:
    first, _ = queue.submit(ANN, structs.replace(job(1, 60), held=True), "key-1", NOW)
    second, _ = queue.submit(
        ANN, structs.replace(job(1, 60), after=(After(job=first),)), "key-2", NOW
    )
    waits = view_of(queue, queue.job(second), {}, NOW, whole=True).reasons
    queue.cancel(first, "by ann", NOW)
    withdrawn = queue.take_effects().over
    assert waits == ("waits until job 1 has succeeded",)
    assert [each.number for each in withdrawn] == [first, second]
    view = view_over(over_of("lab/box", withdrawn[1]), whole=True)
    assert view.end == "withdrawn"
    assert view.detail == "it waited for job 1, which has not succeeded"


@pytest.mark.parametrize(
    ("prepare", "asked", "said"),
    [
        (
            lambda queue: queue.drain([3], "new fans", NOW),
            job(4, 60),
            "it needs 4 nodes, and 3 are in service; out of service: node 3 (new fans)",
        ),
        (
            lambda queue: (queue.drain([0], "", NOW), queue.submit(ANN, job(2, 60), "k1", NOW)),
            job(2, 60),
            "it needs 2 nodes, and 1 is free: jobs run on 2; out of service: node 0",
        ),
        (
            lambda queue: queue.claims_changed((), [NodeClaim(1, NOW, NOW + 60, 3)], NOW),
            job(2, 60),
            "it needs 2 nodes, and 1 is free: 3 are reserved",
        ),
        (
            lambda queue: queue.claims_changed((), [NodeClaim(1, NOW + 60, NOW + 120, 4)], NOW),
            job(1, 600),
            "it needs 1 node until its limit, but nodes are reserved before then",
        ),
        (
            lambda queue: [queue.submit(ANN, job(n, 600), f"k{n}", NOW) for n in (2, 4)],
            job(2, 900),
            "jobs ahead of it in the queue come first",
        ),
    ],
)
def test_a_queued_job_says_what_has_the_nodes_that_it_needs(
    queue: BatchQueue, prepare: Callable[[BatchQueue], object], asked: JobRequest, said: str
) -> None:
    prepare(queue)
    number, _ = queue.submit(ANN, asked, "the-key", NOW)
    waiting = queue.job(number)
    assert waiting.phase == "queued"
    assert view_of(queue, waiting, {}, NOW, whole=False).reasons == (said,)


def test_a_job_over_a_limit_says_which_and_to_strangers_nothing_of_its_project() -> None:
    terms = Terms(
        machine="pool:4", policy="easy", user=JobLimits(running=2, nodes=3),
        project=JobLimits(node_seconds=7_200), period_s=86_400,
    )  # fmt: skip
    queue = BatchQueue("lab/box", terms, NOW)
    queue.submit(ANN, structs.replace(job(2, 3_600), project="dna"), "key-1", NOW)

    def reasons(number: int, *, whole: bool = True) -> tuple[str, ...]:
        return view_of(queue, queue.job(number), {}, NOW, whole=whole).reasons

    wide, _ = queue.submit(ANN, job(2, 60), "key-2", NOW)
    spent, _ = queue.submit(ANN, structs.replace(job(1, 60), project="dna"), "key-3", NOW)
    assert reasons(wide) == ("user ann may have 3 nodes at a time",)
    assert reasons(spent) == ("project dna may use 2 node-hours in 1d",)
    assert reasons(spent, whole=False) == ("its user's or project's limit is reached",)
    queue.submit(ANN, job(1, 60), "key-4", NOW)
    assert reasons(wide) == ("user ann may run 2 jobs at a time",)


def test_no_start_is_expected_in_the_past(queue: BatchQueue) -> None:
    queue.submit(ANN, job(4, 600), "key-1", NOW)
    number, _ = queue.submit(ANN, job(4, 600), "key-2", NOW)
    told = PredictedStart(
        made_at=NOW, latest=NOW + 600, expected=NOW + 40, p50=NOW + 50, p90=NOW + 90
    )
    seen = view_of(queue, queue.job(number), {number: told}, NOW + 70, whole=True).predicted
    assert seen is not None
    assert (seen.expected, seen.p50, seen.p90, seen.latest) == (
        NOW + 70, NOW + 70, NOW + 90, NOW + 600,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "may_delay", "firm"),
    [
        ("easy", "waiting-room", False),
        ("easy", "none", False),
        ("fcfs", "waiting-room", False),
        ("conservative", "waiting-room", True),
        ("conservative", "none", True),
        ("conservative", "all", False),
    ],
)
def test_a_latest_start_is_firm_only_where_the_machine_has_promised_it_and_keeps_it(
    policy: str, may_delay: Literal["none", "waiting-room", "all"], *, firm: bool
) -> None:
    queue = BatchQueue("lab/box", Terms(machine="pool:4", policy=policy, may_delay=may_delay), NOW)
    queue.submit(ANN, job(4, 600), "key-1", NOW)
    number, _ = queue.submit(ANN, job(4, 600), "key-2", NOW)
    told = PredictedStart(made_at=NOW, latest=NOW + 615, expected=NOW, p50=NOW, p90=NOW + 90)
    view = view_of(queue, queue.job(number), {number: told}, NOW, whole=True)
    assert view.predicted is not None
    assert view.predicted.firm == firm
    (line,) = [each for each in details(view, UTC) if "08:10" in each]
    assert ("at the latest" in line) == firm
    assert ("unless a booking or another job overtakes it" in line) == (not firm)


def test_how_a_job_went_and_why_it_ended_is_for_its_user_and_operators(queue: BatchQueue) -> None:
    number, _ = queue.submit(ANN, job(1, 60), "key-1", NOW)
    queue.cancel(number, "ended by bob, for the secret project", NOW)
    running = queue.job(number)
    assert view_of(queue, running, {}, NOW, whole=True).detail
    assert not view_of(queue, running, {}, NOW, whole=False).detail
    ending = JobEnding(
        kind="not-started",
        status=3,
        detail="there is no directory /home/ann/secret",
        memory_bytes=7,
    )
    queue.ended(number, 1, ending, NOW)
    (over,) = queue.take_effects().over
    mine, others = (view_over(over_of("lab/box", over), whole=whole) for whole in (True, False))
    assert (mine.status, mine.detail, mine.memory_bytes) == (3, ending.detail, 7)
    assert (others.end, others.nodes, others.user) == ("not-started", 1, "ann")
    assert not any((others.status, others.detail, others.memory_bytes, others.command))


def test_a_job_that_waits_again_and_is_withdrawn_then_is_not_shown_as_lost() -> None:
    queue = queue_of_four()
    number, _ = queue.submit(ANN, structs.replace(job(4, 60), rerun=True), "key-1", NOW)
    queue.begun(number, 1, NOW)
    queue.drain([0], "new fans", NOW)
    queue.ended(number, 1, JobEnding(kind="lost"), NOW)
    queue.cancel(number, "ann does not want it", NOW)
    (over,) = queue.take_effects().over
    shown = view_over(over_of("lab/box", over), whole=True)
    assert (shown.phase, shown.end, shown.detail) == (
        "withdrawn", "withdrawn", "ann does not want it",
    )  # fmt: skip
