"""Replay one schedule and print all of it: python -m tests.simulation.replay SEED --climate NAME."""

from __future__ import annotations

import argparse

from tests.simulation.climates import CLIMATES, EVERY_FAULT


def main() -> int:
    """Returns 1 when the schedule breaks a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--climate", choices=sorted(CLIMATES), default=EVERY_FAULT.name)
    options = parser.parse_args()
    report = CLIMATES[options.climate].run(options.seed, keep_trace=True)
    for line in report.trace or ():
        print(line)
    print(f"trace {report.trace_hash}")
    return 1 if report.violation else 0


if __name__ == "__main__":
    raise SystemExit(main())
