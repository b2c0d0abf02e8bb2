"""Ramamoorthi et al. 1997, section 4: the cost of polling p of k resources for n, and the best p.

    python examples/papers/reservation_n_of_k.py [--busy 0.3] [--looks 200] [--json]

"We then plot a graph of cost versus p to find the p that minimizes the delay." The paper prints neither
formula nor figure. Here are, for each p: the model by exact arithmetic, the same poll played with drawn
delays, and what a broker does, who asks others when too few are free: by the model, and measured with
the real protocol over played links. Round trips have a median of 80 ms (sigma 0.6); a message costs 4 ms.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.polled_sites import KnownOdds, PolledSites, SiteNature, looks

from kalends.broker.planning.polling.delays import Lognormal
from kalends.broker.planning.polling.model import MESSAGE_MS, best, retried_costs, round_costs
from kalends.cli.requests.find import poll_lines
from kalends.contract.calls import PollPoint, PollView

DELAY = Lognormal(80.0, 0.6)


def played_ms(draw: random.Random, polled: int, needed: int, busy: float) -> float:
    """One look: polls of `polled` until one finds enough; one that does not ends as that one did."""
    failures = 0
    while True:
        free_ms = sorted(
            draw.lognormvariate(0.0, DELAY.sigma) * DELAY.median_ms
            for _ in range(polled)
            if draw.random() >= busy
        )
        if len(free_ms) >= needed:
            return (failures + 1) * (free_ms[needed - 1] + MESSAGE_MS * polled)
        failures += 1


def figures(needed: int, candidates: int, busy: float, count: int) -> dict[str, Any]:
    world = PolledSites((SiteNature(busy, DELAY),) * candidates)
    sites = world.prospects()
    retried = retried_costs(sites, needed)
    rounds = round_costs(sites, needed)
    draw = random.Random(1997)
    odds = KnownOdds(world.natures)
    points = []
    for once, ours in zip(retried, rounds, strict=True):
        played = [played_ms(draw, once.sites, needed, busy) for _ in range(20 * count)]
        measured = looks(world, needed, count, odds, polled=ours.sites)
        points.append(
            {
                "polled": once.sites,
                "chance": once.chance,
                "model_ms": once.cost_ms,
                "played_ms": statistics.fmean(played),
                "rounds_ms": ours.cost_ms,
                "measured_ms": statistics.fmean(measured),
            }
        )
    return {
        "needed": needed,
        "candidates": candidates,
        "busy": busy,
        "best_by_model": best(retried).sites,
        "best_with_rounds": best(rounds).sites,
        "best_measured": min(points, key=lambda point: point["measured_ms"])["polled"],
        "points": points,
    }


def lines(found: dict[str, Any]) -> list[str]:
    view = PollView(
        term=0,
        needed=found["needed"],
        candidates=found["candidates"],
        chosen=found["best_by_model"],
        busy=found["busy"],
        curve=tuple(
            PollPoint(polled=each["polled"], delay_ms=each["model_ms"], chance=each["chance"])
            for each in found["points"]
        ),
    )
    told = [*poll_lines(view), "", "  p    model   played   rounds  measured  (ms)"]
    told += [
        f"{each['polled']:>3}  {each['model_ms']:>7.1f}  {each['played_ms']:>7.1f}"
        f"  {each['rounds_ms']:>7.1f}  {each['measured_ms']:>8.1f}"
        for each in found["points"]
    ]
    told.append(
        f"least: p = {found['best_by_model']} by the model, {found['best_with_rounds']} with further "
        f"rounds, {found['best_measured']} measured"
    )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--needed", type=int, default=2)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--busy", type=float, default=0.3, help="the chance q that one is taken")
    parser.add_argument("--looks", type=int, default=200, help="measured looks for each p")
    parser.add_argument("--quick", action="store_true", help="20 measured looks for each p")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.looks = 20
    found = figures(arguments.needed, arguments.candidates, arguments.busy, arguments.looks)
    print(json.dumps(found, indent=1) if arguments.json else "\n".join(lines(found)))


if __name__ == "__main__":
    main()
