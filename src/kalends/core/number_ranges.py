"""Sets of whole numbers as text, with ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kalends.core.errors import InvalidInput


def numbers_text(numbers: Iterable[int]) -> str:
    """Write ``0-3,7`` for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def numbers_in(text: str, *, where: str, what: str, example: str) -> Iterator[int]:
    """Yield the numbers of ``0-3,7``; raises `InvalidInput` for a text that is not a list of `what`."""
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdecimal() and len(end) < 10 for end in ends):
            raise InvalidInput(
                f"{text!r} is not a list of {what}", where=where, remedy=f"write {example}"
            )
        if int(ends[1]) < int(ends[0]):
            raise InvalidInput(
                f"{part.strip()!r} ends before it begins",
                where=where,
                remedy=f"write {last}-{first}",
            )
        yield from range(int(ends[0]), int(ends[1]) + 1)
