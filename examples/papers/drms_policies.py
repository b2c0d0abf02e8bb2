"""Konuru, Moreira and Naik 1996, section 5: LS, AS and RS on 32 processors of an IBM SP2.

    python examples/papers/drms_policies.py [--quick] [--share 0.01] [--json] [--plot FILE]
    python examples/papers/drms_policies.py --sensitivity

Prints Fig. 2, the ratios of the mean response times and their curves, beside what the paper says of it;
``--sensitivity`` its four additional experiments. Each point runs until the standard error of the mean
response is at most ``--share`` of it, for every category and the whole, or until ``--limit`` jobs have
ended: then the error that was reached is told.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from drms_applications import CATEGORIES, FEWER_SIZES, PROCESSORS, Mix

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policies.moldable import Adaptive, Lazy
from kalends.scheduling.policies.reconfigurable import INTERVAL, Reconfigurable
from kalends.scheduling.policy import Policy
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.batch_means import Steady
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

POLICIES: Final = ("LS", "AS", "RS")
WORKLOADS: Final = tuple((small, 25, 75 - small) for small in range(5, 56, 10))
UTILIZATIONS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
MIDDLE: Final = (25, 25, 50)
SATURATED: Final = 2000
"""So many waiting jobs mean that the queue grows without end."""
INTERVALS: Final = (2, 5, 10, 20)
PAPER: Final = (
    "RS is always better than the other two, and AS better than LS",
    "for a given workload, RS first gets better with utilization, then the advantage diminishes",
    "as the share of small jobs grows, its advantage first increases, then decreases",
    "jobs of all categories benefit (25:25:50), category I most, category III least",
    "AS is much better than LS for category I (25:25:50), not much different for the others",
    "the mean response was reduced by a factor of two in several instances",
)


@dataclass(frozen=True)
class Point:
    """One simulation: what runs, how much of it, and under which policy."""

    policy: str
    mix: Mix
    utilization: float
    share: float
    limit: int
    interval: int = INTERVAL
    label: str = ""
    seed: int = 1996

    def scheduler(self) -> Scheduler:
        cluster = Cluster(PROCESSORS)
        makers: dict[str, Callable[[], Policy]] = {
            "LS": lambda: Lazy(cluster),
            "AS": lambda: Adaptive(cluster),
            "RS": lambda: Reconfigurable(cluster, self.interval),
        }
        return Scheduler(makers[self.policy]())

    def jobs(self) -> Iterator[SimulatedJob]:
        for job, category in self.mix.jobs(self.utilization, self.seed):
            job.user = CATEGORIES.index(category)
            yield job


def simulated(point: Point) -> dict[str, Any]:
    """The mean response times of one point, in seconds, and how sure they are."""
    scheduler = point.scheduler()
    steady = Steady(range(len(CATEGORIES)), point.share)
    ended, changes = 0, 0
    for job in replay(point.jobs(), scheduler):
        ended += 1
        changes += getattr(job, "changes", 0)
        if steady.add(job.user, (job.end_s - job.submit_s) / 1000):
            break
        if ended >= point.limit or scheduler.waiting > SATURATED:
            break
    errors = [each.standard_error / each.mean for each in (steady.whole, *steady.classes.values())]
    return {
        "policy": point.policy,
        "workload": point.mix.name,
        "utilization": point.utilization,
        "label": point.label,
        "mean_response_s": steady.whole.mean,
        "of_category_s": {
            name: steady.classes[at].mean for at, name in enumerate(CATEGORIES)
        },
        "standard_error": errors[0],
        "largest_standard_error": max(errors),
        "saturated": scheduler.waiting > SATURATED,
        "changes_per_job": changes / ended,
        "jobs": ended,
    }  # fmt: skip


def all_of(points: list[Point], processes: int) -> list[dict[str, Any]]:
    """Simulate all points, on so many cores; the costliest first, told in the order they were given in."""
    order = sorted(range(len(points)), key=lambda at: -points[at].utilization)
    found: dict[int, dict[str, Any]] = {}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        results: Iterable[dict[str, Any]] = pool.imap(simulated, [points[at] for at in order])
        for done, (at, result) in enumerate(zip(order, results, strict=True), 1):
            found[at] = result
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{done} of {len(points)} simulations")
                sys.stderr.flush()
    return [found[at] for at in range(len(points))]


def figure_2(
    workloads: Iterable[tuple[int, int, int]],
    utilizations: Iterable[float],
    base: Point,
    processes: int,
) -> list[dict[str, Any]]:
    """For each workload and utilization: all three policies on the same arrivals, and the ratios."""
    places = [(mix, at) for mix in workloads for at in utilizations]
    points = [
        replace(base, policy=policy, mix=Mix(mix), utilization=at)
        for mix, at in places
        for policy in POLICIES
    ]
    results = iter(all_of(points, processes))
    rows = []
    for _ in places:
        of = {policy: next(results) for policy in POLICIES}
        ours = of["RS"]
        rows.append(
            {
                "workload": ours["workload"],
                "utilization": ours["utilization"],
                "LS/RS": of["LS"]["mean_response_s"] / ours["mean_response_s"],
                "AS/RS": of["AS"]["mean_response_s"] / ours["mean_response_s"],
                "of_category": {
                    name: [
                        of[policy]["of_category_s"][name] / ours["of_category_s"][name]
                        for policy in ("LS", "AS")
                    ]
                    for name in CATEGORIES
                },
                "policies": of,
            }
        )
    return rows


def variants(base: Point) -> Iterator[Point]:
    """RS as it is, and as the four additional experiments change it."""
    plain = replace(base, policy="RS", mix=Mix(MIDDLE), label="as in Fig. 2")
    yield plain
    yield replace(plain, mix=replace(plain.mix, free_changes=True), label="no cost")
    yield replace(plain, mix=replace(plain.mix, malleable=CATEGORIES), label="category I too")
    yield replace(plain, mix=replace(plain.mix, sizes=FEWER_SIZES), label="fewer sizes")
    for interval in INTERVALS:
        if interval != plain.interval:
            yield replace(plain, interval=interval, label=f"interval of {interval} costs")


def sensitivity(utilizations: Iterable[float], base: Point, processes: int) -> list[dict[str, Any]]:
    """Mean responses of all variants, and how they compare with the plain one at the same utilization."""
    points = [each for at in utilizations for each in variants(replace(base, utilization=at))]
    rows = []
    plain_s = 0.0
    for result in all_of(points, processes):
        if result["label"] == "as in Fig. 2":
            plain_s = result["mean_response_s"]
        rows.append({**result, "against_plain": result["mean_response_s"] / plain_s - 1})
    return rows


def lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "The paper (it gives curves, few numbers):"
    yield from (f"  - {each}" for each in PAPER)
    yield ""
    yield "Ours. Mean response times in seconds; * marks a queue that grows without end."
    yield "workload    util   LS/RS  AS/RS      LS      AS      RS  LS/RS of I   II  III   std. error"
    for row in rows:
        means = [
            f"{row['policies'][policy]['mean_response_s']:>7.0f}"
            + ("*" if row["policies"][policy]["saturated"] else " ")
            for policy in POLICIES
        ]
        of = [f"{row['of_category'][name][0]:>5.2f}" for name in CATEGORIES]
        errors = [row["policies"][policy]["standard_error"] for policy in POLICIES]
        yield (
            f"{row['workload']:<10}  {row['utilization']:.2f}  {row['LS/RS']:>6.2f} {row['AS/RS']:>6.2f}"
            f" {''.join(means)}      {' '.join(of)}   {max(errors):.1%}"
        )


def sensitivity_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "The paper: without cost, at most 10 % less; category I too, no significant difference; fewer"
    yield "sizes, a significant loss, most at high utilization; intervals from 2 to 20 costs, little impact."
    yield ""
    yield "util  variant                 response  against RS  changes/job  std. error"
    for row in rows:
        yield (
            f"{row['utilization']:.2f}  {row['label']:<22}  {row['mean_response_s']:>8.0f}"
            f"  {row['against_plain']:>+10.1%}  {row['changes_per_job']:>11.2f}"
            f"  {row['standard_error']:>10.1%}"
        )


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """Fig. 2: the ratios of all workloads, and the response times of the middle one."""
    # Only whoever wants a picture needs matplotlib.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 2, figsize=(10, 12), layout="constrained")
    names = list(dict.fromkeys(row["workload"] for row in rows))
    for axis, ratio in zip(axes[0], ("LS/RS", "AS/RS"), strict=True):
        for name in names:
            curve = [row for row in rows if row["workload"] == name]
            axis.plot(
                [row["utilization"] for row in curve],
                [row[ratio] for row in curve],
                "o-",
                label=name,
            )
        axis.set_title(f"E[R({ratio[:2]})] / E[R(RS)]")
        axis.legend(title="workload")
    shown = names[len(names) // 2] if "25:25:50" not in names else "25:25:50"
    curve = [row for row in rows if row["workload"] == shown]
    for axis, category in zip(axes[1:].flat, ("all", *CATEGORIES), strict=True):
        for policy in POLICIES:
            results = [row["policies"][policy] for row in curve]
            axis.plot(
                [row["utilization"] for row in curve],
                [
                    each["mean_response_s"]
                    if category == "all"
                    else each["of_category_s"][category]
                    for each in results
                ],
                "o-",
                label=policy,
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
        "--share", type=float, default=0.01, help="standard error to reach, of the mean"
    )
    parser.add_argument("--limit", type=int, default=4_000_000, help="jobs of a point at most")
    parser.add_argument("--utilizations", type=float, nargs="+", default=UTILIZATIONS)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument(
        "--sensitivity", action="store_true", help="the four additional experiments"
    )
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    parser.add_argument("--plot", metavar="FILE", help="draw Fig. 2 (needs matplotlib)")
    arguments = parser.parse_args()
    limit = 3000 if arguments.quick else arguments.limit
    base = Point("RS", Mix(MIDDLE), 0.5, arguments.share, limit)
    workloads = (WORKLOADS[0], MIDDLE, WORKLOADS[-1]) if arguments.quick else WORKLOADS
    utilizations = (0.3, 0.6) if arguments.quick else arguments.utilizations
    if arguments.sensitivity:
        rows = sensitivity(utilizations, base, arguments.processes)
        told = sensitivity_lines(rows)
    else:
        rows = figure_2(workloads, utilizations, base, arguments.processes)
        told = lines(rows)
        if arguments.plot:
            plot(rows, arguments.plot)
    print(json.dumps(rows, indent=1) if arguments.json else "\n".join(told))


if __name__ == "__main__":
    main()
