"""What replays cost, per policy: CPU time, memory, each layer, long queues; beside AccaSim.

    python benchmarks/simulate.py LOG:NODES [LOG:NODES ...] [--jobs 1000000] [--accasim DIR] [--json]

Every figure is of a whole process, user and system time, the median of some runs; reading the log is
always in it. See docs/simulation-benchmark.md. Tables go to standard output, or JSON with ``--json``;
progress to standard error. Prints figures and judges nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

# In place of this folder, whose calendar.py would stand in for the standard library's.
if __name__ == "__main__":
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.other_simulators import accasim_runner
from benchmarks.simulating import beside, logs, ours, report
from benchmarks.simulating.ours import LogGiven
from benchmarks.simulating.processes import Child

POLICIES: Final = ("fcfs", "easy", "easy-sjbf", "conservative")


def simulating(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    child = Child(folder)
    # The first process of all compiles what the others load.
    child.run([*ours.PROGRAM, "simulate", "--generate", "poisson", "--jobs", "9", "--nodes", "9"])
    return {
        "runs": options.runs,
        "whole": list(map(_told, _whole(child, folder, options))),
        "layers": list(map(_told, _layers(child, folder, options))),
        "queues": list(map(_told, _queues(child, folder, options))),
        "beside": list(map(_told, _beside(child, folder, options))),
    }


def _whole(child: Child, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for given in options.logs:
        for policy in options.policies:
            yield ours.whole(child, folder, given, policy, options.runs)
    for given in options.logs[: bool(options.jobs)]:
        many = LogGiven(folder / f"{options.jobs}.swf", given.nodes)
        logs.write_repeated(given.path, many.path, nodes=given.nodes, jobs=options.jobs)
        for policy in options.many_policies:
            yield ours.whole(child, folder, many, policy, 1)
        many.path.unlink()


def _layers(child: Child, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for given in options.logs:
        for policy in options.policies:
            yield ours.layers(child, folder, given, policy, options.runs)


def _queues(child: Child, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for policy in options.policies:
        for waiting in options.queues:
            yield ours.queue(child, folder, policy, waiting, options.runs)


def _beside(child: Child, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if options.accasim is None:
        return
    for given in options.logs:
        for policy in accasim_runner.POLICIES:
            yield from beside.accasim(
                child, folder, given, policy, options.accasim, options.accasim_python
            )


def _told(row: dict[str, Any]) -> dict[str, Any]:
    print(report.progress(row), file=sys.stderr, flush=True)
    return row


def _log(text: str) -> LogGiven:
    path, _, nodes = text.rpartition(":")
    if not (nodes.isascii() and nodes.isdecimal() and int(nodes)) or not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file, a colon and a number of nodes")
    return LogGiven(Path(path), int(nodes))


def _listed(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _counts(text: str) -> list[int]:
    numbers = [int(part) for part in _listed(text)]
    if numbers and min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of positive numbers")
    return numbers


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "logs", nargs="*", type=_log, metavar="LOG:NODES", help="SWF, plain or gzip"
    )
    parser.add_argument("--policies", type=_listed, default=list(POLICIES), metavar="P,P..")
    parser.add_argument("--runs", type=int, default=5, help="of each, to take the median of")
    parser.add_argument(
        "--jobs", type=int, default=0, help="also the first log, repeated to have so many jobs"
    )
    parser.add_argument(
        "--many-policies",
        type=_listed,
        default=["fcfs", "easy"],
        metavar="P,P..",
        help="with --jobs",
    )
    parser.add_argument(
        "--queues", type=_counts, default=[10, 100, 1_000, 10_000], metavar="N,N..",
        help="how many wait; an empty text for none",
    )  # fmt: skip
    parser.add_argument(
        "--accasim", type=Path, metavar="DIR", help="beside AccaSim, its environment in DIR"
    )
    parser.add_argument(
        "--accasim-python", default=sys.executable, metavar="PYTHON", help="to make DIR with"
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.jobs < 0:
        parser.error("--runs and --jobs are not negative, and there is 1 run or more")
    if not options.logs and (options.jobs or options.accasim):
        parser.error("--jobs and --accasim need a log")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = options_of(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = simulating(options, Path(folder))
    print(json.dumps(result, indent=2) if options.json else report.tables(result))


if __name__ == "__main__":
    main()
