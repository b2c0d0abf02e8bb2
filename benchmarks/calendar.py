"""How fast calendars answer, by number of bookings, beside what else pip installs.

    python benchmarks/calendar.py [--quick] [--only capacity,unit,queue] [--json [FILE]]

Every engine replays the same seeded work, and must give the same answers: the command fails when one
does not. A trace can be written for any other planner, and its answers and timings read back; see
docs/calendar-benchmark.md, which also says what each class of operations is.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # A script's folder comes first on the path, and there this script would stand in for the
    # standard library's `calendar`.
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import argparse
import json
from dataclasses import asdict
from typing import Any

from benchmarks.calendars import peers, report, trace, workload
from benchmarks.calendars.measure import Budget, Run, mismatches, replay
from benchmarks.calendars.trace import Answers
from benchmarks.calendars.workload import Recipe
from kalends.core.errors import InvalidInput

SIZES = "1e3,1e4,1e5,1e6"
NODES = "1024,100000"
OPERATIONS = 1_000
JOBS = 10_000
QUICK = {"sizes": "1e3,1e4", "nodes": "1024", "operations": 200, "jobs": 1_000, "budget_s": 0.5}
QUEUE_BUDGET_S = 15.0
SIZE_MAX = 10_000_000


def whole(text: str) -> int:
    """A whole number, also written like 1e5."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1 <= value <= SIZE_MAX or value != int(value):
        raise InvalidInput(
            f"{text!r} is not a size", where="sizes", remedy=f"give numbers from 1 to {SIZE_MAX:,}"
        )
    return int(value)


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="benchmarks/calendar.py", description=(__doc__ or "").splitlines()[0]
    )
    add = words.add_argument
    add(
        "--only",
        default=",".join(workload.KINDS),
        help=f"what to measure (default: {','.join(workload.KINDS)})",
    )
    add("--sizes", help=f"bookings of one calendar (default: {SIZES})")
    add("--nodes", help=f"units of a capacity calendar (default: {NODES})")
    add("--operations", type=int, help=f"operations of each class (default: {OPERATIONS})")
    add("--jobs", type=int, help=f"jobs of the queue (default: {JOBS})")
    add("--seed", type=int, default=1)
    add("--rounds", type=int, default=5, help="turns that the engines take (default: 5)")
    add("--budget-s", type=float, help="processor seconds for one class of one engine (default: 2)")
    add("--quick", action="store_true", help="small sizes, about 20 seconds")
    add("--json", nargs="?", const="-", metavar="FILE", help="figures as JSON, to stdout or FILE")
    add("--write-trace", metavar="FILE", help="write the one workload that is chosen, and stop")
    add("--answers", metavar="FILE", action="append", default=[], help="another engine's answers")
    add("--progress", action=argparse.BooleanOptionalAction, default=sys.stderr.isatty())
    return words


def settle(options: argparse.Namespace) -> None:
    """Fill in what was not said; raises `InvalidInput` for what cannot be."""
    everyday = {
        "sizes": SIZES, "nodes": NODES, "operations": OPERATIONS, "jobs": JOBS, "budget_s": 2.0,
    }  # fmt: skip
    for name, usual in (everyday | QUICK if options.quick else everyday).items():
        if getattr(options, name) is None:
            setattr(options, name, usual)
    options.only = options.only.split(",")
    for kind in options.only:
        if kind not in workload.KINDS:
            raise InvalidInput(
                f"{kind!r} is not measured",
                where="only",
                remedy=f"choose from {', '.join(workload.KINDS)}",
            )
    options.sizes = [whole(text) for text in options.sizes.split(",")]
    options.nodes = [whole(text) for text in options.nodes.split(",")]
    for name, most in (("operations", trace.OPERATIONS_MAX), ("jobs", trace.OPERATIONS_MAX),
                       ("rounds", 1_000), ("seed", trace.SEED_MAX), ("budget_s", 3_600)):  # fmt: skip
        if not (0 if name == "seed" else 0.01) <= getattr(options, name) <= most:
            raise InvalidInput(
                f"{getattr(options, name)} is out of range", where=name, remedy=f"at most {most:,}"
            )


def recipes(options: argparse.Namespace) -> list[Recipe]:
    """The work of one calendar that was chosen."""
    chosen: list[Recipe] = []
    for nodes in options.nodes:
        if "capacity" in options.only:
            chosen += [
                Recipe("capacity", options.seed, nodes, size, options.operations)
                for size in options.sizes
            ]
        if "queue" in options.only:
            chosen.append(Recipe("queue", options.seed, nodes, 0, options.jobs))
    if "unit" in options.only:
        chosen += [
            Recipe("unit", options.seed, 1, size, options.operations) for size in options.sizes
        ]
    return chosen


class Bench:
    """Collects figures; one workload in memory at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._too_large: set[tuple[str, str]] = set()
        self.result: dict[str, Any] = {
            "seed": options.seed, "rows": [], "growth": [], "targets": [], "missing": [],
            "mismatches": [], "compared": 0,
        }  # fmt: skip

    def measure(self, recipe: Recipe, answers: list[tuple[str, Answers]]) -> None:
        """Replay the work of `recipe` on all engines, and put others' answers beside theirs."""
        name = f"{recipe.kind} {recipe.nodes:,} x {recipe.bookings or recipe.operations:,}"
        self.tell(name)
        work = workload.make(recipe)
        outside: list[Run] = []
        for file, answered in answers:
            trace.check_same_work(file, answered, work)
            outside.append(trace.as_run(file, answered, work))
        there, missing = peers.installed(recipe.kind)
        self._missing(missing)
        able = [each for each in there if (recipe.kind, each.name) not in self._too_large]
        seconds = self._options.budget_s
        if recipe.kind == "queue":
            seconds = max(seconds, QUEUE_BUDGET_S if not self._options.quick else seconds)
        runs = replay(
            work, [each(recipe.nodes) for each in able], self._options.rounds, Budget(seconds)
        )
        for run in runs:
            if "all" in run.stopped and not run.answers:
                self._too_large.add((recipe.kind, run.name))
        for each in there:
            if each not in able:
                gone = Run(each.name, None, stopped={"all": "not tried: fewer took too long"})
                runs.append(gone)
        runs += outside
        self.compare(name, [asdict(each) for each in mismatches(work, runs)], runs)
        self.result["rows"] += report.rows(recipe, runs)

    def compare(self, name: str, found: list[dict[str, Any]], runs: list[Run]) -> None:
        self.result["compared"] += sum(
            len(run.answers.keys() & runs[0].answers.keys()) for run in runs[1:]
        )
        self.result["mismatches"] += [{**each, "workload": name} for each in found]

    def finish(self) -> dict[str, Any]:
        self.result["growth"] = report.growth(self.result["rows"])
        self.result["targets"] = report.judged(self.result["rows"], self.result["growth"])
        return self.result

    def tell(self, text: str) -> None:
        if self._options.progress:
            print(text, file=sys.stderr, flush=True)

    def _missing(self, names: list[str]) -> None:
        known = self.result["missing"]
        known += [name for name in names if name not in known]


def write_trace(file: str, options: argparse.Namespace) -> None:
    """Raises `InvalidInput` unless exactly one workload is chosen."""
    chosen = recipes(options)
    if len(chosen) != 1:
        raise InvalidInput(
            f"{len(chosen)} workloads are chosen, and a trace holds one",
            where="write-trace",
            remedy="choose one: --only capacity --sizes 1e4 --nodes 1024",
        )
    with Path(file).open("w", encoding="ascii") as target:
        target.writelines(f"{line}\n" for line in trace.lines(workload.make(chosen[0])))


def read_answers(file: str) -> Answers:
    """What is in `file`, never more than a line of it at once."""
    with Path(file).open(encoding="ascii", errors="replace") as source:
        return trace.read_answers(file, iter(lambda: source.readline(trace.LINE_MAX + 1), ""))


def run(options: argparse.Namespace) -> int:
    settle(options)
    if options.write_trace:
        write_trace(options.write_trace, options)
        return 0
    answers = [(file, read_answers(file)) for file in options.answers]
    chosen = list(dict.fromkeys([*(answered.recipe for _, answered in answers), *recipes(options)]))
    bench = Bench(options)
    for recipe in sorted(chosen, key=lambda each: (each.kind, each.nodes, each.bookings)):
        bench.measure(recipe, [pair for pair in answers if pair[1].recipe == recipe])
    result = bench.finish()
    if options.json == "-":
        print(json.dumps(result, indent=2))
    else:
        print(report.table(result))
        if options.json:
            Path(options.json).write_text(json.dumps(result, indent=2) + "\n")
    return 1 if result["mismatches"] else 0


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return run(options)
    except InvalidInput as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
