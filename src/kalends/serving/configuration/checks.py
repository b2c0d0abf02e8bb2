"""Checks that several sections need; each raises `InvalidInput` with the path of the fault."""

from __future__ import annotations

import zoneinfo

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.near_names import near


def check_zone(zone: str, where: str) -> None:
    known = zoneinfo.available_timezones()
    if zone not in known:
        raise InvalidInput(
            f"{zone!r} is not a time zone",
            where=where,
            remedy=near(zone, known) or "use an IANA name, such as Europe/Berlin",
        )


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
