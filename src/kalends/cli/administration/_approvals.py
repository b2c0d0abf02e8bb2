"""Text for the requests that need an owner's approval, and for the owner's decisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zoneinfo import ZoneInfo

import click

from kalends.cli.console.output import rows
from kalends.cli.console.short_time import short_time
from kalends.contract.approval_calls import ApprovalView
from kalends.contract.slot_words import slot_words
from kalends.core.durations import format_duration
from kalends.core.identifiers import short_id

REVISION_DIGITS_MAX: Final = 7


def approval_listing(views: Iterable[ApprovalView], zone: ZoneInfo, now_s: int) -> list[str]:
    """Return a row for each slot of each request; the earliest deadline comes first."""
    return rows(
        ("ID", "USER", "RESOURCE", "UNITS", f"FROM ({zone.key})", "TO", "WAITS", "UNTIL", "NOTE"),
        [
            (
                id_of(view), view.user, slot.resource, slot.units, short_time(slot.start, zone),
                short_time(slot.end, zone), format_duration(max(now_s - view.since, 0)),
                short_time(view.until, zone), _note_of(view),
            )
            for view in views
            for slot in view.slots
        ],
        right=("UNITS",),
    )  # fmt: skip


def id_of(view: ApprovalView) -> str:
    """Return the id that an owner types, with a revision if the slots have changed."""
    number = f"/{view.revision}" if view.revision > 1 else ""
    return f"{short_id(view.id)}{number}"


def id_and_revision(named: str) -> tuple[str, int]:
    """Split ``5d0c1f2e/2`` into id and revision (default 1); raises a usage error."""
    id, _, number = named.partition("/")
    if number and not (number.isdecimal() and len(number) <= REVISION_DIGITS_MAX):
        raise click.UsageError("Write ID or ID/NUMBER, as shown by kalends admin requests.")
    return id, int(number or 1)


def _note_of(view: ApprovalView) -> str:
    changed = f"a change of {short_id(view.reservation)}" if view.change else ""
    noted = f'"{view.note}"' if view.note else ""
    return "; ".join(each for each in (changed, noted) if each)


def decided_lines(view: ApprovalView) -> list[str]:
    """Return the decision, and the slots that it is about, as lines."""
    said = f": {view.word}" if view.word else ""
    return [
        f"{short_id(view.id)} of {view.user} is {view.state}{said}",
        f"  {slot_words(view.slots)}",
    ]
