"""Fresh seeds in every climate, on all cores: python -m tests.simulation.soak --seconds N."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from tests.simulation.climates import CLIMATES, EVERY_FAULT, run_by_name
from tests.simulation.schedule import Report, complaint
from tests.support.source import commit

SHARE: Final = {name: 100 if name == EVERY_FAULT.name else 10 for name in CLIMATES}
"""Schedules of each climate in one round."""

Task = tuple[str, int]


def run_task(task: Task) -> tuple[str, Report]:
    return task[0], run_by_name(*task)


def one_round(climates: Collection[str]) -> list[Task]:
    """Climates and seeds: nobody has run them before."""
    return [
        (name, first + number)
        for name, count in SHARE.items()
        if name in climates
        for first in (secrets.randbits(48),)
        for number in range(count)
    ]


def rounds(seconds: float, least: int, climates: Collection[str]) -> Iterator[list[Task]]:
    """Rounds for so long, and until every climate had `least` schedules."""
    deadline_s = time.monotonic() + seconds
    done = 0
    while time.monotonic() < deadline_s or done < least:
        yield one_round(climates)
        done += min(SHARE.values())


def main() -> int:
    """Returns 1 when a schedule breaks a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--least", type=int, default=500, help="schedules of every climate")
    parser.add_argument(
        "--climates", nargs="+", choices=CLIMATES, default=CLIMATES, metavar="CLIMATE",
        help="only these, such as batch-systems",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    source = commit()
    faults: Counter[str] = Counter()
    schedules: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    events = answers = reserved = simulated_ms = 0
    try:
        with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
            for tasks in rounds(options.seconds, options.least, options.climates):
                for climate, report in pool.imap_unordered(run_task, tasks, chunksize=5):
                    schedules[climate] += 1
                    faults += report.faults
                    events += report.events
                    answers += report.answers
                    reserved += report.reserved
                    simulated_ms += report.simulated_ms
                    if report.violation:
                        broken[climate] += 1
                        print(f"at {source}, {complaint(report, climate)}", flush=True)
    except KeyboardInterrupt:
        print("interrupted: these are the schedules up to now")
    for kind, count in sorted(faults.items()):
        print(f"{count:>10} {kind}")
    for name in options.climates:
        print(f"{schedules[name]:>10} schedules of {name}, {broken[name]} violations")
    print(
        f"{schedules.total()} schedules at {source}, {events} events, {answers} answers, "
        f"{reserved} reservations, {simulated_ms / 3_600_000:.1f} simulated hours, "
        f"{broken.total()} violations"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
