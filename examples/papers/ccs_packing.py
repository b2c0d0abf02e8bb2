"""Gehring and Ramme 1996, section 3.2: the ten requests of Fig. 4, packed as in Fig. 5 to 8.

    python examples/papers/ccs_packing.py [--json] [--plot FILE.png]

Prints the paper's utilization and average waiting time beside ours, and draws the schedules. The paper
gives nodes in percent of the machine; 6.25 % is one node of 16. It gives no figure for FFIH*.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from kalends.scheduling.levels import RULES, LevelPlacement, makespan_s, pack

NODES = 16
PERCENT = (6.25, 100, 6.25, 100, 12.5, 50, 12.5, 50, 25, 25)
LENGTHS = (25, 50, 10, 5, 20, 40, 20, 10, 15, 30)
REQUESTS = [
    (round(percent * NODES / 100), length) for percent, length in zip(PERCENT, LENGTHS, strict=True)
]
PAPER = {
    "ffdh": (85.6, 63.0),
    "ffih": (85.6, 18.5),
    "ffdh*": (89.49, 60.5),
    "ffih*": None,
    "fcfs*": (82.03, 27.0),
}
TICK = 2
"""Time units in one column of a drawing."""


def figures(name: str) -> dict[str, Any]:
    placements = pack(RULES[name], REQUESTS, NODES)
    makespan = makespan_s(REQUESTS, placements)
    work = sum(nodes * length for nodes, length in REQUESTS)
    paper = PAPER[name]
    return {
        "algorithm": name,
        "utilization_percent": 100 * work / (NODES * makespan),
        "mean_wait": sum(placement.start_s for placement in placements) / len(REQUESTS),
        "makespan": makespan,
        "paper_utilization_percent": paper[0] if paper else None,
        "paper_mean_wait": paper[1] if paper else None,
        "starts": [placement.start_s for placement in placements],
        "levels": [placement.level for placement in placements],
    }


def rows_of(placements: list[LevelPlacement]) -> list[list[int]]:
    """For each node and each tick, the number of the request that has it; 0 for none.

    Requests need so many nodes, not neighbouring ones: each takes the lowest that are free.
    """
    ticks = makespan_s(REQUESTS, placements) // TICK + 1
    rows = [[0] * ticks for _ in range(NODES)]
    by_start = sorted(range(len(REQUESTS)), key=lambda index: placements[index].start_s)
    until = [0] * NODES
    for index in by_start:
        start = placements[index].start_s
        nodes, length = REQUESTS[index]
        free = [node for node in range(NODES) if until[node] <= start][:nodes]
        assert len(free) == nodes, "more nodes are packed than there are"
        for node in free:
            until[node] = start + length
            for tick in range(-(-start // TICK), -(-(start + length) // TICK)):
                rows[node][tick] = index + 1
    return rows


def drawing(placements: list[LevelPlacement]) -> list[str]:
    letters = ".123456789X"
    return [
        "  " + "".join(letters[number] for number in row) for row in reversed(rows_of(placements))
    ]


def told(found: list[dict[str, Any]]) -> list[str]:
    lines = [
        "algorithm  utilization %        average waiting time",
        "           paper    here        paper    here",
    ]
    for each in found:
        utilization, wait = each["paper_utilization_percent"], each["paper_mean_wait"]
        lines.append(
            f"{each['algorithm']:9}  {utilization or '-':>5}  {each['utilization_percent']:6.2f}"
            f"        {wait or '-':>5}  {each['mean_wait']:6.1f}"
        )
    for each in found:
        placements = pack(RULES[each["algorithm"]], REQUESTS, NODES)
        lines += [
            "",
            f"{each['algorithm']}: {NODES} nodes up, {TICK} time units a column; X is request 10",
        ]
        lines += drawing(placements)
    return lines


def plot(found: list[dict[str, Any]], path: str) -> None:
    from matplotlib import pyplot

    figure, all_axes = pyplot.subplots(len(found), 1, figsize=(9, 2.4 * len(found)), sharex=True)
    for each, axes in zip(found, all_axes, strict=True):
        rows = rows_of(pack(RULES[each["algorithm"]], REQUESTS, NODES))
        axes.imshow(rows, origin="lower", aspect="auto", cmap="tab20", interpolation="nearest",
                    extent=(0, len(rows[0]) * TICK, 0, NODES))  # fmt: skip
        axes.set_title(each["algorithm"], loc="left")
        axes.set_ylabel("nodes")
    all_axes[-1].set_xlabel("time units")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="The packings of Gehring and Ramme 1996, Fig. 4-8."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", metavar="FILE", help="draw the schedules (needs matplotlib)")
    chosen = parser.parse_args()
    found = [figures(name) for name in PAPER]
    if chosen.plot:
        plot(found, chosen.plot)
    print(json.dumps(found) if chosen.json else "\n".join(told(found)))


if __name__ == "__main__":
    main()
