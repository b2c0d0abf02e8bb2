"""A whole request from texts: terms, duration and time."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import msgspec

from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.language.parser import read_alternatives
from kalends.core.requests import Request, span_of
from kalends.core.times import check_time, parse_time, zone_named

Time = str | int
"""A time as `parse_time` reads it, or seconds UTC."""


def parse_request(
    text: str,
    *,
    duration: str,
    now_s: int,
    zone: str | ZoneInfo,
    at: Time | None = None,
    not_before: Time | None = None,
    not_after: Time | None = None,
) -> Request:
    """Return the checked request for the terms in `text`, each for `duration` unless it says otherwise.

    `at` fixes the common start: the window is exactly as long as the stages. Otherwise the request
    starts from `not_before` (now, when left out) and ends by `not_after` (open, when left out).
    Windows without a zone are in `zone`. Raises `InvalidInput` for texts that cannot be understood, and
    requests that can never be right; what is wrong with a window is shown at its column.
    """
    read = read_alternatives(text, zone_named(zone).key)
    request = Request(
        alternatives=read.alternatives,
        duration_s=parse_duration(duration),
        not_before=_seconds(now_s if not_before is None else not_before, "not_before", now_s, zone),
        not_after=0 if not_after is None else _seconds(not_after, "not_after", now_s, zone),
    )
    if at is not None:
        if not_before is not None or not_after is not None:
            raise InvalidInput(
                "a fixed start excludes a window",
                where="at",
                remedy="give the start or the window",
            )
        request = _starting(request, _seconds(at, "at", now_s, zone))
    try:
        request.check()
    except InvalidInput as error:
        raise read.pointed(error) from error
    return request


def _starting(request: Request, start: int) -> Request:
    """Return `request` with a window that leaves only `start`."""
    spans = {span_of(request, alternative) for alternative in request.alternatives}
    if len(spans) > 1:
        raise InvalidInput(
            "a fixed start needs alternatives whose stages begin and end at the same times",
            where="at",
            remedy="give a window, or request the alternatives one by one",
        )
    lead_s, tail_s = spans.pop()
    return msgspec.structs.replace(
        request,
        not_before=check_time(start + lead_s, where="at"),
        not_after=check_time(start + tail_s, where="at"),
    )


def _seconds(when: Time, where: str, now_s: int, zone: str | ZoneInfo) -> int:
    if isinstance(when, str):
        return parse_time(when, now_s, zone, where=where)
    return check_time(when, where=where)
