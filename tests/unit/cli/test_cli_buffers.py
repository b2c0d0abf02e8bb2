"""Buffers of owners in the rows below a calendar."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.cli.resources import _slot_rows
from kalends.contract.calls import CalendarView
from kalends.core.resources import ResourceInfo, Slot

NOW = 1_900_000_800
HOUR = 3_600


def test_set_up_and_clearing_have_rows_of_their_own_within_what_is_shown() -> None:
    slots = (
        Slot(NOW, NOW + HOUR, 1, "locked", before_s=600, after_s=900),
        Slot(NOW + 3 * HOUR, NOW + 4 * HOUR, 1, "held", after_s=900),
    )
    view = CalendarView(
        resource=ResourceInfo(name="lab/room"), start=NOW - 300, end=NOW + 4 * HOUR,
        until=NOW + 4 * HOUR, free=(), slots=slots,
    )  # fmt: skip
    _, *rows = _slot_rows(view, ZoneInfo("UTC"))
    words = [row.split() for row in rows]
    lengths = [each[-5] for each in words]
    states = [each[-3] for each in words]
    assert states == ["buffer", "locked", "buffer", "held"]
    assert lengths == ["5m", "1h", "15m", "1h"]
