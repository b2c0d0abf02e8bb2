"""Checks of values from callers before use; a wrong value raises `InvalidInput`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest

T = TypeVar("T")


def is_number(value: object) -> bool:
    """Return whether `value` is a number, but not a truth value or NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def every(values: Iterable[T], *, where: str) -> tuple[T, ...]:
    """Return all of `values`; raises `InvalidInput` for a single value instead of a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise _no_such(values, "several", where, "give a list")
    return tuple(values)


def by_name(values: Mapping[str, T] | None, *, where: str) -> dict[str, T]:
    """Return `values` by their names (None: none); raises `InvalidInput` if it is not a mapping."""
    if values is not None and not isinstance(values, Mapping):
        raise _no_such(values, "a mapping", where, "give values by name, e.g. {'name': value}")
    return dict(values or {})


def checked_job(job: JobRequest) -> JobRequest:
    """Return `job`; raises `InvalidInput` for one that can never be right."""
    if not isinstance(job, JobRequest):
        raise _no_such(job, "a job", "job", "give a kalends.JobRequest")
    try:
        job.check()
    except TypeError as error:
        raise InvalidInput(f"the value cannot be sent: {error}", where="job") from error
    return job


WAIT_S_MAX: Final = 120
"""The longest wait of one call."""


def milliseconds(wait_s: float, most_s: int = WAIT_S_MAX) -> int:
    """Return `wait_s` in milliseconds; raises `InvalidInput` if it is not a time to wait, up to `most_s`."""
    if not is_number(wait_s) or not 0 <= wait_s <= most_s:
        raise InvalidInput(
            f"{wait_s!r} is not a time to wait",
            where="wait_s",
            remedy=f"give seconds, 0 to {most_s}, and call again to wait longer",
        )
    return round(wait_s * 1000)


def _no_such(value: object, wanted: str, where: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"a {type(value).__name__} is not {wanted}", where=where, remedy=remedy)
