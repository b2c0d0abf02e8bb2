"""Failures as problem details (RFC 9457), and the refusals that only HTTP has.

An unforeseen failure gets the code ``internal`` and a new error id. The traceback goes
to the log under that id; the caller gets nothing of it.
"""

from __future__ import annotations

import secrets

import msgspec
import structlog

from kalends.core.errors import PROBLEM_TYPE_PREFIX, InvalidInput, KalendsError, Problem

INTERNAL_CODE = "internal"


class HttpRefusal(InvalidInput):
    """Invalid input with a more exact HTTP status than 400, such as 405 or 415."""

    def __init__(self, http_status: int, detail: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(detail, where=where, remedy=remedy)
        self.http_status = http_status

    def to_problem(self) -> Problem:
        return msgspec.structs.replace(super().to_problem(), status=self.http_status)


def problem_of(error: Exception, logger: structlog.typing.FilteringBoundLogger) -> Problem:
    """Return the problem to report for `error`; details of internal errors go to the log only."""
    if isinstance(error, KalendsError) and error.code != INTERNAL_CODE:
        if error.status == 500:
            logger.error("call_failed", code=error.code, detail=error.detail, exc_info=error)
        return error.to_problem()
    error_id = secrets.token_hex(6)
    logger.error("call_failed", code=INTERNAL_CODE, error_id=error_id, exc_info=error)
    return Problem(
        type=PROBLEM_TYPE_PREFIX + INTERNAL_CODE,
        title=KalendsError.title,
        status=KalendsError.status,
        detail=f"an unforeseen error; the server's log has it as {error_id}",
        code=INTERNAL_CODE,
        remedy="report this error id to the operator; look up the call's outcome by its key",
    )
