"""Fresh seeds of every scenario on all cores: python -m tests.shells.soak --seconds N [NAME ...].

And each is played by a product that does nothing: that must break it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.shells.reports import Report
from tests.shells.running import names, plays

SEED_BITS: Final = 48
SEEDS: Final = 20
"""So many seeds of a scenario are played in a turn."""


def main() -> int:
    """Returns 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", help="scenarios; else all")
    options = parser.parse_args()
    until_s = time.monotonic() + options.seconds
    turns = itertools.cycle(options.names or names())
    played: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    virtual_s = 0.0
    with ThreadPoolExecutor(options.workers) as pool:
        idle = [(name, "nothing_is_ever_booked") for name in names()]
        idle += [(name, "no_job_ever_starts") for name in names("--machines")]
        wanted = [each for each in idle if not options.names or each[0] in options.names]
        for (name, mutation), caught in zip(wanted, pool.map(_is_caught, wanted), strict=True):
            broken[name] += not caught
            if not caught:
                print(f"{name} keeps every promise although {mutation}", flush=True)
        try:
            while time.monotonic() < until_s:
                turn = [next(turns) for _ in range(options.workers)]
                for report in itertools.chain.from_iterable(pool.map(_play, turn)):
                    played[report.name] += 1
                    judged.update(report.judged)
                    virtual_s += report.virtual_s
                    if report.broken:
                        broken[report.name] += 1
                        print(report.complaint(), flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print("interrupted: these are the plays up to now")
    for name, count in sorted(played.items()):
        print(f"{count:>10} plays of {name}, {broken[name]} broken")
    for kind, count in sorted(judged.items()):
        print(f"{count:>10} {kind}")
    hours = virtual_s / 3_600
    print(f"{played.total()} plays, {hours:.1f} virtual hours, {broken.total()} broken promises")
    return 1 if broken.total() else 0


def _is_caught(idle: tuple[str, str]) -> bool:
    name, mutation = idle
    seed = secrets.randbits(SEED_BITS)
    return bool(plays(name, seed, seed, mutation=mutation)[0].broken)


def _play(name: str) -> list[Report]:
    """Seeds that nobody has played before."""
    first = secrets.randbits(SEED_BITS)
    return plays(name, first, first + SEEDS - 1)


if __name__ == "__main__":
    sys.exit(main())
