"""Laws of predicted starts: exact where they can be, without any effect, and from the past alone."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.policy_logs import Recording

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policies.backfill.conservative import Conservative
from kalends.scheduling.prediction.frozen import predicted_start, predicted_starts
from kalends.scheduling.prediction.predictor import PredictingScheduler, Prediction
from kalends.scheduling.registry import POLICIES, policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay
from kalends.simulation.prediction_accuracy import Accounts, Predicted

NODES = 6
Row = tuple[int, int, int, int, int]
"""``(submit, nodes, requested, run, user)``."""

NAMES = [info.name + (":3" if info.number else "") for info in POLICIES]


@st.composite
def logs(draw: st.DrawFn, *, exact: bool = False, at_once: bool = False) -> list[Row]:
    """Crowded little logs; `at_once`: nobody comes after the first second."""
    now, rows = 0, []
    for _ in range(draw(st.integers(1, 14))):
        now += 0 if at_once else draw(st.sampled_from((0, 0, 1, 3)))
        first, second = draw(st.integers(1, 9)), draw(st.integers(1, 9))
        requested = max(first, second)
        run = requested if exact else min(first, second)
        rows.append((now, draw(st.integers(1, NODES)), requested, run, draw(st.integers(0, 2))))
    return rows


reserved = st.sampled_from(
    [(), (Reservation(4, 9, 3),), (Reservation(2, 5, 6), Reservation(12, 20, 2))]
)


def jobs_of(rows: list[Row]) -> list[SimulatedJob]:
    return [
        SimulatedJob(
            id=number, submit_s=submit, nodes=nodes, requested_s=requested, user=user, run_s=run
        )
        for number, (submit, nodes, requested, run, user) in enumerate(rows)
    ]


class Foretelling(Recording):
    """Keeps all it was told to say at each event: predictions of everybody who waits."""

    def __init__(self, policy: object) -> None:
        super().__init__(policy)  # type: ignore[arg-type]  # any policy
        self.told: list[tuple[int, dict[int, int]]] = []

    def passed(self, touched: list[Job], now: int) -> list[Job]:
        every = predicted_starts(self, now)
        for job in self.policy.waiting():
            effort.steps["predicted starts"] += 1
            assert predicted_start(self, job, now) == every.get(job)
        self.told.append((now, {job.id: start_s for job, start_s in every.items()}))
        return touched


@settings(max_examples=effort.examples(150), deadline=None)
@given(st.sampled_from(NAMES), logs(exact=True), reserved)
def test_with_exact_estimates_and_no_later_arrivals_every_prediction_is_exact(
    name: str, rows: list[Row], blocks: tuple[Reservation, ...]
) -> None:
    scheduler = Foretelling(policy_maker(name)(Cluster(NODES, blocks)))
    starts = {job.id: job.start_s for job in replay(jobs_of(rows), scheduler)}
    for _, told in scheduler.told[events_until_last(scheduler, rows) :]:
        for number, start_s in told.items():
            assert start_s == starts[number]


def events_until_last(scheduler: Foretelling, rows: list[Row]) -> int:
    """The first event after which nobody comes: submissions come first in their second."""
    last_s = rows[-1][0]
    same = [at for at, (now, _) in enumerate(scheduler.told) if now == last_s]
    return same[0] + sum(1 for row in rows if row[0] == last_s) - 1


@settings(max_examples=effort.examples(60), deadline=None)
@given(logs(exact=True))
def test_fcfs_with_exact_estimates_is_predicted_exactly_whoever_comes_later(
    rows: list[Row],
) -> None:
    scheduler = Foretelling(policy_maker("fcfs")(Cluster(NODES)))
    starts = {job.id: job.start_s for job in replay(jobs_of(rows), scheduler)}
    assert all(
        start_s == starts[number] for _, told in scheduler.told for number, start_s in told.items()
    )


@settings(max_examples=effort.examples(60), deadline=None)
@given(logs(exact=True), reserved)
def test_conservative_promises_are_what_its_frozen_copy_does_if_estimates_are_exact(
    rows: list[Row], blocks: tuple[Reservation, ...]
) -> None:
    scheduler = Foretelling(policy_maker("conservative")(Cluster(NODES, blocks)))
    policy = scheduler.policy
    assert isinstance(policy, Conservative)
    for job in replay(jobs_of(rows), scheduler):
        now = job.end_s
        for each, start_s in predicted_starts(scheduler, now).items():
            assert start_s == policy.promised(each)


@settings(max_examples=effort.examples(100), deadline=None)
@given(st.sampled_from(NAMES), logs(), reserved)
def test_predicting_changes_nothing(
    name: str, rows: list[Row], blocks: tuple[Reservation, ...]
) -> None:
    plain = Scheduler(policy_maker(name)(Cluster(NODES, blocks)))
    before = [(job.id, job.start_s, job.end_s) for job in replay(jobs_of(rows), plain)]
    predicted = Predicted(policy_maker(name)(Cluster(NODES, blocks)), Accounts())
    after = []
    for job in replay(jobs_of(rows), predicted):
        predicted.predict_all(job.end_s)
        after.append((job.id, job.start_s, job.end_s))
    assert msgspec.json.encode(before) == msgspec.json.encode(after)
    assert not predicted.predictions


class Telling(PredictingScheduler):
    """Keeps what it told at each submission."""

    def __init__(self, policy: object) -> None:
        super().__init__(policy)  # type: ignore[arg-type]  # any policy
        self.told: list[tuple[int, Prediction | None]] = []

    def submit(self, job: Job, now: int) -> list[Job]:
        touched = super().submit(job, now)
        self.told.append((now, self.predictions.get(job)))
        return touched


@settings(max_examples=effort.examples(100), deadline=None)
@given(st.sampled_from(NAMES), logs(), logs(), st.integers(0, 20))
def test_nothing_after_a_time_has_any_part_in_what_is_predicted_until_then(
    name: str, rows: list[Row], others: list[Row], until_s: int
) -> None:
    """Other arrivals later, and other run times of all that still runs or waits."""
    first = Telling(policy_maker(name)(Cluster(NODES)))
    ends = {job.id: job.end_s for job in replay(jobs_of(rows), first)}
    changed = [
        (submit, nodes, requested, _longer(ends[number], until_s, run, requested), user)
        for number, (submit, nodes, requested, run, user) in enumerate(rows)
        if submit <= until_s
    ]
    changed += [(until_s + 1 + submit, *rest) for submit, *rest in others]  # type: ignore[misc]
    second = Telling(policy_maker(name)(Cluster(NODES)))
    for _ in replay(jobs_of(changed), second):
        pass
    past = [told for told in first.told if told[0] <= until_s]
    assert msgspec.json.encode(past) == msgspec.json.encode(second.told[: len(past)])


def _longer(end_s: int, until_s: int, run: int, requested: int) -> int:
    """Of a job that ends later than `until_s`, its requested time instead of its run time."""
    return requested if end_s > until_s else run
