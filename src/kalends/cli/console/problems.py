"""Errors as text: a line with place and fault, a line for each refusal, and a line with the remedy.

A detail may have more lines: an invalid request is shown with the place marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from shlex import quote

from kalends.cli.console.error_places import shown
from kalends.cli.console.output import rows
from kalends.core.errors import KalendsError, OutcomeUnknown, Refusal
from kalends.core.identifiers import REQUEST_ID_PATTERN, short_id

_REQUEST_ID = re.compile(REQUEST_ID_PATTERN)


def lines(error: KalendsError) -> list[str]:
    """Return the lines of `error` for standard error, its remedy last, if it has one."""
    where = f"{shown(error.where)}: " if error.where else ""
    remedy = _remedy(error)
    first, *more = error.detail.splitlines() or [error.title]
    return [
        f"kalends: {where}{first}",
        *(f"  {line}" for line in more),
        *refusal_lines(error.refusals),
        *([f"  try: {_one_line(remedy)}"] if remedy else []),
    ]


def refusal_lines(refusals: Iterable[Refusal]) -> list[str]:
    """Return one line for each refusal: where, the code, and why, with the owner's rule."""
    refusals = tuple(refusals)
    if not refusals:
        return []
    return [
        f"  {line}"
        for line in rows(
            ("REFUSED BY", "CODE", "WHY"),
            [
                (
                    refusal.where,
                    refusal.code,
                    _one_line(refusal.why),
                )
                for refusal in refusals
            ],
        )
    ]


def _remedy(error: KalendsError) -> str:
    named = error.request_id
    is_id = _REQUEST_ID.fullmatch(named) is not None
    if isinstance(error, OutcomeUnknown) and named:
        look = f"kalends show {short_id(named)}" if is_id else f"kalends show --key {quote(named)}"
        return f"{look}, to see the outcome before repeating the call"
    if is_id and not error.remedy:
        return f"kalends why {short_id(named)}"
    if error.retry_after_s and not error.remedy:
        return f"again in {error.retry_after_s:g} s"
    return error.remedy


def _one_line(text: str) -> str:
    return " ".join(text.split())
