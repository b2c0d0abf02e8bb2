"""A place in a text, with errors that point at it: column, the line itself, and a caret below."""

from __future__ import annotations

import re
from typing import Final

from kalends.core.errors import InvalidInput

_SPACES = re.compile(r"[ \t\r\n]*")
_FOUND = re.compile(r"[A-Za-z0-9_./-]+|[^A-Za-z0-9_./\s-]{1,3}")

_EXCERPT_MAX: Final = 60
"""Characters of the line shown on each side of the caret."""


class Scanner:
    """Reads `text` from left to right; `position` is the first character not read yet."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def skip_spaces(self) -> int:
        """Skip spaces and line ends; return where the next token begins."""
        spaces = _SPACES.match(self.text, self.position)
        if spaces is not None:
            self.position = spaces.end()
        return self.position

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip spaces and read `pattern`; None if it does not come next: then only spaces are read."""
        match = pattern.match(self.text, self.skip_spaces())
        if match is not None:
            self.position = match.end()
        return match

    def take_sign(self, sign: str) -> bool:
        """Skip spaces and read fixed characters, see `take`."""
        found = self.text.startswith(sign, self.skip_spaces())
        self.position += len(sign) if found else 0
        return found

    @property
    def at_end(self) -> bool:
        return self.skip_spaces() == len(self.text)

    @property
    def found(self) -> str:
        """Return the next few characters, for an error; empty at the end."""
        match = _FOUND.match(self.text, self.skip_spaces())
        return match[0] if match else ""

    def expected(self, what: str, remedy: str = "") -> InvalidInput:
        """Return the error for a text in which `what` does not come next."""
        found = repr(self.found[:40]) if self.found else "the end"
        return self.error(f"expected {what}, found {found}", remedy=remedy)

    def error(self, detail: str, *, remedy: str = "", at: int | None = None) -> InvalidInput:
        """Return an error about the character `at` (default: the next one)."""
        place = self.skip_spaces() if at is None else at
        begin = self.text.rfind("\n", 0, place) + 1
        end = self.text.find("\n", place)
        line = self.text[begin : end if end >= 0 else len(self.text)]
        column = place - begin
        number = self.text.count("\n", 0, place) + 1
        where = f"column {column + 1}"
        if "\n" in self.text.strip():
            where = f"line {number}, {where}"
        return InvalidInput(f"{detail}\n{_excerpt(line, column)}", where=where, remedy=remedy)


def _excerpt(line: str, column: int) -> str:
    first = max(0, column - _EXCERPT_MAX)
    before = "..." if first else ""
    after = "..." if len(line) > column + _EXCERPT_MAX else ""
    shown = "".join(
        character if character.isprintable() else " "
        for character in line[first : column + _EXCERPT_MAX]
    )
    return f"  {before}{shown}{after}\n  {' ' * (len(before) + column - first)}^"
