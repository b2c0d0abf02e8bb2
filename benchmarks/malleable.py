"""What a change of size costs a program: the whole of it, and moving its data, beside Table 2 of DRMS.

    python benchmarks/malleable.py [--rows 64,126] [--over shared,mpi] [--rounds 3] [--json]

The program has 15 arrays of n^3 doubles, distributed by their first axis, and goes through 1, 2, 4, 2, 8, 4
and 1 ranks; each checks that it has what it should have. Over MPI the time is set beside the bare start of as
many ranks: mpiexec, Python, NumPy and mpi4py, a barrier, and the end. Judges nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    # In place of this folder, whose calendar.py would stand in for the standard library's.
    sys.path.pop(0)

import numpy as np

from kalends_malleable import Array, Program, Rank, Stage

SIZES: Final = (1, 2, 4, 2, 8, 4, 1)
ARRAYS: Final = 15
SOPS: Final = 200
"""SOPs without a change of which the median is taken, on 4 ranks."""
CHANGE: Final = re.compile(
    r"SOP \d+: (\d+) -> (\d+) ranks in ([0-9.]+) ms(?:, ([0-9.]+) of them moving)?"
)

PAPER: Final = (
    ("DRMS, n=64, 4-32 ranks of an SP2 (1996)", 4.07, 12.30, 1.15, 2.74),
    ("DRMS, n=80", 5.35, 7.21, 1.69, 4.90),
    ("DRMS, n=102", 5.35, 20.40, 1.42, 6.66),
)
"""Table 2: least and greatest time of a reconfiguration and of redistribution, over the programs, s."""


@dataclass(frozen=True)
class ChangeCost:
    """One change of size, as the program told it."""

    rows: int
    over: str
    before: int
    after: int
    took_ms: float
    moving_ms: float
    bare_start_ms: float = 0.0


def program(arguments: list[str]) -> Program:
    """The program that is measured; `python -m kalends_malleable` runs it from this file."""
    rows = int(arguments[0])
    sizes = sorted(set(SIZES))
    return Program(
        arrays={f"a{number}": Array((rows, rows, rows)) for number in range(ARRAYS)},
        state={"step": 0, "rows": rows},
        stages=[
            Stage(name="fill", sizes=sizes, computation=fill),
            Stage(name="change", sizes=sizes, computation=change),
        ],
    )


def fill(rank: Rank) -> None:
    for number in range(ARRAYS):
        for start, end, values in rank.pieces(f"a{number}"):
            values[...] = np.arange(start, end)[:, None, None] + 1_000 * number


def change(rank: Rank) -> None:
    for number in range(ARRAYS):
        for start, end, values in rank.pieces(f"a{number}"):
            assert (values[:, 0, 0] == np.arange(start, end) + 1_000 * number).all()
            assert (values[:, -1, -1] == values[:, 0, 0]).all()
    if rank.size == 4 and rank.state["step"] == 2:
        measure_sops(rank)
    while rank.state["step"] < len(SIZES):
        rank.state["step"] += 1
        rank.sop()


def measure_sops(rank: Rank) -> None:
    took = []
    for _ in range(SOPS):
        began = time.perf_counter()
        rank.sop()
        took.append(time.perf_counter() - began)
    if rank.number == 0:
        print(f"sop_us {1e6 * statistics.median(took):.1f}", flush=True)


def timetable() -> str:
    """The sizes by SOP; those that are measured on 4 ranks stand between the second and the third change."""
    sops = [1, 2, *range(3 + SOPS, SOPS + len(SIZES))]
    return ",".join(f"{size}@{sop}" for size, sop in zip(SIZES[1:], sops, strict=True))


def run(rows: int, over: str) -> tuple[list[ChangeCost], float]:
    """Run the program once; return what its changes cost, and an SOP without one (us)."""
    command = [sys.executable, "-m", "kalends_malleable"]
    if over == "mpi":
        command = [mpiexec(), "-n", str(SIZES[0]), *command, "--mpi"]
    command += [__file__, "--size", str(SIZES[0]), "--changes", timetable(), "--", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode:
        sys.exit(done.stderr)
    costs = [
        ChangeCost(rows, over, int(before), int(after), float(took), float(moving or 0))
        for before, after, took, moving in CHANGE.findall(done.stderr)
    ]
    assert [cost.after for cost in costs] == list(SIZES[1:]), done.stderr
    return costs, float(done.stdout.split()[1])


def bare_start_ms(ranks: int) -> float:
    """Return how long mpiexec takes to start so many ranks that do nothing, and to end."""
    nothing = "import numpy; from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
    began = time.perf_counter()
    command = [mpiexec(), "-n", str(ranks), sys.executable, "-c", nothing]
    subprocess.run(command, check=True, capture_output=True, env=_environment())
    return 1e3 * (time.perf_counter() - began)


def mpiexec() -> str:
    """The mpiexec of this environment, or of the system."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else "mpiexec"


def _environment() -> dict[str, str]:
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def measured(rows: int, over: str, rounds: int) -> tuple[list[ChangeCost], float]:
    """The median of so many rounds, change by change, each round beside bare starts of its own."""
    runs: list[list[ChangeCost]] = []
    sops, bare = [], {size: [0.0] for size in SIZES}
    for _ in range(rounds):
        costs, sop = run(rows, over)
        runs.append(costs)
        sops.append(sop)
        if over == "mpi":
            bare = {size: [*bare[size], bare_start_ms(size)] for size in bare}
    middle = [
        ChangeCost(
            rows,
            over,
            of_one[0].before,
            of_one[0].after,
            statistics.median(cost.took_ms for cost in of_one),
            statistics.median(cost.moving_ms for cost in of_one),
            statistics.median(bare[of_one[0].after][1:] or [0.0]),
        )
        for of_one in zip(*runs, strict=True)
    ]
    return middle, statistics.median(sops)


def show(costs: list[ChangeCost], sop_us: float) -> None:
    first = costs[0]
    megabytes = ARRAYS * 8 * first.rows**3 / 1e6
    print(
        f"n={first.rows} ({megabytes:.0f} MB) over {first.over}; an SOP on 4 ranks: {sop_us:.0f} us"
    )
    print(
        f"{'RANKS':>8} {'WHOLE ms':>10} {'MOVING ms':>10} {'BARE START ms':>14} {'WHOLE/BARE':>11}"
    )
    for cost in costs:
        line = f"{cost.before:>3} -> {cost.after} {cost.took_ms:>10.1f} {cost.moving_ms:>10.1f}"
        if cost.bare_start_ms:
            line += f" {cost.bare_start_ms:>14.1f} {cost.took_ms / cost.bare_start_ms:>11.2f}"
        print(line)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="64,126", metavar="N,...", help="rows of the arrays")
    parser.add_argument("--over", default="shared,mpi", help="shared, mpi, or both")
    parser.add_argument("--rounds", type=int, default=3, help="runs of which the medians are shown")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    given = parser.parse_args()
    found: list[ChangeCost] = []
    sops: dict[str, float] = {}
    for rows in map(int, given.rows.split(",")):
        for over in given.over.split(","):
            costs, sop_us = measured(rows, over, given.rounds)
            found += costs
            sops[f"{rows} {over}"] = sop_us
            if not given.json:
                show(costs, sop_us)
    if given.json:
        print(json.dumps({"changes": [asdict(cost) for cost in found], "sop_us": sops}))
        return
    print("Table 2 of Konuru, Moreira and Naik (s): reconfiguration, of it redistribution")
    for name, least, most, moving_least, moving_most in PAPER:
        print(f"{name:40} {least:>5.2f} - {most:>5.2f}   {moving_least:.2f} - {moving_most:.2f}")


if __name__ == "__main__":
    main()
