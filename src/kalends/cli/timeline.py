"""A calendar drawn as text: columns are time, height is units. Pure; yields lines of styled pieces.

A resource of one unit is one row of states; one of many is a bar of taken units, from below. A
column shows its fullest moment, so that nothing taken disappears in a long column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from kalends.cli.console.screen import SlotState
from kalends.contract.calendar_steps import TimeGrid, UnitCounts, grid, round_length_s
from kalends.contract.calls import CalendarView
from kalends.core.durations import format_duration

Piece = tuple[str, SlotState | Literal[""]]
"""A text and the state that it is drawn in; "" for plain text."""

Line = list[Piece]

UNICODE: dict[SlotState, str] = {
    "locked": "█", "held": "▒", "available": "·", "closed": "-", "past": "_", "unknown": "?",
}  # fmt: skip
ASCII: dict[SlotState, str] = {
    "locked": "#", "held": "+", "available": ".", "closed": "-", "past": "_", "unknown": "?",
}  # fmt: skip

_MEANING: dict[SlotState, str] = {
    "locked": "locked", "held": "held", "available": "available",
    "closed": "closed, or not open to you", "past": "past", "unknown": "not known",
}  # fmt: skip

ROWS_MAX = 6

LABEL_WIDTH_MIN = 7
"""Columns from one time label to the next: ``08:00`` or ``14 Jul`` and a blank."""


def glyphs(can_print: Callable[[str], bool]) -> dict[SlotState, str]:
    """Return the signs to draw with: plain ones if the terminal cannot show the others."""
    return UNICODE if can_print("█▒·") else ASCII


def stack(moment: UnitCounts, capacity: int, rows: int) -> list[SlotState]:
    """Return one column as `rows` states from below; any taken unit shows in at least one of them."""
    locked = _share(moment.locked, capacity, rows)
    taken = max(_share(moment.taken, capacity, rows), min(rows, locked + (moment.held > 0)))
    if moment.held and taken == locked > 1:
        locked -= 1
    reachable = max(_share(moment.taken + moment.free, capacity, rows), taken)
    heights: list[tuple[SlotState, int]] = [
        ("locked", locked),
        ("held", taken - locked),
        ("available", reachable - taken),
        (moment.rest, rows - reachable),
    ]
    return [state for state, height in heights for _ in range(height)]


def draw(
    view: CalendarView, zone: ZoneInfo, *, width: int, glyphs: dict[SlotState, str]
) -> list[Line]:
    """Return the drawing, its time axis and its legend, within `width` characters."""
    capacity = view.resource.capacity
    rows = min(capacity, ROWS_MAX)
    margin = len(str(capacity)) + 1
    drawn = grid(view, max(width - margin - 1, 10))
    stacks = [stack(moment, capacity, rows) for moment in drawn.columns]
    lines: list[Line] = []
    for row in reversed(range(rows)):
        units = capacity * (row + 1) // rows
        lines.append([(f"{units:>{margin - 1}} ", ""), *_merged([s[row] for s in stacks], glyphs)])
    marks, labels = _axis(drawn, zone)
    blank = " " * margin
    lines += [[(blank + marks, "")], [((blank + labels)[:width].rstrip(), "")]]
    shown = {state for column in stacks for state in column}
    legend: Line = [(f"one column is {format_duration(drawn.column_s)}", "")]
    for state, meaning in _MEANING.items():
        if state in shown:
            legend += [("  ", ""), (glyphs[state], state), (f" {meaning}", "")]
    return [*lines, *_wrapped(legend, width)]


def _share(units: int, capacity: int, rows: int) -> int:
    """Return how many of `rows` represent `units`: at least one unless `units` is 0."""
    return min(rows, -(-units * rows // capacity))


def _merged(states: Sequence[SlotState], glyphs: dict[SlotState, str]) -> Line:
    """Merge neighbours in the same state."""
    line: list[tuple[str, SlotState]] = []
    for state in states:
        if line and line[-1][1] == state:
            line[-1] = (line[-1][0] + glyphs[state], state)
        else:
            line.append((glyphs[state], state))
    return [*line]


def _axis(drawn: TimeGrid, zone: ZoneInfo) -> tuple[str, str]:
    """Return the marks and the labels under the columns, at round times of the zone."""
    step_s = round_length_s(drawn.column_s * LABEL_WIDTH_MIN)
    marks, labels = "", ""
    before = None
    for column in range(len(drawn.columns)):
        local = datetime.fromtimestamp(drawn.start + column * drawn.column_s, zone)
        wall_s = local.toordinal() * 86_400 + local.hour * 3_600 + local.minute * 60 + local.second
        on_mark = wall_s % step_s == 0 or (before is not None and before != wall_s // step_s)
        before = wall_s // step_s
        marks += "|" if on_mark else " "
        if on_mark and (column == 0 or len(labels) < column):
            labels = labels.ljust(column) + _label(local, step_s)
    return marks.rstrip(), labels


def _label(local: datetime, step_s: int) -> str:
    if step_s >= 86_400:
        return f"{local:%d %b}"
    return f"{local:%a %d}" if local.hour == local.minute == 0 else f"{local:%H:%M}"


def _wrapped(pieces: Line, width: int) -> list[Line]:
    """Return the legend in lines of at most `width`, broken between its entries."""
    lines: list[Line] = [[pieces[0]]]
    used = len(pieces[0][0])
    for gap, glyph, meaning in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        length = len(gap[0] + glyph[0] + meaning[0])
        if used + length > width:
            lines.append([])
            used = 0
        lines[-1] += [gap, glyph, meaning]
        used += length
    return lines
