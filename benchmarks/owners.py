"""What an owner's prices and an owner's script cost each booking, beside plain sites, in one run.

    python -m benchmarks.owners [--seconds 5] [--rounds 3] [--json]

The bookings are those of `benchmarks.booking`: three of five sites, known slots. All sites are of one kind:
plain, with a price, or with a script that is asked about each booking. The kinds take turns, so that a busy
moment meets all of them; figures are medians of the rounds. One booking at a time shows what a visit takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any, Final

import kalends
from benchmarks.booking import CAPACITY, SITES, measure, wait_until_up
from benchmarks.facility import Facility, facility

IN_FLIGHT: Final = (1, 32)
CREDIT_PARTS: Final = 1 << 50

PRICED: Final = """
[[site.resources.prices]]
name = "night"
hours = [{ rrule = "FREQ=DAILY", start = "20:00", duration = "12h" }]
credits = 0.001
[[site.resources.prices]]
name = "all"
credits = 0.002
"""
SCRIPT: Final = """
def decide(request, calendar, usage):
    \"\"\"No user has more than a million hours in a week.\"\"\"
    if usage["user"]["week_hours"] > 1000000:
        return "that is enough for this week"
    return True
"""
KINDS: Final = ("plain", "priced", "scripted")


def of_resource(kind: str, directory: Path) -> str:
    """What the configuration of each resource has besides, for sites of this `kind`."""
    if kind == "plain":
        return ""
    if kind == "priced":
        return PRICED
    script = directory / "rule.agent.py"
    script.write_text(SCRIPT)
    return f'decide = {{ script = "{script}" }}\n'


async def grant(running: Facility) -> None:
    """Give the user who books credit at all sites."""
    for site in running.sites:
        async with kalends.connect(site.url, user="owner") as client:
            await client.grant_credits("user:somebody", CREDIT_PARTS)


async def one_round(kind: str, seconds: float) -> list[dict[str, Any]]:
    """Book at new sites of this `kind`, with each number of bookings in flight."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        more = of_resource(kind, directory)
        with facility(directory, SITES, capacity=CAPACITY, of_resource=more) as running:
            await wait_until_up(running.broker.url)
            if kind == "priced":
                await grant(running)
            return [await measure(running, in_flight, seconds) for in_flight in IN_FLIGHT]


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one kind, over its `rounds` with the same number in flight."""
    at_sites = [
        statistics.mean(us for name, us in each["cpu_us_per_booking"].items() if "site" in name)
        for each in rounds
    ]
    return {
        **{
            name: statistics.median(each[name] for each in rounds)
            for name in ("in_flight", "bookings_per_s", "p50_ms", "p99_ms")
        },
        "failed": sum(each["failed"] for each in rounds),
        "broker_us": statistics.median(each["cpu_us_per_booking"]["broker"] for each in rounds),
        "site_us": statistics.median(at_sites),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return `rows` as people read them."""
    lines = [
        f"{'sites':<9} {'in flight':>9} {'bookings/s':>10} {'p50 ms':>8} {'p99 ms':>8}"
        f" {'broker us':>9} {'a site us':>9} {'failed':>6}"
    ]
    lines += [
        f"{row['kind']:<9} {row['in_flight']:>9} {row['bookings_per_s']:>10.0f} {row['p50_ms']:>8.2f}"
        f" {row['p99_ms']:>8.2f} {row['broker_us']:>9.0f} {row['site_us']:>9.0f} {row['failed']:>6}"
        for row in rows
    ]
    return "\n".join([*lines, "us: processor time for each booking"])


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    measured: dict[str, list[list[dict[str, Any]]]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind in KINDS:
            measured[kind].append(asyncio.run(one_round(kind, options.seconds)))
    rows = [
        {"kind": kind, **medians([each[number] for each in measured[kind]])}
        for number in range(len(IN_FLIGHT))
        for kind in KINDS
    ]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
