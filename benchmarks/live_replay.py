"""Live equals simulated: logs told to the queue of a live machine, beside `kalends simulate`.

    python -m benchmarks.live_replay LOG... [--policy easy,ivs] [--jobs 5000] [--treat RULES] [--at-limits]
        [--json]

For each log and policy: the jobs, how often they are stopped, and how many of them the live queue starts,
stops or lets go on at another time, or starts on another number of nodes, than the simulator; the CPU
seconds of both. Jobs that run to their very limit ask for a second more, on both sides: live such a job has
its nodes until its end is told, in the simulator it counts as gone by then. `--at-limits` leaves them as they
are. With `--treat`, as `kalends simulate` has it, jobs have the priorities without which `preemptive` stops
nobody. The exit code is 1 if any start differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.live_queue.comparison import Machine, first_jobs, live, simulated
from benchmarks.live_queue.replay import short_of_limits
from kalends.scheduling.registry import POLICIES
from kalends.simulation.job import SimulatedJob

NUMBER: Final = 10
"""For policies with a number that may not be left out."""

LIVE_POLICIES: Final = tuple(
    info.name + (f":{NUMBER}" if info.number and not info.optional else "") for info in POLICIES
)
"""All policies that a machine may have."""


def compared(jobs: list[SimulatedJob], policy: str, machine: Machine) -> dict[str, Any]:
    """Return how many starts there are, how many of them differ, and how often jobs were stopped."""
    began_s = time.process_time()
    expected = simulated(jobs, policy, machine)
    halfway_s = time.process_time()
    found = live(jobs, policy, machine)
    return {
        "policy": policy,
        "starts": len(expected),
        "different": sum(found.get(job) != course for job, course in expected.items()),
        "stops": sum(len(course.pauses) for course in expected.values()),
        "simulated_s": round(halfway_s - began_s, 2),
        "live_s": round(time.process_time() - halfway_s, 2),
    }


def main() -> int:
    """Compare what is given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--policy", default=",".join(LIVE_POLICIES), help="names, with commas")
    parser.add_argument("--jobs", type=int, default=5000, help="of each log; default 5000")
    parser.add_argument(
        "--treat", default="", help="priorities and shares, by queue, user or group"
    )
    parser.add_argument("--at-limits", action="store_true", help="leave jobs at their limits there")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each")
    given = parser.parse_args()
    different = 0
    for log in given.logs:
        nodes, jobs = first_jobs(log, given.jobs, given.treat)
        if not given.at_limits:
            jobs = list(short_of_limits(jobs))
        for policy in given.policy.split(","):
            found = {"log": log.name, **compared(jobs, policy, Machine(f"pool:{nodes}"))}
            different += found["different"]
            print(json.dumps(found) if given.json else shown(found), flush=True)
    return 1 if different else 0


def shown(found: dict[str, Any]) -> str:
    return (
        f"{found['log']:32} {found['policy']:18} {found['starts']:>7,} starts, {found['stops']:>6,} stops, "
        f"{found['different']:>6,} different; CPU s {found['simulated_s']:6.2f} simulated, "
        f"{found['live_s']:6.2f} live"
    )


if __name__ == "__main__":
    sys.exit(main())
