"""Compares the search for clashes with the slow twin on as many random pairs as one likes.

``python -m tests.property.calendars.clash_soak --pairs 1000000 --seed 1`` prints its figures as JSON, every
mismatch with the two rules, and ends with 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from itertools import combinations

from tests.property.calendars.clash_twin import Maker, Spec, slow_first_clash, touch

from kalends.calendars.recurrence.clashes import first_clash
from kalends.core import limits

BATCH = 120
"""Series that are expanded once and compared with one another: 7,140 pairs."""


def compare(seed: str, pairs: int, tally: Counter[str]) -> list[str]:
    """Compares `pairs` pairs of one batch; the mismatches in words."""
    maker = Maker(seed)
    mismatches = []
    for one, other in list(combinations(maker.batch(BATCH), 2))[:pairs]:
        not_before = _not_before(maker, one)
        slow = slow_first_clash(one, other, not_before)
        fast = first_clash(one.recurrence, other.recurrence, not_before)
        tally["pairs"] += 1
        if slow is not None:
            tally["clashing"] += 1
        else:
            tally["touching only" if touch(one, other) else "never"] += 1
        tally["in different zones"] += one.zone != other.zone
        tally["without end"] += not (_ends(one) or _ends(other))
        if fast != slow:
            words = f"{one.recurrence._key()} {other.recurrence._key()} from {not_before}"
            mismatches.append(f"{words}: {fast}, but {slow}")
    tally["mismatches"] += len(mismatches)
    return mismatches


def _not_before(maker: Maker, one: Spec) -> int:
    """Mostly all of time; else the middle of some window."""
    opens, closes = one.windows
    if not len(opens) or maker.random.random() < 0.8:
        return 0
    index = maker.random.randrange(min(len(opens), 100))
    middle = int(opens[index] + closes[index]) // 2
    return min(max(middle, 0), limits.TIME_S_MAX)


def _ends(spec: Spec) -> bool:
    return bool(spec.last or spec.count or spec.until)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tally: Counter[str] = Counter()
    begun = time.monotonic()
    batch = 0
    while tally["pairs"] < arguments.pairs:
        left = arguments.pairs - tally["pairs"]
        for mismatch in compare(f"{arguments.seed}/{batch}", left, tally):
            print(mismatch)
        batch += 1
    seconds = round(time.monotonic() - begun, 1)
    print(json.dumps({**tally, "seconds": seconds, "seed": arguments.seed}))
    return 1 if tally["mismatches"] else 0


if __name__ == "__main__":
    sys.exit(main())
