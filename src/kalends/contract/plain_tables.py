"""Tables as plain text: columns are aligned, two blanks apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class TableLayout(Protocol):
    """Makes lines of a table, with a `header`; columns in `right` hold numbers."""

    def __call__(
        self, header: Sequence[str], body: Iterable[Sequence[object]], *, right: Iterable[str] = ()
    ) -> list[str]: ...


def padded(
    header: Sequence[str], body: Iterable[Sequence[object]], right: Iterable[str]
) -> list[list[str]]:
    """Return the cells of all lines, the header first, each as wide as its column."""
    table = [tuple(header), *(tuple(str(cell) for cell in line) for line in body)]
    widths = [max(len(line[column]) for line in table) for column in range(len(header))]
    to_right = {column for column, name in enumerate(header) if name in set(right)}
    return [
        [
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        for cells in table
    ]


def aligned(
    header: Sequence[str], body: Iterable[Sequence[object]], *, right: Iterable[str] = ()
) -> list[str]:
    """Return the lines of a table that is as wide as its cells need."""
    return ["  ".join(cells).rstrip() for cells in padded(header, body, right)]
