"""Workload logs in the Standard Workload Format 2.2: text lines in, jobs out.

A log is header lines that start with ``;``, then one job a line: 18 numbers, where -1 stands for
"not known". Times are seconds from the log's first moment, which its header gives in Unix time
as ``UnixStartTime``. They may have decimals; jobs here have whole seconds (`whole_seconds`). The format is
that of Feitelson's Parallel Workloads Archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt

FIELDS: Final = 18

PARTS: Final = frozenset({"2", "3", "4"})
"""States of lines about parts of a job that was swapped out: continued; the last one completed, or failed."""

_MOMENTS: Final = frozenset({"submit_s", "wait_s"})
_LENGTHS: Final = frozenset({"run_s", "time_requested_s", "think_s"})
TIMES: Final = _MOMENTS | _LENGTHS
"""Fields that may have decimals."""
_WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")
_DECIMAL_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_NOT_KNOWN: Final = frozenset({"", "-1", "unknown"})
_HEADER_NUMBER = re.compile(r"[0-9][0-9.,'_]*(?: [0-9]{3}\b)?")
_GROUPS_OF_THREE = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_HEADER_FIELD = re.compile(r"([A-Z][A-Za-z0-9]*):(?:\s+(.*))?")


class SwfJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a log; fields in the order of the line, None where the log has -1.

    `cpu_s` and `memory_kb` are averages over the processors, and `memory_requested_kb` is for one
    processor. `status` is 0 failed, 1 completed, 5 cancelled (2 to 4 are parts of a job).
    `preceding_job` had to end `think_s` seconds before this one was submitted.
    """

    job: int
    submit_s: int
    wait_s: int | None
    run_s: int | None
    processors_allocated: int | None
    cpu_s: float | None
    memory_kb: int | None
    processors_requested: int | None
    time_requested_s: int | None
    memory_requested_kb: int | None
    status: int | None
    user: int | None
    group: int | None
    executable: int | None
    queue: int | None
    partition: int | None
    preceding_job: int | None
    think_s: int | None

    @property
    def stretch(self) -> tuple[int, int, int] | None:
        """``(start_s, end_s, processors)`` of a job that ran; None for others.

        Where a log has no count of allocated processors, the requested ones are taken.
        """
        processors = self.processors_allocated or self.processors_requested
        if self.wait_s is None or not self.run_s or not processors:
            return None
        start_s = self.submit_s + self.wait_s
        return start_s, start_s + self.run_s, processors


def read_jobs(lines: Iterable[str]) -> Iterator[SwfJob]:
    """Yield the jobs of `lines`, one at a time, in the order of the log.

    Comments and empty lines are passed over.

    Raises `InvalidInput` with the line's number at the first line that is no job. Jobs before it
    have been handed out by then: collect them first where it must be all or nothing.
    """
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not text.startswith(";"):
            yield _job(text, number)


def read_header(lines: Iterable[str]) -> dict[str, str]:
    """Return the header's fields by name, as ``{"MaxProcs": "128", ...}``; reads up to the first job.

    A field given more than once (``Queue``, ``Note``), or over several lines, has its lines joined
    by newlines. Never raises: what has no field name is a comment.
    """
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        text = line.strip()
        if text and not text.startswith(";"):
            break
        text = text.removeprefix(";").strip()
        field = _HEADER_FIELD.fullmatch(text)
        if field:
            current = found.setdefault(field[1], [])
            current.append((field[2] or "").strip())
        elif not text:
            current = None
        elif current is not None:
            current.append(text)
    return {name: "\n".join(parts).strip() for name, parts in found.items()}


def header_number(header: Mapping[str, str], name: str) -> int | None:
    """Return the number at the start of a header field; None if it is missing, empty, -1 or ``unknown``.

    Commas may separate groups of three digits. Raises `InvalidInput` for any other separator, because
    ``1.024`` and ``1 024`` are different numbers to different readers, and for any other text.
    """
    text = header.get(name, "")
    if text.lower() in _NOT_KNOWN:
        return None
    found = _HEADER_NUMBER.match(text)
    word = found[0].rstrip(".,'_") if found is not None else text
    if _GROUPS_OF_THREE.fullmatch(word):
        word = word.replace(",", "")
    if not word.isdecimal():
        negative = word.startswith("-") and word[1:].isdecimal()
        raise InvalidInput(
            f"{excerpt(word)!r} is {'below 0' if negative else 'not a whole number'}",
            where=name,
            remedy="write the digits alone, without separators",
        )
    return int(word)


def whole_seconds(word: str, name: str) -> int | None:
    """Return the field `name`, a time with decimals, in whole seconds; None for any other text or field.

    Submit and wait times are rounded down, so that the order of submission stays. Run and requested times
    are rounded up, so that no job loses its run time, nor exceeds the time that it requested.
    """
    if name not in TIMES or not _DECIMAL_NUMBER.fullmatch(word):
        return None
    whole, _, decimals = word.partition(".")
    return int(whole) + (name in _LENGTHS and bool(decimals.strip("0")))


def fields_of(text: str, line: int) -> list[str]:
    """Return the words of a job's line, one a field.

    Raises `InvalidInput` with the line's number if not 18.
    """
    words = text.split()
    if len(words) != FIELDS:
        raise InvalidInput(
            f"{len(words)} fields, a job has {FIELDS}",
            where=f"line {line}",
            remedy="write -1 for an unknown value, and ; before a comment",
        )
    return words


def _job(text: str, line: int) -> SwfJob:
    words = fields_of(text, line)
    values = {
        name: _number(word, name, line)
        for name, word in zip(SwfJob.__struct_fields__, words, strict=True)
    }
    for name in ("job", "submit_s"):
        if values[name] is None:
            raise InvalidInput(
                "-1, but every job has one",
                where=f"line {line}, {name}",
                remedy="correct the line or leave it out",
            )
    return msgspec.convert(values, SwfJob)


def _number(word: str, name: str, line: int) -> int | float | None:
    if word == "-1":
        return None
    if name == "cpu_s" and _DECIMAL_NUMBER.fullmatch(word):
        return float(word)
    if _WHOLE_NUMBER.fullmatch(word):
        return int(word)
    if (seconds := whole_seconds(word, name)) is not None:
        return seconds
    wanted = "a number" if name == "cpu_s" else "a whole number"
    raise InvalidInput(
        f"{excerpt(word)!r} is not {wanted} of 0 or more, nor -1 for not known",
        where=f"line {line}, {name}",
        remedy="correct the line or leave it out",
    )
