"""Counts of lines by what happened to them, with the first of them."""

from __future__ import annotations

from typing import Final

import msgspec

NAMED_MAX: Final = 5
"""Maximum number of lines that are named; others are only counted."""


class LineTally(msgspec.Struct):
    """A count, and the first lines counted: their numbers, and a text about each."""

    count: int = 0
    lines: list[int] = msgspec.field(default_factory=list)
    said: list[str] = msgspec.field(default_factory=list)

    def add(self, line: int, said: str) -> None:
        self.count += 1
        if len(self.lines) < NAMED_MAX:
            self.lines.append(line)
            self.said.append(said)
