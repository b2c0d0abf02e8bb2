"""Programs that change their size, each with something that may go wrong; the tests name one.

Run as a script, it plays the heat example and kills itself at a step of its first change:
`malleable_programs.py STEP CHECKPOINT CHANGES`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kalends_malleable import (
    Array,
    Blocks,
    Checkpoints,
    Cyclic,
    Program,
    Rank,
    RunOptions,
    Stage,
    Timetable,
    run_shared,
)
from kalends_malleable.program_file import program_in

HEAT = Path(__file__).parents[2] / "examples" / "malleable_heat.py"
STEPS = 6


def program(arguments: list[str]) -> Program:
    name, *rest = arguments
    if name == "dealt":
        return dealt()
    while name == "telling" and (Path(rest[0]) / "slow").exists():
        time.sleep(0.01)
    return Program(
        arrays={"stop": Array((4,))},
        state={"step": 0, "rest": rest},
        stages=[
            Stage(name="first", sizes=[1, 2, 4], computation=COMPUTATIONS[name]),
            Stage(name="last", sizes=[1, 2], computation=tell_size),
        ],
    )


def tell_size(rank: Rank) -> None:
    if rank.number == 0:
        print(f"ended with {rank.size}", flush=True)


def stepping(each: Callable[[Rank], None]) -> Callable[[Rank], None]:
    def computation(rank: Rank) -> None:
        while rank.state["step"] < STEPS:
            each(rank)
            rank.state["step"] += 1
            rank.sop()

    return computation


def at(rank: Rank, step: int) -> bool:
    """Whether it is this step, in the rank that was named."""
    return rank.state["step"] == step and rank.number == int(rank.state["rest"][0])


def raising(rank: Rank) -> None:
    if at(rank, 3):
        raise ZeroDivisionError("by nothing")


def dying(rank: Rank) -> None:
    if at(rank, 3):
        os.kill(os.getpid(), signal.SIGKILL)


def exiting(rank: Rank) -> None:
    if at(rank, 3):
        sys.exit("enough")


def disagreeing(rank: Rank) -> None:
    if at(rank, 3):
        rank.barrier()


def differing(rank: Rank) -> None:
    if at(rank, 3):
        rank.state["x"] = rank.number


def stopping(rank: Rank) -> None:
    if rank.number == 1:
        return
    rank.sop()


def swallowing(rank: Rank) -> None:
    """Catches whatever comes, as no program should."""
    while rank.state["step"] < STEPS:
        rank.state["step"] += 1
        try:
            rank.sop()
        except BaseException:
            rank.state["step"] = 100


def telling(rank: Rank) -> None:
    """Each rank writes where it runs, at each entry; SOPs until the file `stop` is there.

    None starts as long as the file `slow` is there.
    """
    folder = Path(rank.state["rest"][0])
    (folder / f"{rank.size}.{rank.number}").write_text(json.dumps(sorted(os.sched_getaffinity(0))))
    rank.barrier()
    if rank.number == 0:
        print(f"entered with {rank.size}", flush=True)
    while not rank.whole("stop")[0]:
        if rank.number == 0:
            time.sleep(0.001)
            rank.local("stop")[0] = (folder / "stop").exists()
        if rank.state["step"] == 2 and len(rank.state["rest"]) > 1:
            rank.want(int(rank.state["rest"][1]))
        rank.state["step"] += 1
        rank.sop()


COMPUTATIONS = {
    "raising": stepping(raising),
    "dying": stepping(dying),
    "exiting": stepping(exiting),
    "disagreeing": stepping(disagreeing),
    "differing": stepping(differing),
    "stopping": stopping,
    "swallowing": swallowing,
    "telling": telling,
}

SHAPE = (7, 11)
LAST = 24


def dealt() -> Program:
    """Every index is written by its owner alone, under one distribution after the other, at all sizes."""
    split = [Blocks(), Cyclic(1), Cyclic(3, axis=1), Blocks(axis=1)]
    return Program(
        arrays={"u": Array(SHAPE), "n": Array((SHAPE[1],), "i8")},
        state={"step": 0},
        stages=[
            Stage(
                name=f"stage {number}",
                sizes=[1, 2, 3],
                computation=count,
                data={"u": each, "n": Cyclic(2)},
            )
            for number, each in enumerate(split, 1)
        ]
        + [Stage(name="tell", sizes=[1, 2, 3], computation=tell_counts)],
    )


def count(rank: Rank) -> None:
    stage_end = (rank.state["step"] // 6 + 1) * 6
    while rank.state["step"] < min(stage_end, LAST):
        step = rank.state["step"]
        assert (rank.whole("u") == step).all()
        assert (rank.whole("n") == np.arange(SHAPE[1]) * step).all()
        for piece in rank.pieces("u"):
            piece.values[...] += 1
        for start, end, values in rank.pieces("n"):
            values += np.arange(start, end)
        rank.state["step"] += 1
        if rank.state["step"] < stage_end:
            rank.sop()


def tell_counts(rank: Rank) -> None:
    counts = rank.whole("u")
    if rank.number == 0:
        print(counts.min(), counts.max())


class KillsItself:
    """At a step of the first change."""

    def __init__(self, step: str) -> None:
        self._step = step

    def step(self, name: str) -> None:
        if name == self._step:
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self, text: str) -> None: ...


def main(step: str, checkpoint: Path, changes: str) -> None:
    checkpoints = Checkpoints(checkpoint, 0.0, time.monotonic)
    options = RunOptions(
        size=2, control=Timetable.of(changes), checkpoints=checkpoints, onlooker=KillsItself(step)
    )
    run_shared(program_in(HEAT, []), options)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
