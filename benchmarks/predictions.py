"""Coverage of predicted starts on workload logs: stated against found, and against the naive prediction.

    python -m benchmarks.predictions LOG... [--policy easy,conservative] [--nodes N] [--json]

For each log and policy: jobs that had to wait, coverage of P50 and P90 over them, in each third of them, in
blocks of 500 (the least and the most) and among the first 500, mean absolute errors relative to the mean
wait, pinball losses over the mean wait beside those of the naive predictions, and what a prediction cost.
`requested` is the frozen scheduler with requested times taken as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

import kalends
from kalends.simulation.prediction_accuracy import Accounts

BLOCK: Final = 500


def measured(log: Path, policy: str, nodes: int | None) -> dict[str, Any]:
    """Two replays, with and without predictions: what they tell, and what predicting took."""

    def progress(done: int, jobs: int | None) -> None:
        if sys.stderr.isatty():
            print(f"\r{log.name} {policy}: {done:,} of {jobs or '?'} jobs", end="", file=sys.stderr)

    plain = kalends.simulate(log, policy=policy, nodes=nodes)
    accounts = Accounts()
    result = kalends.simulate(log, policy=policy, nodes=nodes, accounts=accounts, progress=progress)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    assert result.mean_wait_s == plain.mean_wait_s, "predicting changes nothing"
    found = result.predictions
    cost_s = result.seconds - plain.seconds
    return {
        "log": log.name,
        "policy": policy,
        **found,
        "thirds": accounts.thirds(),
        "swings": accounts.swings(BLOCK),
        "first": accounts.coverage(0, BLOCK),
        "seconds": result.seconds,
        "us_per_prediction": cost_s / max(found["predicted"], 1) * 1e6,
    }


def shown(found: dict[str, Any]) -> str:
    """One log and policy as lines."""
    if not found["predicted"]:
        return f"{found['log']} {found['policy']}: no job had to wait"
    wait_s = found["mean_wait_s"] or 1.0
    thirds = "  ".join(f"{p50:.1%} {p90:.1%}" for p50, p90 in found["thirds"])
    swings = ", ".join(
        f"{name} {least:.0%} to {most:.0%}"
        for name, (least, most) in zip(("P50", "P90"), found["swings"], strict=True)
    )
    first = "{:.1%} {:.1%}".format(*found["first"])
    errors = ", ".join(
        f"{name} {found[f'{name}_relative_error']:.2f}" for name in ("requested", "expected", "p50")
    )
    losses = ", ".join(
        f"{name} {loss_s / wait_s:.4f}"
        for name, loss_s in (
            ("P90", found["p90_pinball_s"]),
            ("requested", found["requested_pinball_s"]),
            ("P50", found["p50_pinball_s"]),
            ("expected", found["expected_mean_error_s"] / 2),
        )
    )
    return "\n".join(
        (
            f"{found['log']} under {found['policy']}: {found['predicted']:,} of {found['jobs']:,} jobs "
            f"waited, {wait_s:,.0f} s on average",
            f"  coverage     P50 {found['p50_coverage']:.1%}, P90 {found['p90_coverage']:.1%}; "
            f"requested {found['requested_coverage']:.1%}",
            f"  thirds       {thirds}; first {BLOCK}: {first}",
            f"  blocks       of {BLOCK}: {swings}",
            f"  all jobs     P50 {found['p50_coverage_all']:.1%}, P90 {found['p90_coverage_all']:.1%}",
            f"  error / wait {errors}",
            f"  pinball      {losses}; P90 - P50 {found['width_s'] / wait_s:.2f}",
            f"  cost         {found['us_per_prediction']:,.0f} us a prediction, "
            f"{found['seconds']:.1f} CPU s in all",
        )
    )


def main() -> None:
    """Measure what is given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--policy", default="easy", help="names, separated by commas")
    parser.add_argument("--nodes", type=int, help="else, what the log's header says")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each")
    given = parser.parse_args()
    for log in given.logs:
        for policy in given.policy.split(","):
            found = measured(log, policy, given.nodes)
            print(json.dumps(found) if given.json else shown(found), flush=True)


if __name__ == "__main__":
    main()
