"""Konuru, Moreira and Naik 1996, section 5: LS, AS and RS on 32 processors of an IBM SP2.

    python examples/papers/drms_policies.py [--quick] [--share 0.01] [--save FILE] [--json] [--plot FILE]
    python examples/papers/drms_policies.py --sensitivity

Prints Fig. 2, the ratios of the mean response times and their curves, beside what the paper says of it;
``--sensitivity`` its four additional experiments. At each point all policies get the same arrivals, until
the standard errors of the ratios of the mean responses of all jobs are at most ``--share`` of them.
``--limit`` and ``--minutes`` end it earlier: the error that was reached is told. What was simulated is
kept in the file ``--save``, and the next command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, Final

from drms_applications import CATEGORIES, FEWER_SIZES, Mix
from drms_runs import known
from drms_simulation import BATCHES, Contender, Point

from kalends.scheduling.policies.moldable.reconfigurable import INTERVAL

POLICIES: Final = ("LS", "AS", "RS")
WORKLOADS: Final = tuple((small, 25, 75 - small) for small in range(5, 56, 10))
UTILIZATIONS: Final = (0.2, 0.4, 0.6, 0.7, 0.8)
BATCH: Final = 8192
"""Jobs in a batch: many times as many as come while the machine is full."""
MIDDLE: Final = (25, 25, 50)
PLAIN: Final = "as in Fig. 2"
INTERVALS: Final = (2, 5, 10, 20)
PAPER: Final = (
    "RS is always better than the other two, and AS better than LS",
    "for a given workload, RS first gets better with utilization, then the advantage diminishes",
    "as the share of small jobs grows, its advantage first increases, then decreases",
    "jobs of all categories benefit (25:25:50), category I most, category III least",
    "AS is much better than LS for category I (25:25:50), not much different for the others",
    "the mean response was reduced by a factor of two in several instances",
)


def policies(mix: tuple[int, int, int]) -> tuple[Contender, ...]:
    """Fig. 2: the three policies on one workload."""
    return tuple(Contender(each, each, Mix(mix)) for each in POLICIES)


def variants() -> Iterator[Contender]:
    """RS as it is, and as the four additional experiments change it."""
    plain = Mix(MIDDLE)
    yield Contender(PLAIN, "RS", plain)
    yield Contender("no cost", "RS", Mix(MIDDLE, free_changes=True))
    yield Contender("category I too", "RS", Mix(MIDDLE, malleable=CATEGORIES))
    yield Contender("fewer sizes", "RS", Mix(MIDDLE, sizes=FEWER_SIZES))
    for interval in INTERVALS:
        if interval != INTERVAL:
            yield Contender(f"interval of {interval} costs", "RS", plain, interval)


def lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "The paper (it gives curves, few numbers):"
    yield from (f"  - {each}" for each in PAPER)
    yield ""
    yield "Ours. Mean response times in seconds; +- is a standard error."
    yield "workload    util        LS/RS        AS/RS       LS       AS       RS   LS/RS of I   II  III"
    for row in rows:
        told = f"{row['workload']:<10}  {row['utilization']:.2f}"
        if "of" not in row:
            yield f"{told}  {_why_without_figures(row)}"
            continue
        of = row["of"]
        ratios = [
            f"{ratio['value']:.3f} +-{ratio['error']:4.1%}"
            for ratio in (of[label]["ratio"] for label in ("LS", "AS"))
        ]
        means = [f"{of[label]['mean_response_s']['value']:>8.0f}" for label in POLICIES]
        categories = [f"{of['LS']['ratio_of_category'][name]['value']:.2f}" for name in CATEGORIES]
        yield f"{told}  {' '.join(ratios)} {' '.join(means)}         {' '.join(categories)}"


def sensitivity_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "The paper: without cost, at most 10 % less; category I too, no significant difference; fewer"
    yield "sizes, a significant loss, most at high utilization; intervals from 2 to 20 costs, little impact."
    yield ""
    yield "util  variant                 response  against RS  std. error  changes/job"
    for row in rows:
        if "of" not in row:
            yield f"{row['utilization']:.2f}  {_why_without_figures(row)}"
            continue
        for label, of in row["of"].items():
            yield (
                f"{row['utilization']:.2f}  {label:<22}  {of['mean_response_s']['value']:>8.0f}"
                f"  {of['ratio']['value'] - 1:>+10.1%}  {of['ratio']['error']:>10.1%}"
                f"  {of['changes_per_job']:>11.2f}"
            )


def _why_without_figures(row: dict[str, Any]) -> str:
    label = row["saturated"]
    return f"the queue of {label} grows without end" if label else "not simulated"


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """Fig. 2: the ratios of all workloads, and the response times of the middle one."""
    # Only whoever wants a picture needs matplotlib.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 2, figsize=(10, 12), layout="constrained")
    rows = [row for row in rows if "of" in row]
    names = list(dict.fromkeys(row["workload"] for row in rows))
    for axis, label in zip(axes[0], ("LS", "AS"), strict=True):
        for name in names:
            curve = [row for row in rows if row["workload"] == name]
            ratios = [row["of"][label]["ratio"] for row in curve]
            axis.errorbar(
                [row["utilization"] for row in curve],
                [each["value"] for each in ratios],
                [each["value"] * each["error"] for each in ratios],
                marker="o",
                label=name,
            )
        axis.set_title(f"E[R({label})] / E[R(RS)]")
        axis.legend(title="workload")
    shown = Mix(MIDDLE).name
    curve = [row for row in rows if row["workload"] == shown]
    for axis, category in zip(axes[1:].flat, ("all", *CATEGORIES), strict=True):
        for label in POLICIES:
            found = [row["of"][label] for row in curve]
            means = [
                each["mean_response_s"] if category == "all" else each["of_category_s"][category]
                for each in found
            ]
            axis.plot(
                [row["utilization"] for row in curve],
                [each["value"] for each in means],
                "o-",
                label=label,
            )
        axis.set_title(f"mean response in s, {shown}, category {category}")
        axis.legend()
    for axis in axes.flat:
        axis.set_xlabel("utilization")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few points, 3000 jobs each")
    parser.add_argument(
        "--share", type=float, default=0.01, help="standard error to reach, as a share"
    )
    parser.add_argument("--limit", type=int, default=8_000_000, help="jobs of a point at most")
    parser.add_argument("--utilizations", type=float, nargs="+", default=UTILIZATIONS)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument(
        "--sensitivity", action="store_true", help="the four additional experiments"
    )
    parser.add_argument("--minutes", type=float, default=inf, help="begin no run after that")
    parser.add_argument("--save", metavar="FILE", type=Path, help="keep all runs there")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    parser.add_argument("--plot", metavar="FILE", help="draw Fig. 2 (needs matplotlib)")
    arguments = parser.parse_args()
    if arguments.limit <= BATCHES:
        parser.error(f"--limit: {BATCHES + 1} jobs or more make a run")
    limit = 3000 if arguments.quick else arguments.limit
    workloads = (WORKLOADS[0], MIDDLE, WORKLOADS[-1]) if arguments.quick else WORKLOADS
    utilizations = (0.3, 0.6) if arguments.quick else arguments.utilizations
    if arguments.sensitivity:
        fields = [(tuple(variants()), PLAIN)]
    else:
        fields = [(policies(mix), POLICIES[-1]) for mix in workloads]
    points = [
        Point(contenders, baseline, at, min(BATCH, limit // (1 + BATCHES)))
        for contenders, baseline in fields
        for at in utilizations
    ]
    rows = known(
        points,
        share=arguments.share,
        limit=limit,
        processes=arguments.processes,
        minutes=arguments.minutes,
        save=arguments.save,
    )
    if arguments.plot and not arguments.sensitivity:
        plot(rows, arguments.plot)
    told = sensitivity_lines(rows) if arguments.sensitivity else lines(rows)
    print(json.dumps(rows, indent=1) if arguments.json else "\n".join(told))


if __name__ == "__main__":
    main()
