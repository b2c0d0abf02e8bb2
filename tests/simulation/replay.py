"""Replay one schedule and print all of it: python -m tests.simulation.replay SEED."""

from __future__ import annotations

import sys

from tests.simulation.schedule import run


def main() -> int:
    """Returns 1 when the schedule breaks a promise."""
    report = run(int(sys.argv[1]), keep_trace=True)
    for line in report.trace or ():
        print(line)
    print(f"trace {report.trace_hash}")
    return 1 if report.violation else 0


if __name__ == "__main__":
    raise SystemExit(main())
