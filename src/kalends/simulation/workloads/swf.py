"""Workload logs in the Standard Workload Format as simulated jobs, and results as a log again.

What a log's line is, `kalends.core.swf` says. Here whole blocks of lines are read at once, and only
the fields that a simulation needs: number, submit time, run time, the two processor counts, requested
time and user. The other fields may hold anything of digits, signs and points.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Final, Literal

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.limits import TIME_S_MAX
from kalends.core.swf import FIELDS, SwfJob, fields_of, known_number, read_header, whole_number
from kalends.simulation.job import SimulatedJob
from kalends.simulation.workloads.job_numbers import JobNumbers
from kalends.simulation.workloads.log_file import read_log_file
from kalends.simulation.workloads.tally import Tally

Estimates = Literal["user", "exact", "filled"]
Damaged = Literal["refuse", "skip"]
Unsorted = Literal["refuse", "sort"]

_NAMES: Final = ("job", "submit_s", "run_s", "processors_allocated", "processors_requested",
                 "time_requested_s", "user")  # fmt: skip
_AT: Final = tuple(SwfJob.__struct_fields__.index(name) for name in _NAMES)
_CLEAN: Final = b"0123456789-. \t\r\n"
_NUMBER_MAX: Final = 10**15 - 1
"""Numbers of more than 15 digits are damage: `kalends.core.swf` says so too."""
_LEAST: Final = (0, 0, -1, -1, -1, -1, -1)
_MOST: Final = (_NUMBER_MAX, *[TIME_S_MAX] * 6)

NO_COUNT: Final = "no processor count"
TOO_WIDE: Final = "more processors than the machine has"
NO_RUN_TIME: Final = "no run time"
NO_REQUESTED_TIME: Final = "no requested time"


class _Rows(msgspec.Struct):
    """Job lines by column: `columns` are the fields of `_NAMES`, `kept` the lines if they are kept."""

    lines: list[int]
    columns: list[list[int]]
    kept: list[str]

    def remove(self, at: int) -> None:
        for column in (self.lines, *self.columns, self.kept):
            del column[at : at + 1]


class _RepeatedNumbers(dict[str, int]):
    """Numbers that come again and again: making one is slower than looking it up."""

    def __missing__(self, word: str) -> int:
        number = int(word)
        if not -1 <= number <= TIME_S_MAX:
            raise ValueError(word)
        if len(self) == 1 << 14:
            self.clear()
        self[word] = number
        return number


class Log:
    """A log to be replayed. Iterating it reads the file, from its first line each time.

    `header` has the header's fields. While it streams, the others are filled: `jobs` counts what was
    handed out; `dropped` has a tally per reason of jobs that cannot be simulated; `cut` counts the jobs
    that ran longer than requested and are simulated with the requested time; `damaged` counts lines
    that are no jobs.
    """

    def __init__(
        self,
        path: Path,
        *,
        nodes: int,
        estimates: Estimates,
        damaged: Damaged,
        unsorted: Unsorted,
        keep_lines: bool,
    ) -> None:
        self.path = path
        self.nodes = nodes
        self._estimates = estimates
        self._skips = damaged == "skip"
        self._sorts = unsorted == "sort"
        self._keeps_lines = keep_lines
        blocks = read_log_file(path)
        _, header = next(blocks)
        blocks.close()
        self.header = read_header(header.decode("utf-8", "replace").split("\n"))
        self._begin()

    def _begin(self) -> None:
        self.jobs = 0
        self.dropped: dict[str, Tally] = {}
        self.cut = Tally()
        self.damaged = Tally()
        self._numbers = JobNumbers()
        self._repeated = _RepeatedNumbers()
        self._last_submit_s = 0

    def __iter__(self) -> Iterator[SimulatedJob]:
        """The jobs, in order of submission.

        Raises `InvalidInput` at the first line that is damaged (or skips it), out of order (or sorts
        all, which takes memory for all), or has the number of another job; and at the end if there was
        no job at all. Jobs before it have been handed out by then.
        """
        stream = self._stream()
        if not self._sorts:
            return stream
        return iter(sorted(stream, key=lambda job: job.submit_s))

    def _stream(self) -> Iterator[SimulatedJob]:
        self._begin()
        blocks = read_log_file(self.path)
        next(blocks)
        for first_line, block in blocks:
            rows = self._whole_block(first_line, block) or self._line_by_line(first_line, block)
            self._check_numbers(rows)
            if not self._sorts:
                self._check_order(rows)
            yield from self._filtered(rows)
        if not self.jobs:
            raise self._nothing()

    def _whole_block(self, first_line: int, block: bytes) -> _Rows | None:
        """The rows of a block in which every line is a job; None: look line by line."""
        if block.translate(None, _CLEAN):
            return None
        text = block.decode("ascii")
        if text[-1] != "\n":
            text += "\n"
        words = text.replace("\n", " ; ").split()
        step = FIELDS + 1
        lines, odd = divmod(len(words), step)
        if odd or words[FIELDS::step].count(";") != lines or text.count("\n") != lines:
            return None
        repeated = self._repeated.__getitem__
        try:
            new = [list(map(int, words[at::step])) for at in _AT[:3]]
            old = [list(map(repeated, words[at::step])) for at in _AT[3:]]
        except ValueError:
            return None
        for column, least, most in zip(new, _LEAST, _MOST, strict=False):
            if min(column) < least or max(column) > most:
                return None
        kept = text.split("\n") if self._keeps_lines else []
        return _Rows(list(range(first_line, first_line + lines)), new + old, kept)

    def _line_by_line(self, first_line: int, block: bytes) -> _Rows:
        rows = _Rows([], [[] for _ in _NAMES], [])
        lines = block.decode("utf-8", "replace").split("\n")
        for number, line in enumerate(lines, start=first_line):
            text = line.strip()
            if not text or text.startswith(";"):
                continue
            try:
                row = _row(text, number)
            except InvalidInput as error:
                if not self._skips:
                    raise self._located(error) from None
                self.damaged.add(number, str(error))
                continue
            rows.lines.append(number)
            for column, value in zip(rows.columns, row, strict=True):
                column.append(value)
            if self._keeps_lines:
                rows.kept.append(text)
        return rows

    def _check_numbers(self, rows: _Rows) -> None:
        """Refuse, or take out of `rows`, jobs with the number of another one."""
        numbers = rows.columns[0]
        start = 0
        while (at := start + self._numbers.add(numbers[start:])) < len(numbers):
            error = InvalidInput(
                f"there is a job {numbers[at]} already",
                where=f"line {rows.lines[at]}, job",
                remedy="give each job a number of its own, or leave the line out",
            )
            if not self._skips:
                raise self._located(error)
            self.damaged.add(rows.lines[at], str(error))
            rows.remove(at)
            start = at

    def _check_order(self, rows: _Rows) -> None:
        submits = [self._last_submit_s, *rows.columns[1]]
        if submits != sorted(submits):
            at = next(i for i in range(1, len(submits)) if submits[i] < submits[i - 1])
            raise self._located(
                InvalidInput(
                    f"submitted at {submits[at]}, before the job above it ({submits[at - 1]})",
                    where=f"line {rows.lines[at - 1]}, submit_s",
                    remedy="sort the log by its second field, or ask for it to be sorted",
                )
            )
        self._last_submit_s = submits[-1]

    def _filtered(self, rows: _Rows) -> Iterator[SimulatedJob]:
        """The jobs that can be simulated, by the rules of Gaussier et al., SC'15."""
        machine = self.nodes
        fills, exact = self._estimates == "filled", self._estimates == "exact"
        handed_out = 0
        for number, submit_s, run_s, allocated, nodes, requested_s, user, line, text in zip(
            *rows.columns, rows.lines, rows.kept or repeat(""), strict=False
        ):
            if nodes <= 0:
                nodes = allocated
            if fills and requested_s <= 0:
                requested_s = run_s
            if not (0 < nodes <= machine >= allocated and run_s > 0 and requested_s > 0):
                self._drop(line, number, max(nodes, allocated), run_s)
                continue
            if run_s > requested_s:
                self.cut.add(line, f"line {line}: job {number} ran {run_s} s of {requested_s} s")
                run_s = requested_s
            elif exact:
                requested_s = run_s
            handed_out += 1
            yield SimulatedJob(
                number, submit_s, nodes, requested_s, 0, user, run_s=run_s, line=text
            )
        self.jobs += handed_out

    def _drop(self, line: int, number: int, processors: int, run_s: int) -> None:
        if processors > self.nodes:
            reason, said = TOO_WIDE, f"{processors} processors"
        elif processors <= 0:
            reason, said = NO_COUNT, "none"
        elif run_s <= 0:
            reason, said = NO_RUN_TIME, f"run time {run_s} s"
        else:
            reason, said = NO_REQUESTED_TIME, "none"
        self.dropped.setdefault(reason, Tally()).add(line, f"line {line}: job {number}, {said}")

    def _nothing(self) -> InvalidInput:
        reasons = [f"{tally.count} for {reason}" for reason, tally in self.dropped.items()]
        if self.damaged.count:
            reasons.append(f"{self.damaged.count} damaged")
        if not reasons:
            return InvalidInput(
                "has no job", where=str(self.path), remedy="give a log with a job a line"
            )
        remedy = "give another log"
        if NO_REQUESTED_TIME in self.dropped:
            remedy = "take the run times where none are requested: estimates filled"
        elif TOO_WIDE in self.dropped:
            remedy = "give the machine more nodes"
        return InvalidInput(
            f"has no job that can be simulated: {', '.join(reasons)}",
            where=str(self.path),
            remedy=remedy,
        )

    def _located(self, error: InvalidInput) -> InvalidInput:
        return InvalidInput(error.detail, where=f"{self.path}, {error.where}", remedy=error.remedy)


def _row(text: str, line: int) -> list[int]:
    words = fields_of(text, line)
    row = []
    for name, at, least, most in zip(_NAMES, _AT, _LEAST, _MOST, strict=True):
        number = (known_number if least == 0 else whole_number)(words[at], name, line)
        if number > most:
            raise InvalidInput(
                f"{number} is more than {most}",
                where=f"line {line}, {name}",
                remedy="correct the line or leave it out",
            )
        row.append(number)
    return row


def open_log(
    path: Path | str,
    *,
    nodes: int,
    estimates: Estimates = "user",
    damaged: Damaged = "refuse",
    unsorted: Unsorted = "refuse",
    keep_lines: bool = False,
) -> Log:
    """The log at `path`, plain or gzip, for a machine of `nodes` nodes.

    `estimates`: ``user`` takes the requested times of the log, ``exact`` the run times instead, for the
    same jobs, ``filled`` the run times for jobs that requested none. `damaged` lines are refused, or
    skipped and counted; so are job numbers used twice. An `unsorted` log is refused, or sorted by
    submit time in memory. With `keep_lines` each job has its line, for `ResultWriter`.

    Raises `InvalidInput` for a file that cannot be read.
    """
    if nodes < 1:
        raise InvalidInput(f"{nodes} nodes", where="nodes", remedy="give 1 or more")
    return Log(
        Path(path),
        nodes=nodes,
        estimates=estimates,
        damaged=damaged,
        unsorted=unsorted,
        keep_lines=keep_lines,
    )
