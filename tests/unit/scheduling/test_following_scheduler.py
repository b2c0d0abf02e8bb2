"""The scheduler of the process beside a site: it predicts for thousands who were submitted at once."""

from __future__ import annotations

from kalends.scheduling import Cluster, Job, policy_maker
from kalends.scheduling.prediction.predictor import (
    LEARNED_WAITING,
    FollowingScheduler,
    PredictingScheduler,
)

WAITING = 20 * LEARNED_WAITING


def crowded(kind: type[PredictingScheduler], waiting: int) -> PredictingScheduler:
    """A machine that one job has for itself, and so many in line."""
    scheduler = kind(policy_maker("easy")(Cluster(8, live=True)))
    scheduler.submit(Job(0, 0, 8, 3_600), 0)
    for number in range(1, waiting + 1):
        scheduler.submit(Job(number, 0, 1 + number % 8, 60 * (1 + number % 5)), 0)
    return scheduler


def test_of_a_short_queue_it_learns_from_every_job() -> None:
    following = crowded(FollowingScheduler, LEARNED_WAITING)
    other = crowded(PredictingScheduler, LEARNED_WAITING)
    told = [{job.id: each for job, each in one.predictions.items()} for one in (following, other)]
    assert told[0] == told[1]
    assert len(told[0]) == LEARNED_WAITING


def test_of_a_long_queue_it_learns_from_few_and_predicts_all() -> None:
    following = crowded(FollowingScheduler, WAITING)
    assert len(following.predictions) < 4 * LEARNED_WAITING
    found = following.predict_all(0)
    assert len(found) == following.waiting == WAITING
    assert min(each.requested_s for each in found.values()) == 3_600
