"""Waiting for daemons that say nothing when they are ready."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LOOK_EVERY_S: Final = 0.05


def wait_until(holds: Callable[[], object], within_s: float, what: str) -> None:
    """Return when it holds; raises `TimeoutError`, which says that `what` did not come up or go."""
    until_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what} did not come up, or did not go: see its logs")
        time.sleep(LOOK_EVERY_S)
