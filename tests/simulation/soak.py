"""New seeds on all cores, as long as you like: python -m tests.simulation.soak --seconds N."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import time
from collections import Counter

from tests.simulation.schedule import Report, complaint, run


def main() -> int:
    """Returns 1 when a schedule breaks a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--first", type=int, default=None, help="the first seed; else a fresh one")
    options = parser.parse_args()
    first = secrets.randbits(48) if options.first is None else options.first
    deadline_s = time.monotonic() + options.seconds
    faults: Counter[str] = Counter()
    schedules = events = answers = reserved = simulated_ms = 0
    broken: list[Report] = []
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        while time.monotonic() < deadline_s:
            for report in pool.imap_unordered(run, range(first, first + 200), chunksize=10):
                schedules += 1
                events += report.events
                answers += report.answers
                reserved += report.reserved
                simulated_ms += report.simulated_ms
                faults += report.faults
                if report.violation:
                    broken.append(report)
                    print(complaint(report), flush=True)
            first += 200
    for kind, count in sorted(faults.items()):
        print(f"{count:>10} {kind}")
    print(
        f"{schedules} schedules, {events} events, {answers} answers, {reserved} reservations, "
        f"{simulated_ms / 3_600_000:.1f} simulated hours, {len(broken)} violations"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
