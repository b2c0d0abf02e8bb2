"""Tables as CSV, in new files or on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a new file that appears when it is complete; ``-`` is standard output."""
    if path == Path("-"):
        yield sys.stdout
        return
    from kalends.cli.console.files import new_file

    with new_file(path) as stream:
        yield stream


def write_table(stream: TextIO, header: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Write a header and `rows` as they come; return their number.

    Users choose their names, those of their jobs, and notes. What a spreadsheet would run as a formula begins
    with an apostrophe, which makes it text there.
    """
    # Imported here because most sums are printed.
    import csv

    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    count = 0
    for row in rows:
        writer.writerow(map(_text, row))
        count += 1
    return count


def _text(cell: object) -> object:
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _is_number(cell):
        return f"'{cell}"
    return cell


def _is_number(cell: str) -> bool:
    return cell[1:].replace(".", "", 1).isdecimal() or cell == "-"
