"""Programs that change their size while they run: ranks, their shared arrays, and SOPs.

    from kalends_malleable import Array, Program, Rank, Stage

    def relax(rank: Rank) -> None:
        u = rank.local("u")
        while rank.state["step"] < 1_000:
            above, below = rank.edges("u")
            ...
            rank.state["step"] += 1
            rank.sop()  # here the set of ranks may change; `relax` is then restarted

    def program(arguments: list[str]) -> Program:
        return Program(
            arrays={"u": Array((1_000, 1_000))},
            state={"step": 0},
            stages=[Stage(name="relax", sizes=[1, 2, 4], computation=relax)],
        )

``python -m kalends_malleable FILE --changes 2@10,4@20`` tries it; see docs/malleable.md. The model is
that of DRMS: J. E. Moreira, V. K. Naik, "Dynamic resource management on distributed systems using
reconfigurable applications", IBM J. Res. Dev. 41(3), 1997.
"""

from kalends_malleable.checkpoints import CheckpointFile, Checkpoints
from kalends_malleable.control import ControlSocket, NoControl, Timetable
from kalends_malleable.distributions import Blocks, Cyclic, Transfer, moves
from kalends_malleable.lead import run_shared
from kalends_malleable.program import Array, Program, Stage
from kalends_malleable.rank import Piece, Rank
from kalends_malleable.run import ProgramResult, RankFailed, RunOptions, SizeChange

__all__ = [
    "Array",
    "Blocks",
    "CheckpointFile",
    "Checkpoints",
    "ControlSocket",
    "Cyclic",
    "NoControl",
    "Piece",
    "Program",
    "ProgramResult",
    "Rank",
    "RankFailed",
    "RunOptions",
    "SizeChange",
    "Stage",
    "Timetable",
    "Transfer",
    "moves",
    "run_shared",
]
