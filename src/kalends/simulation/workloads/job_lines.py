"""Job lines of a log as columns of numbers, a block of lines at once.

What a line is, `kalends.core.swf` says. Only the fields that a simulation needs are read. The others may
hold anything: there are logs with decimals in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.limits import TIME_S_MAX
from kalends.core.swf import FIELDS, SwfJob, fields_of

NAMES: Final = ("job", "submit_s", "run_s", "processors_allocated", "processors_requested",
                "time_requested_s", "user")  # fmt: skip
"""The fields that are read, in the order of the columns."""

NUMBER_MAX: Final = TIME_S_MAX
"""The year 3000 in seconds, and more than any machine has of anything."""

_AT: Final = tuple(SwfJob.__struct_fields__.index(name) for name in NAMES)
_LEAST: Final = (0, 0, *[-1] * 5)
_NEW_EACH_LINE: Final = 3
"""The first columns differ from line to line; the others repeat themselves."""

_CLEAN: Final = b"0123456789-. \t\r\n"
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]+")


class Columns:
    """Job lines by column.

    `numbers` are the fields of `NAMES`, `lines` the numbers of the lines, `texts` the lines themselves.
    """

    __slots__ = ("lines", "numbers", "texts")

    def __init__(self, lines: list[int], numbers: list[list[int]], texts: list[str]) -> None:
        self.lines = lines
        self.numbers = numbers
        self.texts = texts

    def remove(self, at: int) -> None:
        """Take out one line."""
        del self.lines[at], self.texts[at]
        for column in self.numbers:
            del column[at]


class Repeated(dict[str, int]):
    """Numbers that come again and again: making one is slower than looking it up."""

    def __missing__(self, word: str) -> int:
        number = int(word)
        if not -1 <= number <= NUMBER_MAX:
            raise ValueError(word)
        if len(self) == 1 << 14:
            self.clear()
        self[word] = number
        return number


def whole_block(first_line: int, block: bytes, repeated: Repeated) -> Columns | None:
    """The columns of a block in which every line is a job; None: it must be read line by line."""
    if block.translate(None, _CLEAN):
        return None
    text = block.decode("ascii").removesuffix("\n")
    texts = text.split("\n")
    # A mark at the end of each line stands in place 19, 38, ... if every line has 18 fields.
    words = text.replace("\n", " ; ").split()
    words.append(";")
    step = FIELDS + 1
    if len(words) != step * len(texts) or words[FIELDS::step].count(";") != len(texts):
        return None
    try:
        numbers = [list(map(int, words[at::step])) for at in _AT[:_NEW_EACH_LINE]]
        for column, least in zip(numbers, _LEAST, strict=False):
            if min(column) < least or max(column) > NUMBER_MAX:
                return None
        lookup = repeated.__getitem__
        numbers += [list(map(lookup, words[at::step])) for at in _AT[_NEW_EACH_LINE:]]
    except ValueError:
        return None
    return Columns(list(range(first_line, first_line + len(texts))), numbers, texts)


def job_lines(first_line: int, block: bytes) -> Iterator[tuple[int, str]]:
    """The numbers and texts of all lines that are neither empty nor comments."""
    for number, line in enumerate(block.decode("utf-8", "replace").split("\n"), first_line):
        text = line.strip()
        if text and not text.startswith(";"):
            yield number, text


def numbers_of(text: str, line: int) -> list[int]:
    """The fields of `NAMES` of one line. Raises `InvalidInput` with line and field if it is damaged."""
    words = fields_of(text, line)
    return [
        _number(words[at], name, least, line)
        for at, name, least in zip(_AT, NAMES, _LEAST, strict=True)
    ]


def columns_of(rows: Iterable[tuple[int, str, list[int]]]) -> Columns:
    """Columns of ``(line number, text, numbers)``, which were read line by line."""
    columns = Columns([], [[] for _ in NAMES], [])
    for line, text, numbers in rows:
        columns.lines.append(line)
        columns.texts.append(text)
        for column, number in zip(columns.numbers, numbers, strict=True):
            column.append(number)
    return columns


def _number(word: str, name: str, least: int, line: int) -> int:
    number = int(word) if _WHOLE_NUMBER.fullmatch(word) else None
    if number is not None and least <= number <= NUMBER_MAX:
        return number
    unknown = "" if least == 0 else ", nor -1 for not known"
    raise InvalidInput(
        f"{word[:40]!r} is not a whole number from 0 to {NUMBER_MAX}{unknown}",
        where=f"line {line}, {name}",
        remedy="correct the line or leave it out",
    )
