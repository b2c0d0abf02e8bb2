"""Text for the approvals that a request waits for, or will need."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from kalends.cli.console.short_time import short_time
from kalends.contract.calls import Waiting


def approval_words(waiting: Waiting, zone: ZoneInfo) -> str:
    """Return the owners whose approval is awaited, and the deadline."""
    until = short_time(waiting.until, zone)
    return f"waits for the approval of {_owners(waiting.awaited)} until {until} ({zone.key})"


def waits_how(waiting: Waiting) -> str:
    """Return in brackets how a request waits if it is not in a wait queue."""
    if waiting.approval:
        return " (approval)"
    return " (listed)" if waiting.listed else ""


def to_approve_lines(resources: Sequence[str], held: str = "") -> list[str]:
    """Return lines on the approvals that a booking of `resources`, or a lock of `held`, needs."""
    if not resources:
        return []
    if held:
        asks = f"kalends lock {held} asks for the approval of {_owners(resources)}"
        return [f"held: {asks}, kalends release {held} gives it up"]
    return [f"a booking needs the approval of {_owners(resources)}"]


def _owners(resources: Sequence[str]) -> str:
    return f"the owner of {' and of '.join(dict.fromkeys(resources))}"
