"""Checks that several sections need; each raises `InvalidInput` with the path of the fault."""

from __future__ import annotations

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput


def check_at_most(length_s: int, length_s_max: int, where: str) -> None:
    if length_s > length_s_max:
        raise InvalidInput(
            f"{format_duration(length_s)} is too long",
            where=where,
            remedy=f"at most {format_duration(length_s_max)}",
        )


def check_unique(names: list[str], where: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidInput(
                f"{name!r} is listed twice", where=f"{where}[{index}].name", remedy="rename one"
            )
