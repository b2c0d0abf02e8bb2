"""Play a scenario: python -m tests.shells NAME FIRST [LAST] [--mutation NAME] [--trace FILE]."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.shells import substitutes  # noqa: F401  # before aiohttp and the product

# isort: split
from tests.shells import scenarios
from tests.shells.playing import play


def main() -> int:
    """Returns 1 when a promise is broken."""
    scenarios.load_all()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(scenarios.SCENARIOS))
    parser.add_argument("first", type=int, nargs="?", default=1)
    parser.add_argument("last", type=int, nargs="?")
    parser.add_argument("--mutation", default="", help="break the product first")
    parser.add_argument("--trace", type=Path, help="write every line of it to this file")
    parser.add_argument(
        "--names", action="store_true", help="only list the scenarios that are short"
    )
    parser.add_argument("--machines", action="store_true", help="of those, the ones with machines")
    parser.add_argument("--json", action="store_true", help="one report a line")
    parser.add_argument(
        "--told", action="store_true", help="play what lines of the input say, and report as many"
    )
    options = parser.parse_args()
    if options.told:
        for line in sys.stdin:
            name, seed, mutation = json.loads(line)
            print(json.dumps(play(name, seed, mutation=mutation)._asdict()), flush=True)
        return 0
    if options.names or options.name is None:
        known = sorted(scenarios.SCENARIOS.items())
        short = [(name, scenario.plan) for name, scenario in known if not scenario.long]
        print("\n".join(name for name, plan in short if plan.machine or not options.machines))
        return 0
    last = options.first if options.last is None else options.last
    broken = 0
    for seed in range(options.first, last + 1):
        report = play(options.name, seed, mutation=options.mutation, trace=options.trace)
        broken += bool(report.broken)
        if options.json:
            print(json.dumps(report._asdict()), flush=True)
        elif report.broken:
            print(report.complaint(), flush=True)
        else:
            print(
                f"{report.name} {seed}: {report.virtual_s:.0f} virtual s, {report.cpu_s:.2f} CPU s, "
                f"{report.events} events, judged {report.judged}, trace {report.trace_hash[:16]}",
                flush=True,
            )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
