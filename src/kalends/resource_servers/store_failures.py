"""Failures of a store in the log: each is logged once."""

from __future__ import annotations

from typing import Final

from kalends.serving.logs import Logger
from kalends.stores.group_commit import StoreFailed, StoreLost

QUIET_MS: Final = 60_000
"""A failure is told again when it has not occurred for so long."""


class StoreFailures:
    """On a full disk every write fails after each new beginning, in the same way."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._last_ms: dict[str, int] = {}

    def tell(self, failure: StoreFailed, now_ms: int) -> None:
        """Log `failure`, unless it has been told lately; `now_ms` is monotonic."""
        recent = {
            detail: at_ms for detail, at_ms in self._last_ms.items() if now_ms - at_ms <= QUIET_MS
        }
        self._last_ms = {**recent, failure.detail: now_ms}
        if failure.detail not in recent:
            if isinstance(failure, StoreLost):
                self._logger.warning("store_failed", detail=failure.detail)
            else:
                self._logger.error(
                    "store_failed", detail=failure.detail, exc_info=failure.__cause__
                )
