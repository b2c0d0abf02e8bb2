"""Names of time zones: the zone of a name, and the zones that may be meant by an abbreviation.

Almost every abbreviation stands for several zones: PST is shown in Los Angeles in winter and in Manila all
year, CST in Chicago, Shanghai and Havana. Even one of a single offset is ambiguous, because people write EST
in summer, too. So a text with an abbreviation is refused, unless the clocks of the user's zone show it then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from kalends.core.errors import InvalidInput

SHAPE: Final = re.compile(r"[A-Za-z]{2,5}")
"""The form of an abbreviation."""

SHOWN_MAX: Final = 4

_OFFSET: Final = re.compile(r"(?:UTC|GMT|Z)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)

_LEGACY: Final = {
    "CET": "Europe/Berlin", "MET": "Europe/Berlin", "EET": "Europe/Athens", "WET": "Europe/Lisbon",
    "EST": "America/New_York or America/Panama", "EST5EDT": "America/New_York",
    "MST": "America/Denver or America/Phoenix", "MST7MDT": "America/Denver",
    "CST6CDT": "America/Chicago", "PST8PDT": "America/Los_Angeles", "HST": "Pacific/Honolulu",
}  # fmt: skip
"""Abbreviations that are names in the zone database, and places that a writer may mean by them."""

_NOWHERE: Final = ("localtime", "posixrules", "Factory", "posix/", "right/")
"""Beginnings of other names that are no place's, on computers that have them."""

_WELL_KNOWN: Final = (
    "America/Los_Angeles", "America/Denver", "America/Chicago", "America/New_York", "America/Halifax",
    "America/Anchorage", "Pacific/Honolulu", "America/Phoenix", "America/Mexico_City", "America/Panama",
    "Europe/London", "Europe/Berlin",
    "Europe/Athens", "Europe/Dublin", "Europe/Lisbon", "Europe/Moscow", "Africa/Lagos", "Africa/Johannesburg",
    "Asia/Jerusalem", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Asia/Manila", "Australia/Sydney",
    "Australia/Adelaide", "Australia/Perth", "Pacific/Auckland",
)  # fmt: skip
"""Well-known places, named before others with the same clocks."""

_SEASONS: Final = (datetime(2026, 1, 15, tzinfo=UTC), datetime(2026, 7, 15, tzinfo=UTC))


def zone_named(name: str | ZoneInfo) -> ZoneInfo:
    """Return the IANA zone `name`; raises `InvalidInput` with similar names if there is none."""
    if isinstance(name, ZoneInfo):
        return name
    if not isinstance(name, str):
        raise InvalidInput(
            f"a {type(name).__name__} is not a time zone",
            where="zone",
            remedy="give a name, e.g. Europe/Berlin",
        )
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f"unknown time zone {name[:64]!r}", where="zone", remedy=near_zones(name[:64])
        ) from error


def given_zone(name: str, *, where: str = "zone") -> ZoneInfo:
    """Return the zone that a person or an owner names.

    Raises `InvalidInput` for an unknown zone, and for a name in the zone database that is no place's: there
    EST is a clock without summer time, and `localtime` depends on the computer.
    """
    try:
        zone = zone_named(name)
    except InvalidInput as error:
        error.where = where
        raise
    if _is_nowhere(name):
        raise InvalidInput(
            f"{name!r} is not the time zone of a place",
            where=where,
            remedy=f"write {_LEGACY.get(name, 'the name of a place: Europe/Zurich')}",
        )
    return zone


def _is_nowhere(name: str) -> bool:
    return name in _LEGACY or name.startswith(_NOWHERE)


def zones_showing(abbreviation: str) -> list[str]:
    """Return names of zones whose clocks show `abbreviation` in winter or summer, one for each kind of clock.

    Well known places come first. Empty for other words.
    """
    wanted = abbreviation.upper()
    if SHAPE.fullmatch(abbreviation) is None:
        return []
    regions = [name for name in available_timezones() if "/" in name and "Etc/" not in name]
    found: dict[Sequence[object], str] = {}
    for name in sorted(regions, key=_rank):
        shown = [season.astimezone(ZoneInfo(name)) for season in _SEASONS]
        if wanted in {each.tzname() for each in shown}:
            found.setdefault(tuple(each.utcoffset() for each in shown), name)
    return list(found.values())


def candidates_text(abbreviation: str) -> str:
    """Return the zones that `abbreviation` may mean, for a remedy: "" if it means none."""
    found = zones_showing(abbreviation)
    names = ", ".join(found[:SHOWN_MAX])
    return f"{names} or another" if len(found) > SHOWN_MAX else " or ".join(names.rsplit(", ", 1))


def _rank(name: str) -> tuple[int, str]:
    return (_WELL_KNOWN.index(name) if name in _WELL_KNOWN else len(_WELL_KNOWN), name)


def _at_offset(sign: str, hours: str, minutes: str) -> str:
    """Return what to write for a fixed offset: whole hours have a name, Etc/GMT-2 for two hours ahead."""
    signed = f"{'-' if sign == '+' else '+'}{int(hours)}"
    if int(hours) == int(minutes or 0) == 0:
        return "write UTC"
    if int(minutes or 0) == 0 and f"Etc/GMT{signed}" in available_timezones():
        return (
            f"write Etc/GMT{signed} for UTC{sign}{int(hours):02d}:00 (its sign is the opposite), or the"
            " name of a place: Europe/Zurich"
        )
    return "write the name of a place with that time: Europe/Zurich"


def near_zones(name: str) -> str:
    """Return which zones may be meant by `name`, which is none, for a remedy."""
    # Imported here because most zones are spelt right.
    import difflib

    places = (zone for zone in available_timezones() if not _is_nowhere(zone))
    by_lower = {zone.lower(): zone for zone in places}
    if offset := _OFFSET.fullmatch(name.strip()):
        return _at_offset(*offset.groups(default=""))
    if meant := candidates_text(name.strip()):
        return f"write the zone's name instead: {meant}"
    wanted = name.strip().lower().replace(" ", "_")
    cities = [zone for lower, zone in sorted(by_lower.items()) if lower.split("/")[-1] == wanted]
    near = difflib.get_close_matches(wanted, sorted(by_lower), n=3, cutoff=0.7)
    names = list(dict.fromkeys(cities + [by_lower[lower] for lower in near]))[:3]
    return (
        f"did you mean {' or '.join(names)}?" if names else "write an IANA name, e.g. Europe/Zurich"
    )
