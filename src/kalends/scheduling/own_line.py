"""The line of a user's own class at which an error arose, not the line of kalends that raised it."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from typing import Final

OURS: Final = f"{__file__.rpartition('/scheduling/')[0]}/"
PYTHONS: Final = f"{sysconfig.get_path('stdlib')}/"


def own_line(frames: Sequence[tuple[str, int]]) -> str:
    """Return the innermost line of the user's as ``file:line``; "" without any frames.

    `frames` are files and lines, from the user's method inwards; if none is the user's, the innermost counts.
    """
    own = [each for each in frames if _is_users(each[0])]
    return "{}:{}".format(*(own or frames)[-1]) if frames else ""


def _is_users(file: str) -> bool:
    installed = "-packages/" in file
    return not file.startswith((OURS, "<frozen")) and (installed or not file.startswith(PYTHONS))
