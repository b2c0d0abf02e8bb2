"""Work as plain text for any planner in any language, and its answers and timings back.

The format is in docs/calendar-benchmark.md. The first line of both files is the recipe with a digest
of the work, so that answers are compared only with the very work that they answer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from benchmarks.calendars import workload as work
from benchmarks.calendars.measure import Run
from benchmarks.calendars.workload import Recipe, Workload
from kalends.core.errors import InvalidInput

BOOKINGS_MAX: Final = 10_000_000
OPERATIONS_MAX: Final = 100_000
NODES_MAX: Final = 10_000_000
SEED_MAX: Final = 2**32
LINE_MAX: Final = 200
"""Characters of a line; the header is the longest one."""

_HEADER = re.compile(
    r"kalends-trace 1 kind=(capacity|unit|queue) seed=(\d{1,10}) nodes=(\d{1,8})"
    r" bookings=(\d{1,8}) operations=(\d{1,6}) digest=([0-9a-f]{16})"
)
_ENGINE = re.compile(r"engine ([A-Za-z0-9._+-]{1,40})")
_ANSWER = re.compile(r"(\d{1,9}) (-|-?\d{1,18}) (\d{1,15})")


class Answers(NamedTuple):
    """What another engine said about the work of `recipe`."""

    engine: str
    recipe: Recipe
    digest: str
    by_line: dict[int, tuple[int, int]]
    """Answer and nanoseconds, by line of the trace."""


def lines(workload: Workload) -> Iterator[str]:
    """The trace: header, a line for each booking that is loaded, a line for each operation."""
    body = list(_body(workload))
    yield header(workload.recipe, _digest(body))
    yield from body


def header(recipe: Recipe, digest: str) -> str:
    return (
        f"kalends-trace 1 kind={recipe.kind} seed={recipe.seed} nodes={recipe.nodes}"
        f" bookings={recipe.bookings} operations={recipe.operations} digest={digest}"
    )


def read_answers(name: str, text: Iterable[str]) -> Answers:
    """The answers in the lines of file `name`; raises `InvalidInput` that names the damaged line."""
    numbered = enumerate((line.rstrip("\r\n") for line in text), 1)
    found = _match(name, numbered, _HEADER, "the first line of the trace, unchanged")
    kind, digest = found[1], found[6]
    seed, nodes, bookings, operations = (int(found[at]) for at in range(2, 6))
    for value, most, what in (
        (seed, SEED_MAX, "seed"),
        (nodes, NODES_MAX, "nodes"),
        (bookings, BOOKINGS_MAX, "bookings"),
        (operations, OPERATIONS_MAX, "operations"),
    ):
        if value > most:
            raise _damaged(name, 1, f"{what}={value} is more than {most}", "write a smaller trace")
    known = next(each for each in work.KINDS if each == kind)
    recipe = Recipe(known, seed, nodes, bookings, operations)
    engine = _match(name, numbered, _ENGINE, "'engine NAME'")[1]
    by_line: dict[int, tuple[int, int]] = {}
    before = 1
    for number, line in numbered:
        answer = _ANSWER.fullmatch(line[:LINE_MAX])
        if answer is None:
            raise _damaged(
                name, number, f"{_shown(line)} is no answer", "write: LINE ANSWER NANOSECONDS"
            )
        at = int(answer[1])
        if at <= before:
            raise _damaged(
                name,
                number,
                f"line {at} after line {before}",
                "answer in the order of the trace, which begins with line 2",
            )
        before = at
        by_line[at] = (-1 if answer[2] == "-" else int(answer[2]), int(answer[3]))
    return Answers(engine, recipe, digest, by_line)


def check_same_work(name: str, answers: Answers, workload: Workload) -> None:
    """Raises `InvalidInput` when this version makes other work of the recipe than was answered."""
    digest = _digest(_body(workload))
    if digest != answers.digest:
        raise _damaged(
            name,
            1,
            f"the recipe makes work with digest {digest} here, not {answers.digest}",
            "write the trace again with this version, and replay it again",
        )


def as_run(name: str, answers: Answers, workload: Workload) -> Run:
    """The answers as if the engine had run here; raises `InvalidInput` for lines beyond the trace."""
    run = Run(answers.engine, None)
    first = 2 + len(workload.loaded)
    last = first + len(workload.operations) - 1
    for line, (answer, elapsed_ns) in answers.by_line.items():
        if line > last:
            raise InvalidInput(
                f"an answer to line {line} of a trace of {last} lines",
                where=name,
                remedy="number the lines of the trace from 1, the header",
            )
        if line >= first:
            operation = workload.operations[line - first]
            run.note(operation.group, elapsed_ns)
            changes = operation.word in ("add", "rem", "state")
            run.answers[line - first] = 0 if changes else answer
    run.processor_s = sum(map(sum, run.times_ns.values())) / 1e9
    return run


def _body(workload: Workload) -> Iterator[str]:
    for each in workload.loaded:
        yield " ".join(["add", *map(str, workload.booking(each))])
    for operation in workload.operations:
        yield " ".join([operation.word, *map(str, operation.arguments)])


def _digest(body: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in body:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:16]


def _match(
    name: str, numbered: Iterator[tuple[int, str]], pattern: re.Pattern[str], wanted: str
) -> re.Match[str]:
    number, line = next(numbered, (0, None))
    if line is None:
        raise InvalidInput("the file ends too early", where=name, remedy=f"it needs {wanted}")
    found = pattern.fullmatch(line[:LINE_MAX])
    if found is None:
        raise _damaged(name, number, f"{_shown(line)} is not {wanted}", "copy or write it exactly")
    return found


def _shown(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:57] + "...")


def _damaged(name: str, number: int, detail: str, remedy: str) -> InvalidInput:
    return InvalidInput(detail, where=f"{name}:{number}", remedy=remedy)
