"""Conversion of user input to requests: times, durations and terms from text or Python values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict
from zoneinfo import ZoneInfo

import msgspec

from kalends.client.inputs.given_values import by_name, every, is_number
from kalends.client.inputs.scripts import Agent, named_script
from kalends.client.inputs.zones import error_in_zone
from kalends.core import limits
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import PROJECT_PATTERN
from kalends.core.intervals import align_up
from kalends.core.money import parse_budget, parse_rates
from kalends.core.requests import DAY_S, Request, TimePreference
from kalends.core.scripts import ArgumentValue
from kalends.core.times import check_time, format_time, parse_end, parse_time, parse_window
from kalends.core.transport import traffic_in

if TYPE_CHECKING:
    from kalends.core.language.preferences import Preference

Time = int | str | datetime
"""Seconds UTC, text such as ``tomorrow 08:00`` (see `kalends.core.times`), or an aware datetime."""

Duration = int | str | timedelta
"""Seconds, text with a unit such as ``1h30m``, or a timedelta."""

Window = str | tuple[Time | None, Time | None]
"""Earliest start and latest end, None leaves that end open; or a text such as ``tomorrow``, ``next week`` or
``mon 08:00 .. fri 18:00`` (see `kalends.core.times.parse_window`)."""

PRICE: Final = "price"
"""The word for what is cheap, among the preferred times."""

_FROM_NOW: Final = re.compile(r"\s*(now\b|in |\+)", re.IGNORECASE)

ArgumentValues = Mapping[str, ArgumentValue]
"""Arguments of an agent: plain values by name."""

Preferred: TypeAlias = "str | Sequence[str | Preference | TimePreference]"
"""Phrases such as ``mornings`` and ``fri -2``, parsed ones, or windows; and ``price`` for what is cheap."""

BySite = str | int | float | Mapping[str, str | int | float]
"""Credits by site: ``sdsc=40,caltech=10``, a mapping, or one amount for the only site."""


class RequestOptions(TypedDict, total=False):
    """The options of `request_from`, for the calls that pass them on."""

    duration: Duration | None
    at: Time | None
    window: Window
    note: str
    priority: int
    prefer: Preferred
    at_most: BySite
    rates: BySite
    project: str | Mapping[str, str]
    traffic: str
    agent: Agent
    arguments: ArgumentValues | None
    agent_must_run: bool


def time_s(
    when: Time, *, now_s: int, zone: ZoneInfo, where: str = "time", exact: bool = False
) -> int:
    """Return `when` in seconds UTC; raises `InvalidInput` for other values and naive datetimes.

    With `exact` it also raises for a text that names a day without a time of day.
    """
    if isinstance(when, str):
        return parse_time(when, now_s, zone, where=where, exact=exact)
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InvalidInput(
                f"{when.isoformat()} has no time zone",
                where=where,
                remedy="give an aware datetime, e.g. datetime(..., tzinfo=ZoneInfo('Europe/Berlin'))",
            )
        return check_time(when.timestamp(), where=where)
    if not is_number(when):
        raise InvalidInput(
            f"a {type(when).__name__} is not a time",
            where=where,
            remedy="give a text such as 'tomorrow 08:00', an aware datetime, or seconds since 1970",
        )
    return check_time(when, where=where)


def period_s(start: Time, end: Time, *, now_s: int, zone: ZoneInfo) -> tuple[int, int]:
    """Return both ends of a period in seconds UTC: an end without a day is the first one from the start on.

    Raises `InvalidInput` like `time_s`, and if the end, as understood, is not after the start.
    """
    start_s = time_s(start, now_s=now_s, zone=zone, where="period[0]")
    if isinstance(end, str):
        end_s = parse_end(end, start_s, now_s, zone, where="period[1]")
    else:
        end_s = time_s(end, now_s=now_s, zone=zone, where="period[1]")
    if end_s <= start_s:
        raise InvalidInput(
            f"the end, {format_time(end_s, zone)}, is not after the start, {format_time(start_s, zone)}",
            where="period[1]",
            remedy="give a later end, with its date if need be",
        )
    return start_s, end_s


def length_s(
    length: Duration, *, where: str = "duration", longest_s: int = limits.DURATION_S_MAX
) -> int:
    """Return `length` in seconds; raises `InvalidInput` unless it is a positive whole number of them."""
    if isinstance(length, str):
        return parse_duration(length, where=where, longest_s=longest_s)
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if not is_number(seconds):
        raise InvalidInput(
            f"a {type(seconds).__name__} is not a duration",
            where=where,
            remedy="give a text such as '1h30m', a timedelta, or seconds",
        )
    if not 1 <= seconds <= longest_s or seconds != int(seconds):
        raise InvalidInput(
            f"{seconds} s is not a duration",
            where=where,
            remedy=f"give 1 to {longest_s} seconds, in whole seconds",
        )
    return int(seconds)


def request_from(
    request: Request | str,
    *,
    duration: Duration | None = None,
    at: Time | None = None,
    window: Window = (None, None),
    note: str = "",
    priority: int = 0,
    prefer: Preferred = (),
    at_most: BySite = "",
    rates: BySite = "",
    project: str | Mapping[str, str] = "",
    traffic: str = "",
    agent: Agent = "",
    arguments: ArgumentValues | None = None,
    agent_must_run: bool = False,
    now_s: int,
    zone: ZoneInfo,
) -> Request:
    """Return the request to send; a `request` in Python form already has its time, and is used as it is.

    Raises `InvalidInput` for values that cannot be understood or can never be right.
    """
    _check_note(note)
    window = _both_ends(window, now_s, zone)
    if isinstance(request, str):
        made = _from_text(request, duration, at, window, now_s, zone)
    elif not isinstance(request, Request):
        raise InvalidInput(
            f"a {type(request).__name__} is not a request",
            where="request",
            remedy="give a text such as 'sdsc/sp2:64 + caltech/onyx', or a kalends.Request",
        )
    elif duration is not None or at is not None or window != (None, None):
        raise InvalidInput(
            "the request has its own time and length",
            where="request",
            remedy="leave out duration, at and window, or give the terms as text",
        )
    else:
        made = request
    said = [prefer] * bool(prefer) if isinstance(prefer, str) else every(prefer, where="prefer")
    changes = {
        name: value
        for name, value in (
            ("note", note),
            ("priority", priority),
            ("preferences", _windows([each for each in said if each != PRICE], made, now_s, zone)),
            ("traffic_mb_per_s", traffic_in(traffic) if traffic else 0.0),
            *_about_prices(said, at_most, rates, project),
            ("agent", named_script(agent).name),
            ("arguments", by_name(arguments, where="arguments")),
            ("agent_must_run", agent_must_run),
        )
        if value
    }
    if changes:
        made = msgspec.structs.replace(made, **changes)
        made.check()
    return made


def _check_note(note: object) -> None:
    if not isinstance(note, str):
        what = f"a {type(note).__name__} is not a note"
        raise InvalidInput(what, where="note", remedy="give a text")


def _projects(project: str | Mapping[str, str]) -> dict[str, str]:
    """Return the projects that pay, by site; ``dna`` is for every site. Raises `InvalidInput`."""
    if isinstance(project, Mapping):
        found = {str(site): str(name) for site, name in project.items()}
    elif isinstance(project, str):
        parts = [each.strip().rpartition("=") for each in project.split(",") if each.strip()]
        found = {site.strip(): name.strip() for site, _, name in parts}
        if len(found) < len(parts):
            raise InvalidInput(
                "a site has two projects", where="project", remedy="name one for each site"
            )
    else:
        raise InvalidInput(
            f"a {type(project).__name__} is not a project",
            where="project",
            remedy="give a text such as dna or sdsc=dna,caltech=optics",
        )
    wrong = next((each for each in found.values() if not re.fullmatch(PROJECT_PATTERN, each)), None)
    if wrong is not None:
        raise InvalidInput(
            f"{wrong!r} is not the name of a project",
            where="project",
            remedy="write letters, digits, '.', '_' and '-', at most 64",
        )
    return found


def _about_prices(
    said: Sequence[object], at_most: BySite, rates: BySite, project: str | Mapping[str, str]
) -> Iterator[tuple[str, object]]:
    yield "prefer_price", PRICE in said
    yield "projects", _projects(project)
    if text := _text_of(at_most, "at_most"):
        yield "at_most", parse_budget(text)
    if text := _text_of(rates, "rates"):
        yield "rates", parse_rates(text)


def _text_of(amounts: BySite, where: str) -> str:
    if isinstance(amounts, str) or is_number(amounts):
        return str(amounts)
    if not isinstance(amounts, Mapping):
        raise InvalidInput(
            f"a {type(amounts).__name__} is not an amount by site",
            where=where,
            remedy="give a text such as 'sdsc=40,caltech=10', or a mapping",
        )
    return ",".join(f"{site}={amount}" for site, amount in amounts.items())


def _windows(
    prefer: Preferred, request: Request, now_s: int, zone: ZoneInfo
) -> tuple[TimePreference, ...]:
    """Return the windows that `request` and `prefer` prefer; empty if `prefer` adds nothing."""
    if not prefer:
        return ()
    # Imported here, like the language below, because calls about jobs and reservations do not need it.
    from kalends.core.language.preferences import Preference, expand, parse_preference

    each = [prefer] if isinstance(prefer, str) else every(prefer, where="prefer")
    phrases = [
        parse_preference(said, now_s=now_s, zone=zone) if isinstance(said, str) else said
        for said in each
        if not isinstance(said, TimePreference)
    ]
    for phrase in phrases:
        if not isinstance(phrase, Preference):
            raise InvalidInput(
                f"a {type(phrase).__name__} is not a preference",
                where="prefer",
                remedy="give phrases such as 'mornings' or 'fri -2', or TimePreferences",
            )
    windows = tuple(window for window in each if isinstance(window, TimePreference))
    added = windows + expand(phrases, request)
    return request.preferences + added if added else ()


def _from_text(
    text: str,
    duration: Duration | None,
    at: Time | None,
    window: tuple[Time | None, Time | None],
    now_s: int,
    zone: ZoneInfo,
) -> Request:
    if duration is None:
        raise InvalidInput(
            "the duration is missing", where="duration", remedy="give a duration, e.g. 2h or 45m"
        )
    from kalends.core.language import parse_request

    length = length_s(duration)
    after, before = window
    after_s = None if after is None else _seconds(after, "window[0]", now_s, zone)
    if isinstance(before, str):
        # A start in the past means from now on.
        before = parse_end(before, max(after_s or 0, now_s), now_s, zone, where="window[1]")
    try:
        return parse_request(
            text,
            duration=f"{length}s",
            at=None
            if at is None
            else start_s(at, now_s=now_s, zone=zone, exact=length % DAY_S != 0),
            not_before=after_s,
            not_after=None if before is None else _seconds(before, "window[1]", now_s, zone),
            now_s=now_s,
            zone=zone,
        )
    except InvalidInput as error:
        raise error_in_zone(error, zone) from error


def _both_ends(window: Window, now_s: int, zone: ZoneInfo) -> tuple[Time | None, Time | None]:
    if isinstance(window, str):
        whole = parse_window(window, now_s, zone)
        # A window that has begun begins now.
        return max(whole.start, min(now_s, whole.end)), whole.end
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise InvalidInput(
            f"{window!r} is not a window",
            where="window",
            remedy="give the earliest start and the latest end, or a text such as 'tomorrow'",
        )
    return window[0], window[1]


def start_s(at: Time, *, now_s: int, zone: ZoneInfo, where: str = "at", exact: bool = True) -> int:
    """Return `when` like `time_s`; a start relative to now is the next full minute, for the grain."""
    found_s = time_s(at, now_s=now_s, zone=zone, where=where, exact=exact)
    if isinstance(at, str) and _FROM_NOW.match(at):
        return align_up(found_s, 60)
    return found_s


def _seconds(when: Time, where: str, now_s: int, zone: ZoneInfo) -> int:
    return time_s(when, now_s=now_s, zone=zone, where=where)
