"""Run a program that can change its size, as a job or for a trial without any server.

    python -m kalends_malleable heat.py
    python -m kalends_malleable heat.py --size 2 --changes 4@10,1@20 -- --rows 128
    python -m kalends_malleable heat.py --checkpoint heat.npz --checkpoint-every 60 --restart
    mpiexec -n 2 python -m kalends_malleable --mpi heat.py --changes 4@10

The file defines `program(arguments)`, which returns a `Program`; docs/malleable.md shows one. As a job of
a batch service the program receives changes from the socket in KALENDS_CONTROL, starts on as many ranks
as KALENDS_NODES has nodes, and is pinned to KALENDS_CORES. Progress is printed on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.limits import CORES_MAX
from kalends.extras import install_command
from kalends_malleable.checkpoints import CheckpointFile, Checkpoints
from kalends_malleable.control import SizeControl, Timetable, control_named_by
from kalends_malleable.lead import run_shared
from kalends_malleable.program import Program
from kalends_malleable.program_file import program_in
from kalends_malleable.run import RunOptions


class _OnStandardError:
    def step(self, name: str) -> None: ...

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command; return its exit status."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = _parser().parse_intermixed_args(arguments[:end])
    given.arguments += arguments[end + 1 :]
    try:
        program = program_in(given.program, given.arguments)
        options = _options(given, program, environment)
        if given.mpi:
            _mpi()(program, options, [sys.executable, "-m", "kalends_malleable", *arguments])
        else:
            run_shared(program, options)
    except KalendsError as error:
        for note in getattr(error, "__notes__", ()):
            print(note, end="", file=sys.stderr)
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; all ranks have been ended", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kalends_malleable",
        usage="%(prog)s [options] FILE [-- arguments of the program]",
        description="Run a program that can change its size.",
        epilog="Example: python -m kalends_malleable heat.py --changes 2@10,4@20 -- --rows 128",
    )
    parser.add_argument(
        "program", type=Path, metavar="FILE", help="Python file that defines a function `program`"
    )
    parser.add_argument("arguments", nargs="*", help="arguments of the program, after --")
    parser.add_argument("--size", type=int, metavar="N", help="ranks at the beginning")
    parser.add_argument(
        "--changes", metavar="N@SOP,...", help="sizes by the number of the SOP, e.g. 2@10,4@20"
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="file for arrays and state, written before each change",
    )
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        metavar="SECONDS",
        help="longest time between checkpoints, at SOPs",
    )
    parser.add_argument(
        "--restart", action="store_true", help="continue from the checkpoint, if there is one"
    )
    parser.add_argument("--mpi", action="store_true", help="use the ranks that mpiexec starts")
    return parser


def _mpi() -> Callable[[Program, RunOptions, Sequence[str]], None]:
    """Return the function that runs a program over MPI; raises `InvalidInput` if MPI cannot be loaded."""
    try:
        from kalends_malleable.mpi.ranks import run_mpi
    except (ImportError, RuntimeError) as error:
        raise InvalidInput(
            f"MPI cannot be loaded: {error}",
            remedy=f"{install_command('mpi', 'kalends-malleable')} mpich",
        ) from None
    return run_mpi


def _options(
    given: argparse.Namespace, program: Program, environment: Mapping[str, str]
) -> RunOptions:
    path: Path | None = given.checkpoint
    if path is None and (given.restart or given.checkpoint_every is not None):
        raise InvalidInput("--checkpoint is missing", remedy="give a file: --checkpoint FILE")
    nodes = [each for each in environment.get("KALENDS_NODES", "").split(",") if each]
    return RunOptions(
        size=given.size or (len(nodes) or None),
        cores=_cores(environment.get("KALENDS_CORES", "")),
        control=_control(given.changes, environment),
        checkpoints=Checkpoints(path.resolve(), given.checkpoint_every, time.monotonic)
        if path
        else None,
        restart=CheckpointFile(path, program) if path and given.restart and path.exists() else None,
        onlooker=_OnStandardError(),
    )


def _control(changes: str | None, environment: Mapping[str, str]) -> SizeControl:
    if changes is None:
        return control_named_by(environment, time.monotonic)
    return Timetable.of(changes)


def _cores(text: str) -> tuple[int, ...]:
    """Return the cores that KALENDS_CORES lists; raises `InvalidInput`."""
    try:
        cores = tuple(int(each) for each in text.split(",") if each)
    except ValueError:
        cores = (-1,)
    if len(cores) > CORES_MAX or any(core < 0 for core in cores):
        raise InvalidInput("not a list of cores, e.g. 0,1", where="KALENDS_CORES")
    return cores


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
