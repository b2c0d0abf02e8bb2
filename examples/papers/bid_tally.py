"""What is counted in a federation, and the figures that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from bid_jobs import FederatedJob

WARM_SHARE: Final = 0.3
"""The first jobs meet machines that have no line yet: they do not count."""

HEAVY_S: Final = 3_600.0
LIGHT_S: Final = 600.0
VERY_LATE_S: Final = 900
BUSIEST_SHARE: Final = 0.1


class Tally:
    """Counts, and times of the jobs that count."""

    def __init__(self, jobs: int) -> None:
        self._first = int(WARM_SHARE * jobs)
        self.begun = 0
        self.messages = 0
        self.late_bids = 0
        self.rounds_in_vain = self.votes_in_vain = self.nobody = 0
        self.late = self.decided_late = self.very_late = 0
        """Places that began after what was promised, or a quarter of an hour after it; decisions that came
        after it themselves."""
        self.asked_of: Sequence[int] = ()
        """Questions by site."""
        self._jobs = jobs
        self._answer_ms: dict[int, float] = {}
        self._promise_ms: list[float] = []
        self._wait_s: list[float] = []
        self._light_wait_s: list[float] = []
        self._response_s: list[float] = []
        self._heavy: list[float] = []

    def answered(self, job: FederatedJob, now_ms: float) -> None:
        """The bids are in: it is known which is best. Of several rounds the last counts."""
        if job.number >= self._first:
            self._answer_ms[job.number] = now_ms - job.submit_ms

    def promised(self, job: FederatedJob, now_ms: float) -> None:
        """The best has promised: its user is told."""
        if job.number >= self._first:
            self._promise_ms.append(now_ms - job.submit_ms)

    def started(self, job: FederatedJob, now_ms: float, run_s: float, late_s: int) -> None:
        self.begun += 1
        self.late += late_s > 0
        self.very_late += late_s > VERY_LATE_S
        if job.number < self._first:
            return
        wait_s = (now_ms - job.submit_ms) / 1_000
        self._wait_s.append(wait_s)
        self._response_s.append(wait_s + run_s)
        if job.run_s <= LIGHT_S:
            self._light_wait_s.append(wait_s)
        if job.run_s >= HEAVY_S:
            self._heavy.append((wait_s + run_s) / job.run_s)

    def figures(self) -> dict[str, Any]:
        """All figures; times of the jobs after the first `WARM_SHARE`."""
        answers_ms = list(self._answer_ms.values())
        busiest = sorted(self.asked_of, reverse=True)[
            : max(1, round(BUSIEST_SHARE * len(self.asked_of)))
        ]
        return {
            "answer_p50_ms": quantile(answers_ms, 0.5),
            "answer_p99_ms": quantile(answers_ms, 0.99),
            "promise_p50_ms": quantile(self._promise_ms, 0.5),
            "promise_p99_ms": quantile(self._promise_ms, 0.99),
            "messages_per_job": self.messages / self._jobs,
            "asked_per_job": sum(self.asked_of) / self._jobs,
            "wait_s": fmean(self._wait_s),
            "light_wait_s": fmean(self._light_wait_s),
            "response_s": fmean(self._response_s),
            "heavy_response": fmean(self._heavy),
            "herd": sum(busiest) / sum(self.asked_of),
            "late_places": self.late,
            "very_late_places": self.very_late,
            "decided_late": self.decided_late,
            "late_bids": self.late_bids,
            "rounds_in_vain": self.rounds_in_vain,
            "votes_in_vain": self.votes_in_vain,
            "nobody_known": self.nobody,
        }


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of all do not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
