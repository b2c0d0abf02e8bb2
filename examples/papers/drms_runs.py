"""Runs of many points, on all cores, until each is known as well as is wanted; and what came out.

Every run has a seed of its own, so runs are independent, can be made anywhere and be kept in a file: a
long row of them can be stopped and gone on with.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any, Final

from drms_applications import CATEGORIES
from drms_simulation import SETTINGS, Point, run, settings
from paired_means import PairedMeans, Ratio

FIRST_SEED: Final = 1996
RUNS_MIN: Final = 2
"""A standard error from the batches of a single run says too little."""


class Known:
    """What the runs of one point have told so far."""

    def __init__(self, point: Point, share: float, limit: int) -> None:
        self.point = point
        self.share = share
        self.runs_max = max(limit // point.jobs, 1)
        self.runs: dict[int, dict[str, Any]] = {}
        """By their seeds."""
        self.running: set[int] = set()
        """The seeds of those that are being made."""
        self.means: PairedMeans = point.means()

    def begin(self) -> int:
        """The seed of another run, which is being made from now on."""
        taken = self.running | set(self.runs)
        seed = next(seed for seed in count(FIRST_SEED) if seed not in taken)
        self.running.add(seed)
        return seed

    def take(self, made: dict[str, Any]) -> None:
        """A run was made."""
        self.running.discard(made["seed"])
        self.runs[made["seed"]] = made
        self.means = self.point.means()
        if not self.saturated:
            # In order of seeds: whoever comes last changes nothing.
            for seed in sorted(self.runs):
                self.means.extend(self.runs[seed]["batches"])

    @property
    def saturated(self) -> str:
        """The policy whose queue grows without end; empty if there is none."""
        return next((each["saturated"] for each in self.runs.values() if each["saturated"]), "")

    @property
    def ratios(self) -> list[Ratio]:
        """For each policy, the mean response time of all jobs divided by that under the baseline."""
        labels, baseline = self.point.labels, self.point.baseline
        return [self.means.ratio(each, baseline) for each in labels if each != baseline]

    @property
    def error(self) -> float:
        """The largest standard error of a ratio, as a share of it."""
        return max(each.relative_error for each in self.ratios)

    @property
    def missing(self) -> int:
        """How many more runs are about needed; 0 if it is known well enough, or as well as it may be."""
        made = len(self.runs)
        if self.saturated or made >= self.runs_max:
            return 0
        if not made:
            return min(RUNS_MIN, self.runs_max)
        if made >= RUNS_MIN and all(each.settled(self.share) for each in self.ratios):
            return 0
        # The error falls with the root of the runs.
        needed = max(ceil(made * (self.error / self.share) ** 2), made + 1)
        return min(needed, self.runs_max) - made

    @property
    def seconds_missing(self) -> float:
        """CPU time of the runs that are about needed, by that of those that were made."""
        took_s = [each["seconds"] for each in self.runs.values()]
        return self.missing * sum(took_s) / len(took_s) if took_s else 0.0

    def row(self) -> dict[str, Any]:
        """The figures, as JSON has them."""
        row: dict[str, Any] = settings(self.point) | {
            "jobs": len(self.runs) * self.point.jobs,
            "saturated": self.saturated,
        }
        if self.runs and not self.saturated:
            row["largest_error"] = self.error
            row["of"] = {label: self._of(label) for label in self.point.labels}
        return row

    def _of(self, label: str) -> dict[str, Any]:
        means, baseline = self.means, self.point.baseline
        changes = [each["changes_per_job"][label] for each in self.runs.values()]
        return {
            "mean_response_s": _figures(means.mean(label)),
            "of_category_s": {
                name: _figures(means.ratio(f"{label} {name}", name)) for name in CATEGORIES
            },
            "ratio": _figures(means.ratio(label, baseline)),
            "ratio_of_category": {
                name: _figures(means.ratio(f"{label} {name}", f"{baseline} {name}"))
                for name in CATEGORIES
            },
            "changes_per_job": sum(changes) / len(changes),
        }


def _figures(ratio: Ratio) -> dict[str, float]:
    return {"value": ratio.value, "error": ratio.relative_error}


def known(
    points: Sequence[Point],
    *,
    share: float,
    limit: int,
    processes: int,
    minutes: float,
    save: Path | None,
) -> list[dict[str, Any]]:
    """Run every point until its standard errors are at most `share`, or `limit` jobs have been simulated.

    All points get one run, then those are finished that are nearest to it. No run begins after
    so many `minutes`. Runs that are in the file `save` count, and new ones are added to it.
    """
    all_known = [Known(each, share, limit) for each in points]
    _read(save, all_known)
    began_s = monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        running: dict[Future[dict[str, Any]], Known] = {}
        runs = 0
        while True:
            while len(running) < processes and monotonic() - began_s < 60 * minutes:
                one = next_of(all_known)
                if one is None:
                    break
                running[pool.submit(run, one.point, one.begin())] = one
            if not running:
                return [each.row() for each in all_known]
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                one, made = running.pop(future), future.result()
                one.take(made)
                runs += 1
                if save is not None:
                    with save.open("a") as lines:
                        lines.write(json.dumps(made) + "\n")
                left_s = sum(each.missing for each in all_known) * (monotonic() - began_s) / runs
                _tell(one, left_s)


def next_of(all_known: Iterable[Known]) -> Known | None:
    """Return who gets the next run: first whoever has none yet, then whoever is nearest to the end."""
    wanting = [each for each in all_known if each.missing > len(each.running)]

    def turn(each: Known) -> tuple[bool, float]:
        return bool(each.runs or each.running), each.seconds_missing

    return min(wanting, key=turn, default=None)


def _read(save: Path | None, all_known: Iterable[Known]) -> None:
    """Take the runs of the file, as far as they are of these points; those of others stay in it."""
    if save is None or not save.exists():
        return
    by_settings = {json.dumps(settings(each.point)): each for each in all_known}
    for made in map(json.loads, save.read_text().splitlines()):
        mine = by_settings.get(json.dumps({name: made[name] for name in SETTINGS}))
        if mine is not None:
            mine.take(made)


def _tell(one: Known, left_s: float) -> None:
    told = f"{one.point.name}: {len(one.runs) * one.point.jobs:,} jobs"
    if one.saturated:
        told += f", the queue of {one.saturated} grows without end"
    else:
        told += f", standard error {one.error:.2%}"
    sys.stderr.write(f"{told}; about {left_s / 60:.0f} min left for all\n")
