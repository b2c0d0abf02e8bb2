"""Checks that several sections need; each raises `InvalidInput` with the path of the fault."""

from __future__ import annotations

import zoneinfo

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.zone_names import near_zones


def check_zone(zone: str, where: str) -> None:
    if zone not in zoneinfo.available_timezones():
        raise InvalidInput(
            f"unknown time zone {zone[:64]!r}", where=where, remedy=near_zones(zone[:64])
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
