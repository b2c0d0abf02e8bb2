"""Heat in a plate, by a program that changes its size while it runs: Jacobi's method, five points.

    python -m kalends_malleable examples/malleable_heat.py --changes 2@20,4@40,1@60 -- --rows 128

The upper edge of the plate is kept at 1, the others at 0. Every value is worked out from its four
neighbours by the same operations wherever it lies, and the squares of what has changed are summed up by
row, then over the rows in their order: so the result is the same to the last bit on any number of ranks,
and with any changes between.
"""

from __future__ import annotations

import argparse
import hashlib

import numpy as np

from kalends_malleable import Array, Program, Rank, Stage

SIZES = [1, 2, 3, 4]


def heat(rank: Rank) -> None:
    """The first stage: the edge that is warm."""
    (start, _), *_ = rank.bounds("plate")
    if start == 0:
        rank.local("plate")[0] = 1.0


def relax(rank: Rank) -> None:
    """The second stage: one step after the other, until little changes."""
    plate, changed = rank.local("plate"), rank.local("changed")
    (start, end), *_ = rank.bounds("plate")
    rows = rank.state["rows"]
    inner = slice(max(start, 1) - start, min(end, rows - 1) - start)
    while rank.state["step"] < rank.state["steps"]:
        above, below = rank.edges("plate")
        wide = np.concatenate([above, plate, below])
        first = inner.start + len(above)
        last = inner.stop + len(above)
        middle = wide[first:last]
        around = wide[first - 1 : last - 1] + wide[first + 1 : last + 1]
        new = 0.25 * (around[:, 1:-1] + (middle[:, :-2] + middle[:, 2:]))
        changed[inner] = np.square(new - middle[:, 1:-1]).sum(axis=1)
        plate[inner, 1:-1] = new
        rank.state["step"] += 1
        rank.state["change"] = float(rank.whole("changed").sum()) ** 0.5
        rank.sop()


def tell(rank: Rank) -> None:
    """The last stage."""
    plate = rank.whole("plate")
    if rank.number == 0:
        print(f"{rank.state['step']} steps, the last one changed {rank.state['change']:.9f}")
        print(f"sha256 {hashlib.sha256(plate.tobytes()).hexdigest()}")


def program(arguments: list[str]) -> Program:
    options = argparse.ArgumentParser(prog="malleable_heat.py")
    options.add_argument("--rows", type=int, default=64)
    options.add_argument("--steps", type=int, default=100)
    given = options.parse_args(arguments)
    return Program(
        arrays={"plate": Array((given.rows, given.rows)), "changed": Array((given.rows,))},
        state={"rows": given.rows, "step": 0, "steps": given.steps, "change": 0.0},
        stages=[
            Stage(name="heat", sizes=SIZES, computation=heat),
            Stage(name="relax", sizes=SIZES, computation=relax),
            Stage(name="tell", sizes=SIZES, computation=tell),
        ],
    )
