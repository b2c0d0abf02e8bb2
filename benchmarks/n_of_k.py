"""What it costs to poll p of k sites: predicted by the model, and measured with the real protocol.

    python benchmarks/n_of_k.py [--seeds 300] [--json] [--plot FILE]

Every measurement is a look of the real coordinator for n of k machines, each at a site of its own with
the real participant, which was booked beforehand with the chance q. Links delay by what is drawn for
the seed; time is virtual; the same draws serve every p. The cost of a look is the time until it is over,
and 4 ms for each site that was asked. Figures beside it: the p that the model chooses, how its measured
cost compares with that of the best p, and the same for a broker that has learned q and delays from its
own looks. The paper's model without further rounds is shown, too (see
`kalends.broker.planning.polling.model`).
`--plot` draws the curves; it needs matplotlib (the extra ``plot``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

# In place of this folder, whose calendar.py would stand in for the standard library's.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.polled_sites import KnownOdds, PolledSites, SiteNature, looks
from kalends.broker.planning.polling.delays import Lognormal
from kalends.broker.planning.polling.model import MESSAGE_MS, best, retried_costs, round_costs
from kalends.broker.planning.polling.poll_order import choose
from kalends.broker.planning.polling.site_statistics import Odds

WARM_UP_LOOKS = 200
WARM_UP_SEED = 4_000


class Scenario(NamedTuple):
    """`needed` of the sites, which are as `sites` says."""

    name: str
    needed: int
    sites: tuple[SiteNature, ...]


def scenarios() -> list[Scenario]:
    """Equal sites for several q and delays; and sites that differ in both."""
    found = [
        Scenario(f"q={busy} sigma={sigma}", 2, (SiteNature(busy, Lognormal(80.0, sigma)),) * 12)
        for sigma in (0.6, 1.0)
        for busy in (0.1, 0.3, 0.5, 0.7)
    ]
    unequal = tuple(
        SiteNature(0.1 + 0.06 * (number * 5 % 12), Lognormal(20.0 * 1.3 ** (number * 7 % 12), 0.6))
        for number in range(12)
    )
    thirty = (SiteNature(0.4, Lognormal(80.0, 0.6)),) * 30
    return [*found, Scenario("unequal", 2, unequal), Scenario("3 of 30", 3, thirty)]


def measure(scenario: Scenario, seeds: int) -> dict[str, Any]:
    """The curve of one scenario, and how good the choices are."""
    world = PolledSites(scenario.sites)
    known = KnownOdds(world.natures)
    order = choose(world.prospects(), scenario.needed).order
    predicted = round_costs(order, scenario.needed)
    retried = {cost.sites: cost.cost_ms for cost in retried_costs(order, scenario.needed)}
    measured = {
        cost.sites: looks(world, scenario.needed, seeds, known, polled=cost.sites)
        for cost in predicted
    }
    means = {sites: statistics.fmean(costs) for sites, costs in measured.items()}
    best_sites = min(means, key=lambda sites: means[sites])
    chosen = best(predicted).sites
    learned = _learned(world, scenario.needed, seeds)
    return {
        "scenario": scenario.name,
        "needed": scenario.needed,
        "candidates": len(scenario.sites),
        "curve": [
            {
                "polled": cost.sites,
                "predicted_ms": round(cost.cost_ms, 2),
                "measured_ms": round(means[cost.sites], 2),
                "error_ms": round(_error_ms(measured[cost.sites]), 2),
                "retried_ms": round(retried[cost.sites], 2),
                "chance": round(cost.chance, 4),
            }
            for cost in predicted
        ],
        "chosen": chosen,
        "measured_best": best_sites,
        "chosen_over_best": round(means[chosen] / means[best_sites], 4),
        "learned_ms": round(statistics.fmean(learned), 2),
        "learned_over_best": round(statistics.fmean(learned) / means[best_sites], 4),
    }


def _learned(world: PolledSites, needed: int, seeds: int) -> list[float]:
    """Costs of a broker that knows only what it has seen, after some looks."""
    odds = Odds()
    looks(world, needed, WARM_UP_LOOKS, odds, first_seed=WARM_UP_SEED)
    return looks(world, needed, seeds, odds)


def _error_ms(costs: list[float]) -> float:
    """The standard error of their mean."""
    return statistics.stdev(costs) / len(costs) ** 0.5 if len(costs) > 1 else 0.0


def table(results: list[dict[str, Any]]) -> str:
    lines = []
    for each in results:
        lines.append(f"\n{each['needed']} of {each['candidates']}, {each['scenario']}")
        lines.append("  p  predicted   measured   +-   repeated  enough")
        for point in each["curve"]:
            mark = ">" if point["polled"] == each["chosen"] else " "
            lines.append(
                f"{mark}{point['polled']:>2}  {point['predicted_ms']:>9.1f}  {point['measured_ms']:>9.1f}"
                f"  {point['error_ms']:>4.1f}  {point['retried_ms']:>8.1f}  {point['chance']:>6.1%}"
            )
        lines.append(
            f"chosen {each['chosen']}, best measured {each['measured_best']}: "
            f"{each['chosen_over_best'] - 1:+.1%}; learned: {each['learned_over_best'] - 1:+.1%}"
        )
    return "\n".join(lines)


def plot(results: list[dict[str, Any]], path: str) -> None:
    """One panel a scenario: predicted as a line, measured as points with their errors."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    columns = 5
    rows = -(-len(results) // columns)
    figure, panels = pyplot.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False)
    for panel, each in zip(panels.flat, results, strict=False):
        polled = [point["polled"] for point in each["curve"]]
        panel.plot(polled, [point["predicted_ms"] for point in each["curve"]], label="predicted")
        panel.errorbar(
            polled,
            [point["measured_ms"] for point in each["curve"]],
            [2 * point["error_ms"] for point in each["curve"]],
            fmt="o", markersize=3, label="measured",
        )  # fmt: skip
        panel.axvline(each["chosen"], linestyle=":")
        panel.set_title(f"{each['needed']} of {each['candidates']}, {each['scenario']}")
        panel.set_xlabel("polled")
        panel.set_ylabel("cost (ms)")
        panel.set_ylim(bottom=0)
        panel.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=300, help="looks for each p, up to 4000")
    parser.add_argument("--only", default="", help="only scenarios whose name has this in it")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    parser.add_argument("--plot", metavar="FILE", help="draw the curves there (needs matplotlib)")
    arguments = parser.parse_args()
    chosen = [each for each in scenarios() if arguments.only in each.name]
    results = [measure(each, arguments.seeds) for each in chosen]
    if arguments.json:
        print(json.dumps({"message_ms": MESSAGE_MS, "scenarios": results}, indent=1))
    else:
        print(table(results).strip())
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
