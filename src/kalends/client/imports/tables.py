"""Tables as CSV (RFC 4180), as other systems and spreadsheets export them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kalends.core.errors import InvalidInput, TooLarge

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
ROWS_MAX: Final = 20_000

SEPARATORS: Final = ",;\t"


class Row(NamedTuple):
    """One row: the number of its first line in the file, and its cells by their columns."""

    line: int
    cells: Mapping[str, str]


class ReadTable(NamedTuple):
    """Rows of a file, without empty ones; `ignored` are the columns that were not asked for."""

    rows: tuple[Row, ...]
    ignored: tuple[str, ...]


def read_table(
    path: Path, needed: Sequence[str], perhaps: Sequence[str] = (), *, others: bool = False
) -> ReadTable:
    """Return the table in `path`, whose first line names the columns, in any order and case.

    Commas, semicolons or tabs separate the cells: what the first line has most of. A cell that is missing is
    empty. With `others` all columns are read. Raises `InvalidInput` if the file cannot be read or lacks a
    column of `needed`, and `TooLarge`.
    """
    lines = _numbered(_text(path), str(path))
    _, header = next(lines, (0, []))
    names = [each.strip().lower() for each in header]
    if missing := [each for each in needed if each not in names]:
        raise InvalidInput(
            f"the first line has no column {', '.join(missing)}",
            where=str(path),
            remedy=f"name the columns in the first line: {','.join((*needed, *perhaps))}",
        )
    if twice := sorted({each for each in names if each and names.count(each) > 1}):
        raise InvalidInput(f"the first line has two columns {twice[0]}", where=str(path))
    wanted = dict.fromkeys((*needed, *perhaps, *(filter(None, names) if others else ())))
    rows = []
    for number, cells in lines:
        found = dict(zip(names, map(str.strip, cells), strict=False))
        if any(found.values()):
            rows.append(Row(number, {name: found.get(name, "") for name in wanted}))
        if len(rows) > ROWS_MAX:
            raise TooLarge(
                f"the table has more than {ROWS_MAX:,} rows", where=str(path), remedy="split it"
            )
    return ReadTable(tuple(rows), tuple(each for each in names if each and each not in wanted))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InvalidInput(
            f"cannot read the table: {reason}", where=str(path), remedy="export it as CSV in UTF-8"
        ) from error
    if len(content) > FILE_BYTES_MAX:
        raise TooLarge(f"the table has more than {FILE_BYTES_MAX >> 20} MiB", where=str(path))
    return text


def _numbered(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of its first line: a quoted cell may have several."""
    # Only line ends end a line: a note may have other signs that Python takes for one, as U+2028.
    lines = io.StringIO(text, newline="")
    first = lines.readline()
    lines.seek(0)
    # Strict, because a quote without its end would swallow the rows behind it.
    reader = csv.reader(lines, delimiter=max(SEPARATORS, key=first.count), strict=True)
    begins = 1
    try:
        for cells in reader:
            yield begins, cells
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(
            f"the row at line {begins} cannot be read: {error}",
            where=where,
            remedy="end each quote that begins a cell, and write a quote inside a cell twice",
        ) from error
