"""Errors as text: a line with place and fault, a line for each refusal, and a line with the remedy.

A detail may have more lines: an invalid request is shown with the place marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from shlex import quote
from typing import Final

from kalends.cli.console.output import rows
from kalends.core.errors import KalendsError, OutcomeUnknown, Refusal
from kalends.core.identifiers import REQUEST_ID_PATTERN, short_id

_OPTIONS: Final = {
    "window[0]": "--after",
    "window[1]": "--before",
    "period[0]": "--from",
    "period[1]": "--to",
    "not_before": "--after",
    "not_after": "--before",
    "at": "--at",
    "duration": "--for",
    "duration_s": "--for",
    "by": "--by",
    "by_s": "--by",
    "remind": "--remind",
    "limit_s": "--for",
    "limits_s": "--for",
    "job.nodes": "--nodes",
    "sizes": "--sizes",
    "shape": "--shape",
    "indices": "--array",
    "output": "--output",
    "error": "--error",
    "input": "--input",
    "directory": "--directory",
    "after": "--after",
    "project": "--project",
    "warning.before_s": "--warn",
    "give_up_at": "--until",
    "request.agent": "--agent",
    "agent": "--agent",
    "arguments": "--argument",
    "agent_must_run": "--agent-must-run",
    "note": "--note",
    "word": "--word",
    "units": "--units",
    "priority": "--priority",
    "prefer": "--prefer",
    "preferences": "--prefer",
    "at_most": "--at-most",
    "rates": "--rate",
    "traffic": "--traffic",
    "traffic_mb_per_s": "--traffic",
    "key": "--key",
    "url": "--broker",
    "token": "--token",
    "Authorization": "--token-file",
    "user": "--user",
    "groups": "--group",
    "zone": "--zone",
    "ca": "--ca",
    "id": "ID",
    "resource": "RESOURCE",
    "alternatives": "REQUEST",
    "request": "REQUEST",
}

_ALTERNATIVE: Final = re.compile(r"alternatives\[(\d+)\](?:\.terms\[(\d+)\])?.*")

_REQUEST_ID = re.compile(REQUEST_ID_PATTERN)


def shown(where: str) -> str:
    """Return `where` as an option or argument; other places stay as they are."""
    inside = where.removeprefix("request.")
    if match := _ALTERNATIVE.fullmatch(inside):
        part = f", part {int(match[2]) + 1}" if match[2] else ""
        return f"alternative {int(match[1]) + 1}{part}" if match[1] != "0" or part else "REQUEST"
    return _OPTIONS.get(where) or _OPTIONS.get(inside) or where


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
