"""Messages between a program that changes its size and its control: JSON, a line each. Pure.

| sender | line | meaning |
| --- | --- | --- |
| program | ``{"sizes": [1, 2, 4]}`` | sizes that it can run on now; sent first, and at each new stage |
| program | ``{"want": 4}`` | it asks for that many ranks |
| control | ``{"change": 3, "to": 2, "cores": [0, 1]}`` | run on 2 ranks, on these cores (left out: any) |
| program | ``{"taking": 3}`` | it is about to begin change 3, and asks for permission |
| control | ``{"go": 3}`` | it may; from now on the change cannot be withdrawn |
| control | ``{"withdrawn": 3}`` | it may not: the change was withdrawn |
| program | ``{"changed": 3, "ranks": 2, "took_s": 0.01, "moving_s": 0.0}`` | done; moving is part of it |
| program | ``"left": [4711]`` in it | the processes that were given up, or are just ending |
| control | ``{"denied": 4, "why": "..."}`` | it does not get the ranks that it wants |
| program | ``{"refused": 3, "why": "..."}`` | not done, and the size has not changed |

Numbers of changes rise. Each line may be repeated, and gets the same answer again. Change 0 is not a demand
of the control: a stage began that cannot run on the size of the previous one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kalends.core.limits import CONTROL_LINE_BYTES_MAX, CORES_MAX, RANKS_MAX

WHY_CHARACTERS_MAX = 400
"""Characters of a reason: a sentence or two."""

CHANGE_MAX = 2**53
LEFT_MAX = 256
"""The most processes listed as given up; if there are more, the list is incomplete."""


class SizeDemand(NamedTuple):
    """A demand of the control: change number `number`, to `to` ranks, on `cores` (none: on any)."""

    number: int
    to: int
    cores: tuple[int, ...] = ()


class SizeDenial(NamedTuple):
    """A denial of the `ranks` ranks that the program wants."""

    ranks: int
    why: str

    def __str__(self) -> str:
        return f"{self.ranks} ranks are denied: {self.why}"


class SizePermission(NamedTuple):
    """The answer whether the program may begin with change `number`."""

    number: int
    granted: bool


@dataclass(frozen=True)
class SizeReply:
    """The result of a demand: the size is `ranks` now, or has not changed, for the reason `why`.

    `left` are the process ids of ranks that have ended, or are just ending.
    """

    number: int
    ranks: int
    took_s: float = 0.0
    moving_s: float = 0.0
    why: str = ""
    left: tuple[int, ...] = ()


def denial_in(line: bytes) -> SizeDenial | None:
    """Return the denial in a line; None for any other line."""
    try:
        said = json.loads(line)
        ranks, why = said["denied"], said["why"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not _whole(ranks, 1, RANKS_MAX) or not isinstance(why, str):
        return None
    return SizeDenial(ranks, why[:WHY_CHARACTERS_MAX])


def permission_in(line: bytes) -> SizePermission | None:
    """Return the permission, or its refusal, in a line; None for any other line."""
    try:
        said = json.loads(line)
        granted = "go" in said
        number = said["go" if granted else "withdrawn"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return SizePermission(number, granted) if _whole(number, 1, CHANGE_MAX) else None


def demand_in(line: bytes) -> SizeDemand | None:
    """Return the demand in a line; None for any other line."""
    try:
        said = json.loads(line)
        number, to, cores = said["change"], said["to"], said.get("cores") or []
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    well_formed = (
        _whole(number, 1, CHANGE_MAX)
        and _whole(to, 1, RANKS_MAX)
        and isinstance(cores, list)
        and len(cores) <= CORES_MAX
        and all(_whole(core, 0, 2**20) for core in cores)
    )
    return SizeDemand(number, to, tuple(cores)) if well_formed else None


def sizes_line(sizes: Sequence[int]) -> bytes:
    return _line({"sizes": list(sizes)})


def want_line(ranks: int) -> bytes:
    return _line({"want": ranks})


def taking_line(number: int) -> bytes:
    return _line({"taking": number})


def reply_line(reply: SizeReply) -> bytes:
    if reply.why:
        return _line({"refused": reply.number, "why": reply.why[:WHY_CHARACTERS_MAX]})
    costs = {"took_s": round(reply.took_s, 6), "moving_s": round(reply.moving_s, 6)}
    left = {"left": list(reply.left[:LEFT_MAX])} if reply.left else {}
    return _line({"changed": reply.number, "ranks": reply.ranks, **costs, **left})


class LineBuffer:
    """A splitter of received pieces into lines; a line longer than allowed is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._too_long = False

    def take(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and self._too_long:
            del lines[0]
            self._too_long = False
        if len(self._rest) > CONTROL_LINE_BYTES_MAX:
            self._rest, self._too_long = b"", True
        return [line for line in lines if len(line) <= CONTROL_LINE_BYTES_MAX]


def _whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said).encode() + b"\n"
