"""Times in JSON answers: each time in seconds is followed by the same time in ISO 8601, UTC.

This module lists the fields that are times, once for all commands. The name of a field decides, because it
means the same in all answers: a length of time ends in its unit (``wait_s``), a time does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from kalends.core.limits import TIME_S_MAX

ENDING: Final = "_iso"

NAMES: Final = frozenset(
    {
        "start", "end", "at", "at_ms", "until", "since", "earliest", "latest", "expected", "p50", "p90",
        "as_of", "now", "submitted", "started", "over", "start_by", "late_start", "next_end",
        "to_start", "to_end", "nominal", "nearest", "opens", "complete_from",
    }
)  # fmt: skip
ENDINGS: Final = ("_at", "_until", "_since")

IN_ROWS: Final = {
    ("CalendarView", "free"): 2,
    ("CalendarView", "prices"): 2,
    ("MachinePlan", "free"): 1,
    ("ReclaimView", "lacking"): 2,
}
"""Fields that are rows of numbers, with the number of times at the start of each row."""

OTHERWISE_NAMED: Final = {
    ("MovedPromise", "before"),
    ("MovedPromise", "after"),
    ("ReclaimedReservation", "to_start"),
    ("ReclaimedReservation", "to_end"),
}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def with_iso_times(fields: Mapping[str, object], kind: str = "") -> dict[str, object]:
    """Return `fields`, of a `kind` of answer or of none, with ``start_iso`` after ``start`` and so on.

    A time that is not set (0) is null there, and so is one outside of the calendar.
    """
    told: dict[str, object] = {}
    for name, value in fields.items():
        told[name] = value
        if (times := IN_ROWS.get((kind, name))) and isinstance(value, list | tuple):
            told[name + ENDING] = [
                [*(_iso(each, 1) for each in row[:times]), *row[times:]] for row in value
            ]
        elif is_time(name, kind):
            _add(told, name, value)
    return told


def is_time(name: str, kind: str = "") -> bool:
    """Return whether integers of this name are times: seconds UTC, or milliseconds if the name says so."""
    return name in NAMES or name.endswith(ENDINGS) or (kind, name) in OTHERWISE_NAMED


def _add(told: dict[str, object], name: str, value: object) -> None:
    in_a_second = 1_000 if name.endswith("_ms") else 1
    if isinstance(value, int) and not isinstance(value, bool):
        told[name + ENDING] = _iso(value, in_a_second)
    elif (
        isinstance(value, dict) and value and all(isinstance(each, int) for each in value.values())
    ):
        told[name + ENDING] = {key: _iso(each, in_a_second) for key, each in value.items()}


def _iso(time: int, in_a_second: int) -> str | None:
    if not 0 < time <= TIME_S_MAX * in_a_second:
        return None
    exact = _EPOCH + timedelta(seconds=time // in_a_second, milliseconds=time % in_a_second)
    precision = "milliseconds" if in_a_second > 1 else "seconds"
    return exact.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
