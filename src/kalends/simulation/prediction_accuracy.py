"""The accuracy of predicted starts: a replay whose scheduler predicts and keeps accounts.

    accounts = Accounts()
    kalends.simulate(log, policy="easy", accounts=accounts)
    accounts.summary()["p90_coverage"]

The schedule is the same as without. Methods are told apart by name: ``requested`` is the naive one, the
frozen scheduler with requested times taken as they are; ``expected`` the same with learned run times;
``p50`` and ``p90`` the bounds.
"""

from __future__ import annotations

from array import array
from typing import Final

from kalends.scheduling.job import Job
from kalends.scheduling.policy import Policy
from kalends.scheduling.prediction.predictor import PredictingScheduler, Prediction

METHODS: Final = ("requested", "expected", "p50", "p90")
SHARES: Final = {"p50": 0.5, "p90": 0.9}
"""Shares of jobs that are to start by each bound."""


class Accounts:
    """Errors of predictions: start less predicted start, so that above 0 is late. 32 bytes a prediction."""

    def __init__(self) -> None:
        self.jobs = 0
        """Number of jobs submitted."""
        self.wait_s = 0
        """Sums over the predicted jobs, from the time of the prediction."""
        self.errors_s = {name: array("q") for name in METHODS}
        """Errors by method, in order of starts, for the error curves."""

    def add(self, prediction: Prediction, start_s: int) -> None:
        """Add a job that was predicted and has started."""
        self.wait_s += start_s - prediction.made_s
        told = prediction.requested_s, prediction.expected_s, prediction.p50_s, prediction.p90_s
        for name, told_s in zip(METHODS, told, strict=True):
            self.errors_s[name].append(start_s - told_s)

    def summary(self) -> dict[str, float]:
        """Return numbers for the results; rates are shares of 1. Only the counts if no job waited.

        - ``jobs``, ``predicted``: submitted, and told a prediction because they had to wait;
        - ``mean_wait_s`` of the predicted;
        - ``METHOD_mean_error_s``: mean absolute error; ``METHOD_relative_error``: the same divided by the
          mean wait (Smith, Taylor and Foster 1999); ``METHOD_exact``, ``_late``, ``_early``: shares of the
          jobs that started then, later, earlier; ``METHOD_coverage``: exact and early together;
        - ``p50_pinball_s``, ``p90_pinball_s``: mean pinball loss; ``requested_pinball_s``: the same of the
          naive prediction, taken for a P90;
        - ``width_s``: mean of P90 less P50;
        - ``p50_coverage_all``, ``p90_coverage_all``: over all jobs, those that started at once counted as
          within: they were told so.
        """
        count = len(self.errors_s["p50"])
        found: dict[str, float] = {"jobs": self.jobs, "predicted": count}
        if not count:
            return found
        found["mean_wait_s"] = self.wait_s / count
        for name, errors_s in self.errors_s.items():
            late = sum(error_s > 0 for error_s in errors_s)
            exact = errors_s.count(0)
            total_s = sum(map(abs, errors_s))
            found[f"{name}_mean_error_s"] = total_s / count
            found[f"{name}_relative_error"] = total_s / self.wait_s if self.wait_s else 0.0
            found[f"{name}_exact"] = exact / count
            found[f"{name}_late"] = late / count
            found[f"{name}_early"] = (count - late - exact) / count
            found[f"{name}_coverage"] = 1 - late / count
        for name, share in SHARES.items():
            found[f"{name}_pinball_s"] = pinball(self.errors_s[name], share) / count
            late = sum(error_s > 0 for error_s in self.errors_s[name])
            found[f"{name}_coverage_all"] = 1 - late / max(self.jobs, count)
        found["requested_pinball_s"] = pinball(self.errors_s["requested"], SHARES["p90"]) / count
        p50, p90 = self.errors_s["p50"], self.errors_s["p90"]
        found["width_s"] = (sum(p50) - sum(p90)) / count
        return found


def pinball(errors_s: array[int], share: float) -> float:
    """Return the summed pinball loss of bounds that promise `share`: late counts `share` a second."""
    late_s = sum(error_s for error_s in errors_s if error_s > 0)
    early_s = late_s - sum(errors_s)
    return share * late_s + (1 - share) * early_s


class Predicted(PredictingScheduler):
    """Predicts at submission, and keeps `accounts`."""

    def __init__(self, policy: Policy, accounts: Accounts) -> None:
        super().__init__(policy)
        self._accounts = accounts

    def submit(self, job: Job, now: int) -> list[Job]:
        self._accounts.jobs += 1
        return super().submit(job, now)

    def started(self, job: Job, prediction: Prediction, now: int) -> None:
        self._accounts.add(prediction, now)
