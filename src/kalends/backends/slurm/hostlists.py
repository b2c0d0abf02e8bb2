"""Lists of nodes as Slurm writes them: ``n[01-03,07],rack[1-2]-m[1-4],gpu1``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

NODES_MAX: Final = 200_000

_WORD: Final = re.compile(r"(?:[^,\[\]]|\[[0-9,\-]+\])+")
_GROUP: Final = re.compile(r"\[([0-9,\-]+)\]")
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expanded(text: str) -> tuple[str, ...]:
    """Return the names in `text`, sorted; raises `ValueError` for any other text."""
    if text in ("", "(null)"):
        return ()
    names: set[str] = set()
    at = 0
    while at <= len(text):
        word = _WORD.match(text, at)
        if word is None:
            raise ValueError(f"{text[:200]!r} is no list of nodes")
        names.update(_names(word.group()))
        if len(names) > NODES_MAX:
            raise ValueError(f"more than {NODES_MAX} nodes")
        at = word.end() + 1
        if at <= len(text) and text[at - 1] != ",":
            raise ValueError(f"{text[:200]!r} is no list of nodes")
    return tuple(sorted(names))


def _names(word: str) -> Iterator[str]:
    group = _GROUP.search(word)
    if group is None:
        yield word
        return
    head, tails = word[: group.start()], list(_names(word[group.end() :])) or [""]
    for number in _numbers(group.group(1)):
        for tail in tails:
            yield f"{head}{number}{tail}"


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        span = _RANGE.fullmatch(part)
        if span is None:
            raise ValueError(f"[{text[:200]}] is not a range of numbers")
        first, last = span.group(1), span.group(2) or span.group(1)
        if int(last) - int(first) > NODES_MAX:
            raise ValueError(f"more than {NODES_MAX} nodes")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def written(nodes: Iterable[str]) -> str:
    """Return `nodes` as text for Slurm, without brackets, which would take its parser longer."""
    return ",".join(nodes)
