"""Logs and results as the checker reads them: SWF, plain or gzip, and CSV by the names of its columns."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.limits import TIME_S_MAX
from kalends.simulation.checking.findings import Blocked, LoggedJob, ResultRow
from kalends.simulation.checking.ticks import SECONDS, Ticks, decimals_in

TEXT_BYTES_MAX: Final = 512 * 1024**2
"""A log is held in memory; what unpacks to more than this is no log."""

_FIELDS: Final = 18
_STATUS: Final = 10
_PARTS: Final = frozenset({"2", "3", "4"})
_TIMES: Final = (1, 3, 8)
_UNKNOWN: Final = "-1"
"""Submit, run and requested time."""
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_COUNT: Final = re.compile(r"[0-9](?:[0-9.,'_]*[0-9])?(?: [0-9]{3}\b)?")
_GROUPED: Final = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_JOB: Final = re.compile(r"(?:[^!]*!)?([0-9]{1,15})")
_RESOURCES: Final = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?")

_COLUMNS: Final = {
    "job": ("job_id", "jobid", "job", "id"),
    "start": ("starting_time", "start_time", "start_s", "start"),
    "end": ("finish_time", "end_time", "end_s", "end"),
    "submit": ("submission_time", "submit_time", "submit_s", "submit"),
    "nodes": ("nodes",),
    "asked nodes": ("requested_number_of_resources", "requested_number_of_processors"),
    "asked time": ("requested_time", "requested_s", "walltime"),
    "resources": ("allocated_resources", "allocated_processors"),
}
"""Names of columns, of Batsim, evalys and kalends, in small letters."""


def read_requests(
    path: Path,
    nodes: int,
    estimates: str,
    ticks: Ticks = SECONDS,
) -> list[LoggedJob]:
    """Return the jobs of a log that `nodes` nodes can run, in order of submission (SC'15 filter)."""
    found = []
    known: dict[int, bool] = {}
    for line, words in _job_lines(path):
        job, allocated, requested = (_whole(words[at], path, line) for at in (0, 4, 7))
        submit_s = _logged(words[1], path, line, ticks, up=False)
        run_s, time_s = (_logged(words[at], path, line, ticks, up=True) for at in (3, 8))
        part = words[_STATUS] in _PARTS
        if job in known:
            raise _twice(job, path, line, part=part, after_part=known[job])
        known[job] = part
        if max(allocated, requested) > nodes or max(allocated, requested) <= 0 or run_s <= 0:
            continue
        logged_s = max(time_s, 0)
        if time_s <= 0:
            if estimates != "filled":
                continue
            time_s = run_s
        uncut_s, run_s = run_s, min(run_s, time_s)
        wanted = requested if requested > 0 else allocated
        planned_s = run_s if estimates == "exact" else time_s
        found.append(LoggedJob(job, submit_s, wanted, planned_s, run_s, wanted, logged_s, uncut_s))
    if not found:
        raise InvalidInput(
            "no job can be simulated",
            where=str(path),
            remedy="give the log that was simulated",
        )
    return sorted(found, key=lambda request: request.submit_s)


def _twice(job: int, path: Path, line: int, *, part: bool, after_part: bool) -> InvalidInput:
    remedy = "put the line for the whole job before those for its parts, or leave it out"
    if part:
        detail = f"a part of job {job}, which does not follow the line for the whole job"
    elif after_part:
        detail = f"the line for the whole job {job} follows that for a part of it"
    else:
        detail = f"job {job} occurs twice"
        remedy = "give each job a number of its own, or leave the line out"
    return InvalidInput(detail, where=f"{path}, line {line}", remedy=remedy)


def _job_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines about whole jobs: those about parts of the job before them are passed over.

    A line about the last part (3 or 4) is that for the whole job if it is the only one. Raises `InvalidInput`
    for another part (2) without such a line before it.
    """
    whole = ""
    for line, words in _swf_lines(path):
        if words[_STATUS] in _PARTS and words[0] == whole:
            continue
        whole = words[0]
        if words[_STATUS] == "2":
            raise InvalidInput(
                f"a part of job {whole}, which has no line for the whole job before it",
                where=f"{path}, line {line}",
                remedy="put a line with status 0 or 1, and the sum of the run times, before the parts",
            )
        yield line, words


def _logged(word: str, path: Path, line: int, ticks: Ticks, *, up: bool) -> int:
    """Return a time of the log; in seconds it is rounded as `simulate` does: moments down, lengths up."""
    time = _time(path, line, ticks, word)
    if ticks.per_second > 1 or not decimals_in([word]):
        return time
    return int(word.partition(".")[0]) + up


def read_placements(path: Path, log: Path) -> tuple[list[ResultRow], Ticks]:
    """Return the jobs of a result in the file's order, and the unit of all times of its check.

    The unit is a second, or what the decimals of the log need. A result in whole seconds is checked in
    seconds even so: a simulator that counts in seconds has rounded the log.
    """
    decimals = decimals_in(words[at] for _, words in _job_lines(log) for at in _TIMES)
    if decimals:
        ticks = Ticks(10**decimals)
        rows = _placements(path, ticks)
        if any(
            time is not None and time % ticks.per_second
            for row in rows
            for time in (row.submit_s, row.start_s, row.end_s)
        ):
            return rows, ticks
    return _placements(path, SECONDS), SECONDS


def _placements(path: Path, ticks: Ticks) -> list[ResultRow]:
    """Read SWF if the lines have 18 fields, else CSV."""
    text = _text(path)
    first = next((line for line in io.StringIO(text) if line.strip() and line[:1] != ";"), "")
    placements = _from_csv(path, text, ticks) if "," in first else _from_swf(path, ticks)
    if not placements:
        raise InvalidInput("has no job", where=str(path), remedy="give a schedule as SWF or CSV")
    return placements


def read_blocked(path: Path, log: Path, ticks: Ticks) -> list[Blocked]:
    """Return advance reservations from a CSV file with columns start, end and nodes.

    Times are seconds of the log, or dates (UTC where no offset is written), which need the log's
    ``UnixStartTime``.
    """
    begun = _header_number(log, "UnixStartTime")
    found = []
    for line, row in _rows(path, _text(path)):
        start_s, end_s = (
            _moment(row.get(name, ""), begun, path, line, ticks) for name in ("start", "end")
        )
        nodes = _time(path, line, SECONDS, row.get("nodes", ""))
        if start_s >= end_s or nodes < 1:
            raise InvalidInput(
                f"{nodes} nodes from {row['start']} to {row['end']}",
                where=f"{path}, line {line}",
                remedy="give 1 node or more, and an end after the start",
            )
        found.append(Blocked(start_s, end_s, nodes))
    return found


def read_nodes(log: Path) -> int:
    """Return the number of nodes in the log's header. Raises `InvalidInput` if it has none."""
    nodes = _header_number(log, "MaxProcs") or _header_number(log, "MaxNodes")
    if not nodes:
        raise InvalidInput(
            "number of nodes missing in the header",
            where=str(log),
            remedy="give --nodes N",
        )
    return nodes


def _header_number(log: Path, name: str) -> int | None:
    for line in _text(log).split("\n"):
        if line.strip() and not line.startswith(";"):
            return None
        field, _, value = line.lstrip("; \t").partition(":")
        text = value.strip()
        if field != name or text.lower() in ("", _UNKNOWN, "unknown"):
            continue
        found = _COUNT.match(text)
        digits = found[0] if found is not None else text
        digits = digits.replace(",", "") if _GROUPED.fullmatch(digits) else digits
        if len(digits) > 15 or not digits.isdecimal():
            wrong = "too large" if digits.isdecimal() else "not a whole number"
            raise InvalidInput(
                f"{name}: {digits[:40]} is {wrong}",
                where=str(log),
                remedy="correct the header"
                + ("" if name == "UnixStartTime" else ", or give --nodes N"),
            )
        return int(digits)
    return None


def _moment(word: str, begun: int | None, path: Path, line: int, ticks: Ticks) -> int:
    if begun is None or _NUMBER.fullmatch(word):
        return _time(path, line, ticks, word)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as error:
        raise _damaged(word, path, line) from error
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - begun
    return round(since * ticks.per_second)


def _from_swf(path: Path, ticks: Ticks) -> list[ResultRow]:
    placements = []
    for line, words in _swf_lines(path):
        job = _whole(words[0], path, line)
        submit, wait, run = words[1:4]
        if _UNKNOWN in (wait, run):
            continue  # A result without a start, or an end, is none.
        submit_s, start_s, end_s, asked_s = (
            _time(path, line, ticks, *each)
            for each in ((submit,), (submit, wait), (submit, wait, run), (words[8],))
        )
        nodes, asked_nodes = (_time(path, line, SECONDS, words[at]) for at in (4, 7))
        placements.append(
            ResultRow(
                job, line, start_s, end_s, submit_s, _positive(nodes),
                asked_nodes=_positive(asked_nodes), asked_s=_positive(asked_s),
            )
        )  # fmt: skip
    return placements


def _from_csv(path: Path, text: str, ticks: Ticks) -> list[ResultRow]:
    placements = []
    for line, row in _rows(path, text):
        words = {
            column: next((row[name] for name in names if row.get(name)), "")
            for column, names in _COLUMNS.items()
        }
        job = _JOB.fullmatch(words["job"])
        if job is None or not words["start"]:
            raise InvalidInput(
                "no number of a job" if job is None else "no start",
                where=f"{path}, line {line}",
                remedy="give columns such as Batsim's: job_id, starting_time, finish_time",
            )
        end_s, submit_s, asked_s = (
            _time(path, line, ticks, words[column]) if words[column] else None
            for column in ("end", "submit", "asked time")
        )
        nodes, asked_nodes = (
            _time(path, line, SECONDS, words[column]) if words[column] else None
            for column in ("nodes", "asked nodes")
        )
        nodes = asked_nodes if nodes is None else nodes
        places = tuple(_places(words["resources"], path, line))
        if places:
            nodes = sum(map(len, places))
        start_s = _time(path, line, ticks, words["start"])
        resized = row.get("profile") == "malleable"
        placements.append(
            ResultRow(
                int(job[1]), line, start_s, end_s, submit_s, nodes, places, resized,
                _positive(asked_nodes), _positive(asked_s),
            )
        )  # fmt: skip
    return placements


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        reader = csv.reader(text.splitlines(), strict=True)
        names = [name.strip().lower() for name in next(filter(None, reader), [])]
        _refuse_twice(names, path)
        for words in reader:
            if not words:
                continue
            if len(words) != len(names):
                raise InvalidInput(
                    f"{len(words)} values for {len(names)} columns",
                    where=f"{path}, line {reader.line_num}",
                    remedy="give one value for each column of the first line",
                )
            yield reader.line_num, dict(zip(names, map(str.strip, words), strict=True))
    except csv.Error as error:
        raise InvalidInput(
            str(error), where=str(path), remedy="give comma-separated values"
        ) from error


def _refuse_twice(names: Sequence[str], path: Path) -> None:
    used = {name for each in _COLUMNS.values() for name in each} & set(names)
    twice = next((name for name in sorted(used) if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(
            f"two columns are named {twice}",
            where=f"{path}, line 1",
            remedy="leave one of them out",
        )


def _places(text: str, path: Path, line: int) -> Iterator[range]:
    """Yield the numbers in ``0-3 7``."""
    for part in text.split():
        first, _, last = part.partition("-")
        if not _RESOURCES.fullmatch(part) or int(last or first) < int(first):
            raise _damaged(part, path, line)
        yield range(int(first), int(last or first) + 1)


def _swf_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    for line, text in enumerate(io.StringIO(_text(path)), 1):
        words = text.split()
        if not words or words[0].startswith(";"):
            continue
        if len(words) != _FIELDS:
            raise InvalidInput(
                f"{len(words)} fields, a job has {_FIELDS}",
                where=f"{path}, line {line}",
                remedy="give the log first, in SWF; then the result, in SWF or as CSV with a header",
            )
        yield line, words


def _whole(word: str, path: Path, line: int) -> int:
    if not _NUMBER.fullmatch(word) or "." in word:
        raise _damaged(word, path, line)
    return int(word)


def _positive(number: int | None) -> int | None:
    """Return None for what a file gives as unknown: less than 1."""
    return number if number is not None and number > 0 else None


def _time(path: Path, line: int, ticks: Ticks, *words: str) -> int:
    """Return the sum of `words` in ticks, rounded to the nearest one."""
    total = ticks.sum_of(*words)
    if total is None or abs(total) > TIME_S_MAX * ticks.per_second:
        raise _damaged(words[-1], path, line)
    return total


def _damaged(word: str, path: Path, line: int) -> InvalidInput:
    return InvalidInput(
        f"{word[:40]!r} is not a valid number here",
        where=f"{path}, line {line}",
        remedy="correct the line or leave it out",
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as stream:
            content = stream.read(TEXT_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidInput(
            reason, where=str(path), remedy="give a file that can be read"
        ) from error
    if len(content) > TEXT_BYTES_MAX:
        raise InvalidInput(
            f"unpacks to more than {TEXT_BYTES_MAX} bytes",
            where=str(path),
            remedy="give a part of it",
        )
    if b"\0" in content:
        raise InvalidInput("is not text", where=str(path), remedy="give a schedule as SWF or CSV")
    return content.decode("utf-8-sig", "replace")
