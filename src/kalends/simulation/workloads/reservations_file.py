"""Advance reservations from a small text file: comma-separated values, one reservation a line."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.core.limits import TIME_S_MAX, UNITS_MAX
from kalends.scheduling.reservations import Reservation

RESERVATIONS_MAX: Final = 100_000
BYTES_MAX: Final = 16 * 1024 * 1024

_COLUMNS: Final = ("start", "end", "nodes", "name", "part")
_NEEDED: Final = _COLUMNS[:3]
_WHOLE: Final = re.compile(r"[0-9]{1,12}")


def read_reservations(path: Path | str, *, unix_start_s: int | None = None) -> list[Reservation]:
    """Return the reservations of a file with the header ``start,end,nodes``, and ``name`` or ``part``.

    ``part`` is for a grid: which part the nodes are of, from 0 as its clusters name them.
    Times are seconds of the log, or dates such as ``1998-05-01T08:00``, in UTC where no offset is
    written; for dates, `unix_start_s` says when the log began (``UnixStartTime`` in its header). Empty
    lines and lines that begin with ``#`` are passed over.

    Raises `InvalidInput` with the line for anything that is no reservation; it is all or nothing.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(BYTES_MAX + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not text"
        raise InvalidInput(
            reason, where=str(file), remedy="give a file that can be read"
        ) from error
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if len(content) > BYTES_MAX or len(lines) > RESERVATIONS_MAX + 1:
        raise InvalidInput(
            "is too large", where=str(file), remedy=f"give at most {RESERVATIONS_MAX} reservations"
        )
    columns = [word.strip().lower() for word in lines[0][1].split(",")] if lines else []
    if len(set(columns)) < len(columns) or not set(_NEEDED) <= set(columns) <= set(_COLUMNS):
        raise InvalidInput(
            "the first line does not name the columns",
            where=str(file),
            remedy="begin it with start,end,nodes; name and part may follow",
        )
    return [
        _reservation(line, columns, f"{file}, line {number}", unix_start_s)
        for number, line in lines[1:]
    ]


def _reservation(
    line: str, columns: list[str], where: str, unix_start_s: int | None
) -> Reservation:
    try:
        [words] = csv.reader([line], strict=True)
    except csv.Error as error:
        raise InvalidInput(str(error), where=where, remedy="close the quotes") from error
    if len(words) != len(columns):
        raise InvalidInput(
            f"{len(words)} values for {len(columns)} columns",
            where=where,
            remedy="give one value for each column of the first line",
        )
    values = {column: word.strip() for column, word in zip(columns, words, strict=True)}
    start_s = _time_s(values["start"], f"{where}, start", unix_start_s)
    end_s = _time_s(values["end"], f"{where}, end", unix_start_s)
    nodes = values["nodes"]
    if not _WHOLE.fullmatch(nodes) or int(nodes) > UNITS_MAX:
        raise InvalidInput(
            f"{excerpt(nodes)!r} is not a number of nodes",
            where=f"{where}, nodes",
            remedy=f"write 1 to {UNITS_MAX}",
        )
    part = _part(values["part"], f"{where}, part") if "part" in values else -1
    try:
        return Reservation(start_s, end_s, int(nodes), values.get("name", ""), part)
    except InvalidInput as error:
        raise InvalidInput(error.detail, where=where, remedy=error.remedy) from None


def _part(word: str, where: str) -> int:
    if not _WHOLE.fullmatch(word):
        raise InvalidInput(
            f"{excerpt(word)!r} is not a part of a grid",
            where=where,
            remedy="write its number, from 0 as the clusters name them",
        )
    return int(word)


def _time_s(word: str, where: str, unix_start_s: int | None) -> int:
    if _WHOLE.fullmatch(word) and int(word) <= TIME_S_MAX:
        return int(word)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        moment = None
    if moment is None or word.isdecimal():
        raise InvalidInput(
            f"{excerpt(word)!r} is not a time",
            where=where,
            remedy="write seconds of the log, or a date such as 1998-05-01T08:00",
        )
    if unix_start_s is None:
        raise InvalidInput(
            "a date, but the log's begin is unknown",
            where=where,
            remedy="write seconds of the log, or use a log with UnixStartTime in its header",
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    time_s = int(moment.timestamp()) - unix_start_s
    if time_s < 0:
        raise InvalidInput(
            f"{excerpt(word)} is before the log began", where=where, remedy="write a later date"
        )
    return time_s
