"""What competition costs: bookings a second, messages, waiting and fairness, beside three other schemes.

    python benchmarks/contention.py [--quick] [--plot DIR] [--live] [...]

Clients that want the same resources book them again and again, in virtual time; lines take 25 ms one
way. See docs/contention-benchmark.md for what each figure means. JSON goes to standard output, tables
for people to standard error. Prints figures and judges nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

# In place of this folder, whose calendar.py would stand in for the standard library's.
if __name__ == "__main__":
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.contenders import figure_two, live, report
from benchmarks.contenders.demand import Scenario, Spread, Wish
from benchmarks.contenders.measures import SCHEMES, Length, run
from benchmarks.contenders.network import Costs

FULL: Final = Length(warm_up_s=1.0, seconds=2.0, seconds_max=120.0, bookings_each=3, bookings=100)
QUICK: Final = Length(warm_up_s=0.1, seconds=0.3, seconds_max=20.0, bookings_each=1, bookings=10)

SITES_MAX: Final = 200
"""Above so many resources a site has several."""

SPREADS: Final[tuple[Spread, ...]] = ("disjoint", "uniform", "zipf")
WISHES: Final[tuple[Wish, ...]] = ("earliest", "fixed", "scarce")
JOBS: Final = 64


def scenarios(
    clients: Sequence[int], resources: Sequence[int], spreads: Sequence[Spread],
    wishes: Sequence[Wish],
) -> Iterator[Scenario]:  # fmt: skip
    """Every combination that says something of its own.

    Without competition (disjoint) the number of resources does not, and hours are scarce only where
    resources are few.
    """
    for wish, count, spread in itertools.product(wishes, clients, spreads):
        alone = spread == "disjoint" or wish == "scarce"
        for number in resources[:1] if alone else resources:
            per_site = -(-number // SITES_MAX) if spread != "disjoint" else 1
            yield Scenario(count, number, spread, wish, per_site=per_site)


def contention(options: argparse.Namespace) -> dict[str, Any]:
    length = QUICK if options.quick else FULL
    costs = Costs(options.one_way_ms, options.service_us, options.sync_us)
    cells = [
        (scheme, scenario)
        for scenario in scenarios(
            options.clients, options.resources, options.spreads, options.wishes
        )
        for scheme in options.schemes
    ]
    measured = partial(_measured, costs=costs, length=length, seed=options.seed)
    if options.workers == 1:
        rows = list(map(measured, cells))
    else:
        with ProcessPoolExecutor(options.workers) as pool:
            rows = list(pool.map(measured, cells))
    report.share_of_disjoint(rows)
    jobs = figure_two.many_jobs(JOBS, 10, options.seed)
    return {
        "costs": costs._asdict(),
        "seed": options.seed,
        "rows": rows,
        "figure_two": [
            figure_two.measure(scheme, each, costs, options.seed)
            for each in (figure_two.THE_PAPERS, jobs)
            for scheme in ("whole resources", *options.schemes)
        ],
    }


def _measured(
    cell: tuple[str, Scenario], *, costs: Costs, length: Length, seed: int
) -> dict[str, Any]:
    scheme, scenario = cell
    row = run(scheme, scenario, costs, length, seed)
    print(report.progress(row), file=sys.stderr, flush=True)
    return row


def _listed(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _counts(text: str) -> list[int]:
    numbers = [int(part) for part in _listed(text)]
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of positive numbers")
    return numbers


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a little of everything: seconds")
    parser.add_argument("--live", action="store_true", help="real processes on loopback instead")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the figures into DIR")
    parser.add_argument("--schemes", type=_listed, default=list(SCHEMES), help=",".join(SCHEMES))
    parser.add_argument("--clients", type=_counts, metavar="N,N..")
    parser.add_argument("--resources", type=_counts, metavar="N,N..")
    parser.add_argument("--spreads", type=_listed, default=SPREADS, help=",".join(SPREADS))
    parser.add_argument("--wishes", type=_listed, default=WISHES, help=",".join(WISHES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes to compute with")
    costs = Costs()
    parser.add_argument("--one-way-ms", type=float, default=costs.one_way_ms)
    parser.add_argument("--service-us", type=int, default=costs.service_us)
    parser.add_argument("--sync-us", type=int, default=costs.sync_us)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load, with --live")
    options = parser.parse_args(arguments)
    for name, wanted, known in (
        ("scheme", options.schemes, SCHEMES),
        ("spread", options.spreads, SPREADS),
        ("wish", options.wishes, WISHES),
    ):
        if unknown := sorted(set(wanted) - set(known)):
            parser.error(f"there is no {name} {', '.join(unknown)}; there are {', '.join(known)}")
    full = (1, 8, 64) if options.live else (2, 8, 64, 256)
    options.clients = options.clients or ([2, 8] if options.quick else list(full))
    options.resources = options.resources or ([10] if options.quick else [10, 100, 1_000])
    for number in options.resources:
        if number < 3:
            parser.error(f"clients want up to three resources together, and there are {number}")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = options_of(arguments)
    if options.live:
        seconds = 0.5 if options.quick else options.seconds
        result: dict[str, Any] = {"live": live.measure(options.clients, seconds)}
        report.share_of_disjoint(result["live"])
        print(report.live_table(result["live"]), file=sys.stderr)
    else:
        result = contention(options)
        print(report.tables(result), file=sys.stderr)
        if options.plot is not None:
            from benchmarks.contenders import plots

            plots.draw(result, options.plot)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
