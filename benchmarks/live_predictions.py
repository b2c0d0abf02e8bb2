"""How good the starts are that users of a live machine are told when they submit: a log told to its queue.

    python -m benchmarks.live_predictions LOG... [--policy easy] [--jobs 5000] [--seconds 180] [--json]

A second queue follows the stored facts of the first, as the process beside a site's server does, and predicts
with the same scheduler whenever a job has been submitted and must wait. What it says of that job then is
compared with the start that comes: the share of jobs that have started by P50, by P90 and by the latest start
told. It stops submitting after so many CPU seconds. Judges nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.live_queue.comparison import first_jobs
from benchmarks.live_queue.replay import MACHINE, LiveReplay
from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.scheduling.prediction.predictor import FollowingScheduler, Prediction
from kalends.simulation.job import SimulatedJob
from kalends.simulation.prediction_accuracy import Accounts


class FollowingQueue:
    """A queue that takes the facts of another one, and predicts."""

    def __init__(self) -> None:
        self._queue: BatchQueue | None = None
        self._new: list[f.JournalEntry] = []

    def store(self, entries: Iterable[f.JournalEntry]) -> None:
        self._new += entries

    def predictions(self) -> dict[int, Prediction]:
        """Return the predicted starts of the jobs that wait, by their numbers."""
        entries, self._new = self._new, []
        if self._queue is None:
            self._queue = BatchQueue(MACHINE, None, 0, entries, scheduler_type=FollowingScheduler)
        else:
            self._queue.follow(entries)
        scheduler = self._queue.flow.room.scheduler
        assert isinstance(scheduler, FollowingScheduler)
        found = scheduler.predict_all(self._queue.last_s)
        return {job.id: prediction for job, prediction in found.items()}

    @property
    def waiting(self) -> set[int]:
        """The numbers of the jobs that wait, by the facts that were taken."""
        if self._queue is None:
            return set()
        return {job.number for job in self._queue.flow.table if job.phase == "queued"}


class LivePredictions:
    """A log on a machine, and what each job that had to wait was told: `measure` lets it happen."""

    def __init__(self, jobs: Iterable[SimulatedJob], *, policy: str, nodes: int) -> None:
        self.accounts = Accounts()
        self.following = FollowingQueue()
        self.told: dict[int, Prediction] = {}
        """By number, of the jobs that have not started yet."""
        self.asked_s = 0.0
        """CPU time of all predictions, and of following the facts."""
        self._replay = LiveReplay(
            jobs, policy=policy, machine=f"pool:{nodes}", store=self.following.store
        )

    def measure(self) -> None:
        for event in self._replay.events():
            started = {self._replay.numbers[start.job] for start in event.started}
            for number in started:
                prediction = self.told.pop(number, None)
                if prediction is not None:
                    self.accounts.add(prediction, event.now)
            if event.submitted:
                self.accounts.jobs += 1
                if event.submitted not in started:
                    self._tell(event.submitted)

    def _tell(self, number: int) -> None:
        began_s = time.process_time()
        found = self.following.predictions()
        self.asked_s += time.process_time() - began_s
        if number in found:
            self.told[number] = found[number]


def measured(log: Path, policy: str, count: int, seconds: float) -> dict[str, Any]:
    nodes, jobs = first_jobs(log, count)
    began_s = time.process_time()

    def in_time() -> Iterator[SimulatedJob]:
        for job in jobs:
            if time.process_time() - began_s > seconds:
                return
            yield job

    predictions = LivePredictions(in_time(), policy=policy, nodes=nodes)
    predictions.measure()
    summary = predictions.accounts.summary()
    return {
        "log": log.name,
        "policy": policy,
        **summary,
        "ms_each": 1e3 * predictions.asked_s / max(summary["predicted"], 1),
        "seconds": time.process_time() - began_s,
    }


def shown(found: dict[str, Any]) -> str:
    if not found["predicted"]:
        return f"{found['log']} under {found['policy']}: no job had to wait"
    return "\n".join(
        (
            f"{found['log']} under {found['policy']}: {found['predicted']:,} of {found['jobs']:,} jobs "
            f"waited, {found['mean_wait_s']:,.0f} s on average",
            f"  started by   P50 {found['p50_coverage']:.1%}, P90 {found['p90_coverage']:.1%}, "
            f"latest {found['requested_coverage']:.1%}",
            f"  all jobs     P50 {found['p50_coverage_all']:.1%}, P90 {found['p90_coverage_all']:.1%}",
            f"  error / wait expected {found['expected_relative_error']:.2f}, "
            f"P50 {found['p50_relative_error']:.2f}, latest {found['requested_relative_error']:.2f}",
            f"  cost         {found['ms_each']:.1f} CPU ms for the prediction of all that wait, "
            f"{found['seconds']:.0f} CPU s in all",
        )
    )


def main() -> None:
    """Measure what is given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--policy", default="easy", help="names, with commas; default easy")
    parser.add_argument("--jobs", type=int, default=5000, help="of each log; default 5000")
    parser.add_argument("--seconds", type=float, default=180.0, help="CPU time of submissions")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each")
    given = parser.parse_args()
    for log in given.logs:
        for policy in given.policy.split(","):
            found = measured(log, policy, given.jobs, given.seconds)
            print(json.dumps(found) if given.json else shown(found), flush=True)


if __name__ == "__main__":
    main()
