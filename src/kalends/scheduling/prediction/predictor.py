"""A scheduler that predicts the start of every job that must wait, and learns from the outcomes."""

from __future__ import annotations

from typing import Final

import msgspec

from kalends.scheduling.job import Job
from kalends.scheduling.policy import Policy
from kalends.scheduling.prediction.frozen import predicted_start, predicted_starts
from kalends.scheduling.prediction.learner import Learner, WaitHistory
from kalends.scheduling.prediction.run_times import RunTimes
from kalends.scheduling.scheduler import Scheduler

LEARNED_WAITING: Final = 50
"""Number of waiting jobs up to which a `FollowingScheduler` learns from every job."""


class Prediction(msgspec.Struct, frozen=True):
    """The predicted start of a waiting job, as known at `made_s`."""

    made_s: int
    requested_s: int
    """Start if all run as long as requested, and no job is submitted."""
    expected_s: int
    """Start if all run as long as similar jobs before, and no job is submitted."""
    p50_s: int
    """Median of the start."""
    p90_s: int
    """90 % quantile of the start."""


class PredictingScheduler(Scheduler):
    """Decides as any `Scheduler` does, and predicts. Used live and simulated alike.

    `predictions` has the prediction of each waiting job at its submission. Jobs that started at once, and
    jobs beyond the reach of a prediction, have none.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.predictions: dict[Job, Prediction] = {}
        self.run_times = RunTimes()
        self.learner = Learner()

    def submit(self, job: Job, now: int) -> list[Job]:
        touched = super().submit(job, now)
        self._begun(touched, now)
        if job.start_s < 0:
            waits = self._waits(job, now)
            if waits is not None:
                bounds = self.learner.predict(job.order, waits, now)
                self.predictions[job] = _prediction(waits, bounds, now)
        return touched

    def end(self, job: Job, now: int) -> list[Job]:
        touched = super().end(job, now)
        self.run_times.ended(job, now)
        self._begun(touched, now)
        return touched

    def break_off(self, job: Job, now: int) -> list[Job]:
        touched = super().break_off(job, now)
        self._begun(touched, now)
        return touched

    def run_again(self, job: Job, again: Job, now: int) -> list[Job]:
        touched = super().run_again(job, again, now)
        self._begun(touched, now)
        return touched

    def wake(self, now: int) -> list[Job]:
        touched = super().wake(now)
        self._begun(touched, now)
        return touched

    def started(self, job: Job, prediction: Prediction, now: int) -> None:
        """Note that a job with this `prediction` starts now; for subclasses that keep accounts."""

    def continued_as(self, kind: type[Scheduler]) -> Scheduler:
        if kind is not Scheduler:
            return super().continued_as(kind)
        learned = {"predictions", "run_times", "learner"}
        plain = object.__new__(Scheduler)
        vars(plain).update(
            (name, value) for name, value in vars(self).items() if name not in learned
        )
        return plain

    def predict_all(self, now: int) -> dict[Job, Prediction]:
        """Return the predictions of all waiting jobs, as of the last event.

        Nothing is learned from them.

        Bounds are those of a job that is submitted now and has the same prospects: they were not adapted to
        jobs that have waited a while.
        """
        requested = predicted_starts(self, now)
        expected = predicted_starts(self, now, expected_end=self.run_times.expected_end)
        found = {}
        for job, start_s in expected.items():
            if job in requested:
                waits = WaitHistory(start_s - now, requested[job] - now, job.nodes)
                found[job] = _prediction(waits, self.learner.bounds(waits, now), now)
        return found

    def _leave(self, job: Job, now: int) -> None:
        super()._leave(job, now)
        self.predictions.pop(job, None)
        self.learner.withdrawn(job.order)

    def _waits(self, job: Job, now: int) -> WaitHistory | None:
        requested_s = predicted_start(self, job, now)
        expected_s = predicted_start(self, job, now, expected_end=self.run_times.expected_end)
        if requested_s is None or expected_s is None:
            return None
        return WaitHistory(expected_s - now, requested_s - now, job.nodes)

    def _begun(self, touched: list[Job], now: int) -> None:
        for job in touched:
            if job.granted and job in self.predictions:
                self.learner.started(job.order, now)
                self.started(job, self.predictions.pop(job), now)


class FollowingScheduler(PredictingScheduler):
    """Predicts on request (`predict_all`), and at submissions only to learn: from few jobs if many wait.

    The cost of a prediction grows with the number of waiting jobs. So that thousands can be submitted at
    once, it learns from one in `n` squared of the jobs that find `n` times `LEARNED_WAITING` jobs waiting.
    """

    def _waits(self, job: Job, now: int) -> WaitHistory | None:
        if job.order % max(self.waiting // LEARNED_WAITING, 1) ** 2:
            return None
        return super()._waits(job, now)


def _prediction(waits: WaitHistory, bounds: tuple[int, ...], now: int) -> Prediction:
    return Prediction(now, now + waits.requested_s, now + waits.expected_s, *bounds)
