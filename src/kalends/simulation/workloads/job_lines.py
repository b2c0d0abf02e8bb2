"""Job lines of a log as rows of numbers, a block of lines at once.

What a line is, `swf_fields` says. Only the fields that a simulation needs are looked at. The others may
hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from types import GenericAlias
from typing import Annotated, Any, Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.core.limits import TIME_S_MAX
from kalends.simulation.workloads.swf_fields import PARTS, TIMES, SwfJob, fields_of, whole_seconds

NUMBER_MAX: Final = TIME_S_MAX
"""The year 3000 in seconds, and more than any machine has of anything."""

_LEAST: Final = {
    "job": 0, "submit_s": 0, "run_s": -1, "processors_allocated": -1, "processors_requested": -1,
    "time_requested_s": -1, "user": -1,
}  # fmt: skip
"""The fields that are looked at, and the least that each may hold."""

_NAMES: Final = SwfJob.__struct_fields__
STATUS: Final = _NAMES.index("status")
PARTITION: Final = _NAMES.index("partition")
_PARTS: Final = frozenset(map(int, PARTS))
_CLEAN: Final = b"0123456789-. \t\r\n"
_COMMAS_FOR_SPACES: Final = bytes.maketrans(b" \t\r", b",,,")
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]+")

Row = tuple[Any, ...]
"""The 18 fields of a line, in its order; those that are looked at are whole numbers."""

_FIELD_TYPES: Final = tuple(
    Annotated[int, msgspec.Meta(ge=_LEAST[name], le=NUMBER_MAX)] if name in _LEAST else Any
    for name in _NAMES
)
_ROWS: Any = GenericAlias(list, (GenericAlias(tuple, _FIELD_TYPES),))
_rows_of: Final = msgspec.json.Decoder(_ROWS).decode


class LineBlock:
    """Some job lines: their `rows`, and for each its number in `lines` and its text in `texts`.

    `texts` is empty if not requested.
    """

    __slots__ = ("lines", "rows", "texts")

    def __init__(self, lines: Sequence[int], rows: list[Row], texts: list[str]) -> None:
        self.lines = lines
        self.rows = rows
        self.texts = texts

    def remove(self, at: int) -> None:
        """Take out one line."""
        self.lines = [*self.lines[:at], *self.lines[at + 1 :]]
        del self.rows[at], self.texts[at : at + 1]


def whole_block(first_line: int, text: bytes, *, keep_texts: bool) -> LineBlock | None:
    """Return a block in which every line is a whole job; None: it must be read line by line."""
    if text.translate(None, _CLEAN):
        return None
    try:
        # No reader of numbers at hand is as fast as that of JSON, so they are made a list of lists.
        rows = _rows_of(_as_json(text))
    except msgspec.MsgspecError:
        return None
    if not _PARTS.isdisjoint(row[STATUS] for row in rows):
        return None
    texts = text.decode("ascii").split("\n") if keep_texts else []
    return LineBlock(range(first_line, first_line + len(rows)), rows, texts)


def _as_json(text: bytes) -> bytes:
    listed = text.translate(_COMMAS_FOR_SPACES)
    while b",," in listed:
        listed = listed.replace(b",,", b",")
    listed = listed.replace(b",\n", b"\n").replace(b"\n,", b"\n").lstrip(b",").rstrip(b",\n")
    return b"[[%b]]" % listed.replace(b"\n", b"],[")


def job_lines(first_line: int, block: bytes) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of all lines that are neither empty nor comments."""
    for number, line in enumerate(block.decode("utf-8", "replace").split("\n"), first_line):
        text = line.strip()
        if text and not text.startswith(";"):
            yield number, text


def row_of(text: str, line: int) -> Row:
    """Return the fields of one line. Raises `InvalidInput` with line and field if it is damaged."""
    return tuple(
        _number(word, name, line) if name in _LEAST else word
        for name, word in zip(_NAMES, fields_of(text, line), strict=True)
    )


def block_of(lines: Iterable[tuple[int, str, Row]]) -> LineBlock:
    """Return a block of ``(line number, text, row)``, which were read line by line."""
    block = LineBlock([], [], [])
    numbers: list[int] = []
    for line, text, row in lines:
        numbers.append(line)
        block.texts.append(text)
        block.rows.append(row)
    block.lines = numbers
    return block


def _number(word: str, name: str, line: int) -> int:
    number = int(word) if _WHOLE_NUMBER.fullmatch(word) else whole_seconds(word, name)
    least = _LEAST[name]
    if number is not None and least <= number <= NUMBER_MAX:
        return number
    unknown = "" if least == 0 else ", nor -1 for not known"
    kind = "number" if name in TIMES else "whole number"
    raise InvalidInput(
        f"{excerpt(word)!r} is not a {kind} from 0 to {NUMBER_MAX}{unknown}",
        where=f"line {line}, {name}",
        remedy="correct the line or leave it out",
    )
