"""Workload logs in the Standard Workload Format as simulated jobs, and results as a log again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from heapq import heappop, heappush
from itertools import repeat
from pathlib import Path
from typing import IO, Final, Literal, get_args

from kalends.core.errors import InvalidInput
from kalends.simulation.job import SimulatedJob
from kalends.simulation.malleable import MalleableJob
from kalends.simulation.provenance import Provenance
from kalends.simulation.workloads.job_lines import (
    PARTITION,
    STATUS,
    LineBlock,
    Row,
    block_of,
    job_lines,
    row_of,
    whole_block,
)
from kalends.simulation.workloads.job_numbers import JobNumbers
from kalends.simulation.workloads.log_file import read_log_file
from kalends.simulation.workloads.swf_fields import FIELDS, PARTS, read_header
from kalends.simulation.workloads.tally import LineTally

Estimates = Literal["user", "exact", "filled"]
Damaged = Literal["refuse", "skip"]
Unsorted = Literal["refuse", "sort"]

TOO_WIDE: Final = "more processors than the machine has"
NO_COUNT: Final = "no processor count"
NO_RUN_TIME: Final = "no run time"
NO_REQUESTED_TIME: Final = "no requested time"

_ANOTHER_FORMAT: Final = (
    "give a log in the Standard Workload Format: a line of 18 numbers for each job"
)
_LOOKED_AT_TIMES: Final = (1, 3, 8)
"""Submit, run and requested time."""

_NOTE: Final = "simulated by kalends"

_NOTE_CHARACTERS: Final = 2_000
"""A longer line might not be read as a log's."""

_STILL_TRUE: Final = frozenset({
    "Computer", "Installation", "Acknowledge", "Information", "UnixStartTime", "TimeZone", "TimeZoneString",
    "StartTime", "MaxQueues", "Queues", "Queue", "MaxPartitions", "Partitions", "Partition", "Group", "User",
    "Note",
})  # fmt: skip
"""Fields of a log's header that hold for a schedule of its jobs on another machine, too."""


class WorkloadLog:
    """A log to be replayed. Iterating it reads the file, from its first line each time.

    `header` has the header's fields. While it streams, the others are filled: `jobs` counts those
    that are simulated; `dropped` has a tally per reason of those that cannot be; `cut` counts the jobs
    that ran longer than requested and are simulated with the requested time; `rounded` counts those whose
    times have decimals; `parts` counts lines about parts of a job, whose line for the whole job is simulated;
    `damaged` counts lines that are not jobs; `partitions` has the numbers of the partitions named.
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
        with closing(read_log_file(path)) as blocks:
            _, header = next(blocks)
        self.header = read_header(header.decode("utf-8", "replace").split("\n"))
        self._begin()

    def __iter__(self) -> Iterator[SimulatedJob]:
        """Return the jobs, in order of submission.

        Raises `InvalidInput` at the first line that is damaged (or skips it), out of order (or sorts
        all, which takes memory for all), or has the number of another job; and at the end if there was
        no job at all. Jobs before it have been handed out by then.
        """
        stream = self._stream()
        return iter(sorted(stream, key=lambda job: job.submit_s)) if self._sorts else stream

    def _begin(self) -> None:
        self.jobs = 0
        self.dropped: dict[str, LineTally] = {}
        self.cut = LineTally()
        self.rounded = LineTally()
        self.parts = LineTally()
        self.damaged = LineTally()
        self.partitions: set[str] = set()
        self._whole = ""
        """The number of the last whole job, as it is written."""
        self._headless = ""
        """The number of the last job that has parts, and no line for the whole."""
        self._numbers = JobNumbers()
        self._last_submit_s = 0

    def _stream(self) -> Iterator[SimulatedJob]:
        self._begin()
        with closing(read_log_file(self.path)) as blocks:
            next(blocks)
            for first_line, text in blocks:
                block = whole_block(first_line, text, keep_texts=self._keeps_lines)
                if block is None:
                    block = block_of(self._line_by_line(first_line, text))
                elif block.rows:
                    self._whole = str(block.rows[-1][0])
                self._check_numbers(block)
                self._check_order(block)
                self.jobs += len(block.rows)
                self.partitions.update(map(str, {row[PARTITION] for row in block.rows}))
                yield from self._filtered(block)
        self.partitions.discard("-1")
        if not self.jobs:
            raise self._nothing()

    def _line_by_line(self, first_line: int, block: bytes) -> Iterator[tuple[int, str, Row]]:
        for line, text in job_lines(first_line, block):
            words = text.split()
            if len(words) == FIELDS and words[STATUS] in PARTS and self._is_part(line, words):
                continue
            try:
                row = row_of(text, line)
            except InvalidInput as error:
                if not self._whole and len(words) != FIELDS:
                    error.remedy = _ANOTHER_FORMAT
                self._refuse_or_skip(line, error)
                continue
            self._whole = str(row[0])
            if any(words[at].partition(".")[2].strip("0") for at in _LOOKED_AT_TIMES):
                self.rounded.add(line, f"line {line}: job {row[0]}")
            yield line, text, row

    def _is_part(self, line: int, words: list[str]) -> bool:
        """Take note of a line about a part of a job; the result is False for the only one of a job.

        The format puts the line for the whole job, with the sum of its run times, before those of its parts.
        """
        job, status = words[0], words[STATUS]
        if job == self._whole:
            self.parts.add(line, f"line {line}: job {job}")
            return True
        if status != "2" and job != self._headless:
            return False
        self._headless = job
        self._refuse_or_skip(
            line,
            InvalidInput(
                f"a part of job {job}, which has no line for the whole job before it",
                where=f"line {line}, status",
                remedy="put a line with status 0 or 1, and the sum of the run times, before the parts",
            ),
        )
        return True

    def _check_numbers(self, block: LineBlock) -> None:
        """Refuse, or take out, jobs with the number of another one."""
        numbers = [row[0] for row in block.rows]
        start = 0
        while (at := start + self._numbers.add(numbers[start:])) < len(numbers):
            line = block.lines[at]
            self._refuse_or_skip(line, _twice(line, block.rows[at], block.rows[max(at - 1, 0)]))
            block.remove(at)
            del numbers[at]
            start = at

    def _check_order(self, block: LineBlock) -> None:
        submits = [self._last_submit_s, *[row[1] for row in block.rows]]
        if self._sorts or submits == sorted(submits):
            self._last_submit_s = submits[-1]
            return
        at = next(i for i in range(1, len(submits)) if submits[i] < submits[i - 1])
        raise self._located(
            InvalidInput(
                f"submitted at {submits[at]}, before a job above it ({submits[at - 1]})",
                where=f"line {block.lines[at - 1]}, submit_s",
                remedy="sort the log by its second field, or have it sorted: --sort, unsorted='sort'",
            )
        )

    def _filtered(self, block: LineBlock) -> Iterator[SimulatedJob]:
        """Yield the jobs that can be simulated, by the rules of Gaussier et al., SC'15."""
        machine = self.nodes
        fills, exact = self._estimates == "filled", self._estimates == "exact"
        texts: Iterable[str] = block.texts if self._keeps_lines else repeat("")
        for (
            number, submit_s, _, run_s, allocated, _, _, nodes, requested_s, _, _, user,
            _, _, _, _, _, _,
        ), line, text in zip(block.rows, block.lines, texts, strict=False):  # fmt: skip
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
            yield SimulatedJob(
                number, submit_s, nodes, requested_s, 0, user, run_s=run_s, line=text
            )

    def _drop(self, line: int, number: int, processors: int, run_s: int) -> None:
        self.jobs -= 1
        said = f"line {line}: job {number}"
        if processors > self.nodes:
            reason = TOO_WIDE
            said += f" with {processors}"
        elif processors <= 0:
            reason = NO_COUNT
        elif run_s <= 0:
            reason = NO_RUN_TIME
        else:
            reason = NO_REQUESTED_TIME
        self.dropped.setdefault(reason, LineTally()).add(line, said)

    def _refuse_or_skip(self, line: int, error: InvalidInput) -> None:
        if not self._skips:
            located = self._located(error)
            if error.remedy != _ANOTHER_FORMAT:
                located.remedy += ", or have such lines passed over: --damaged skip, damaged='skip'"
            raise located
        self.damaged.add(line, str(error))

    def _nothing(self) -> InvalidInput:
        reasons = [f"{tally.count} with {reason}" for reason, tally in self.dropped.items()]
        if self.damaged.count:
            reasons.append(f"{self.damaged.count} damaged")
        remedy = _ANOTHER_FORMAT
        if NO_REQUESTED_TIME in self.dropped:
            remedy = "take the run times where none are requested: --estimates filled, estimates='filled'"
        elif TOO_WIDE in self.dropped:
            remedy = "give the machine more nodes"
        said = f" that can be simulated: {', '.join(reasons)}" if reasons else ""
        return InvalidInput(f"has no job{said}", where=str(self.path), remedy=remedy)

    def _located(self, error: InvalidInput) -> InvalidInput:
        return InvalidInput(error.detail, where=f"{self.path}, {error.where}", remedy=error.remedy)


def open_log(
    path: Path | str,
    *,
    nodes: int,
    estimates: Estimates = "user",
    damaged: Damaged = "refuse",
    unsorted: Unsorted = "refuse",
    keep_lines: bool = False,
) -> WorkloadLog:
    """Return the log at `path`, plain or gzip, for a machine of `nodes` nodes.

    `estimates`: ``user`` takes the requested times of the log, ``exact`` the run times instead, for the
    same jobs, ``filled`` the run times for jobs that requested none. `damaged` lines are refused, or
    skipped and counted; so are job numbers used twice. Times with decimals become whole seconds
    (`kalends.simulation.workloads.swf_fields.whole_seconds`). An `unsorted` log is refused, or sorted by
    submit time in memory. With `keep_lines` each job has its line, for `ResultWriter`.

    Raises `InvalidInput` for a file that cannot be read, and for anything else than these words.
    """
    if nodes < 1:
        raise InvalidInput(f"{nodes} nodes", where="nodes", remedy="give 1 or more")
    for name, given, words in (
        ("estimates", estimates, get_args(Estimates)),
        ("damaged", damaged, get_args(Damaged)),
        ("unsorted", unsorted, get_args(Unsorted)),
    ):
        if given not in words:
            raise InvalidInput(f"{given!r}", where=name, remedy=f"write {' or '.join(words)}")
    return WorkloadLog(
        Path(path),
        nodes=nodes,
        estimates=estimates,
        damaged=damaged,
        unsorted=unsorted,
        keep_lines=keep_lines,
    )


class ResultWriter:
    """Writes ended jobs as a log of the Standard Workload Format 2.2, in order of submission.

    Submit, wait and run time and allocated processors are those of the simulation; where a job has its line,
    its other fields are kept. The format has one line a job: of one that was preempted or resized it
    holds the wait before its first start, and all the time from then to its end, as run time; the
    processors of a resized job are the mean over its run, rounded.

    Jobs come in any order of ending, with the `order` that the scheduler gave them; what ended before
    an earlier one is kept as a line until that one has ended. How many lines that are has no limit but
    the number of jobs: under a policy that starves a job, all that were submitted after it wait for its
    end. That costs some 150 bytes a job; the metrics, 8 bytes a job, do without it.
    """

    def __init__(
        self, stream: IO[str], header: Mapping[str, str], provenance: Provenance | None = None
    ) -> None:
        """Write a header: the fields of the log's that stay true, the machine, and the `provenance`.

        Without a provenance, `header` says how large the machine is.
        """
        self._stream = stream
        self._next = 0
        self._early: list[tuple[int, str]] = []
        stream.write("; Version: 2.2\n")
        kept = _STILL_TRUE if provenance is not None else _STILL_TRUE | {"MaxNodes", "MaxProcs"}
        for name, value in header.items():
            for part in value.split("\n"):
                if name in kept and not part.startswith(_NOTE):
                    stream.write(f"; {name}: {part}\n")
        if provenance is not None and "nodes" in provenance.options:
            for name in ("MaxNodes", "MaxProcs"):
                stream.write(f"; {name}: {provenance.options['nodes']}\n")
        stream.write(f"; Note: {_NOTE}: wait and run times and allocated processors\n")
        if provenance is not None:
            text = provenance.as_json()
            for at in range(0, len(text), _NOTE_CHARACTERS):
                stream.write(f"; Note: {_NOTE}: {text[at : at + _NOTE_CHARACTERS]}\n")

    def add(self, job: SimulatedJob) -> None:
        line = _result_line(job)
        if job.order != self._next:
            heappush(self._early, (job.order, line))
            return
        self._stream.write(line)
        self._next += 1
        while self._early and self._early[0][0] == self._next:
            self._stream.write(heappop(self._early)[1])
            self._next += 1

    def close(self) -> None:
        """Write what still waits for a job that never ended. The stream stays open."""
        while self._early:
            self._stream.write(heappop(self._early)[1])


def _twice(line: int, row: Row, before: Row) -> InvalidInput:
    """Return the error for a job with the number of another one, or for a line in a wrong place."""
    where, remedy = (
        "status",
        "put the line for the whole job before those for its parts, or leave it out",
    )
    if str(row[STATUS]) in PARTS:
        detail = f"a part of job {row[0]}, which does not follow the line for the whole job"
    elif before[0] == row[0] and str(before[STATUS]) in PARTS:
        detail = f"the line for the whole job {row[0]} follows that for a part of it"
    else:
        where, remedy = "job", "give each job a number of its own, or leave the line out"
        detail = f"job {row[0]} occurs twice"
    return InvalidInput(detail, where=f"line {line}, {where}", remedy=remedy)


def _result_line(job: SimulatedJob) -> str:
    start_s = job.start_s
    wait_s, run_s = start_s - job.submit_s, job.end_s - start_s
    nodes = job.mean_nodes() if isinstance(job, MalleableJob) else job.nodes
    if not job.line:
        return (
            f"{job.id} {job.submit_s} {wait_s} {run_s} {nodes} -1 -1 {nodes}"
            f" {job.asked_s or job.requested_s} -1 1 {job.user} -1 -1 -1 -1 -1 -1\n"
        )
    words = job.line.split()
    words[1:5] = str(job.submit_s), str(wait_s), str(run_s), str(nodes)
    words[7] = str(nodes)
    if words[8].startswith("-") or words[8] == "0" or "." in words[8]:
        words[8] = str(job.asked_s or job.requested_s)
    return " ".join(words) + "\n"
