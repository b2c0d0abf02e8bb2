"""Several calendars over the same time, one below the other, and one reservation in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo

from kalends.cli import timeline
from kalends.contract.calendar_steps import TimeGrid, grid
from kalends.contract.calls import CalendarView
from kalends.core.intervals import Interval


def draw_all(
    views: Sequence[CalendarView],
    zone: ZoneInfo,
    *,
    width: int,
    glyphs: dict[timeline.State, str],
    mark: Interval | None = None,
    pointer: str = "^",
) -> list[timeline.Line]:
    """Return the `views` drawn within `width` characters, each with its own scale, and one legend.

    `mark` is pointed at below each.
    """
    lines: list[timeline.Line] = []
    legend: timeline.Line = []
    for view in views:
        drawn = timeline.draw(view, zone, width=width, glyphs=glyphs)
        first = next(n for n, line in enumerate(drawn) if line[0][0].startswith("one column"))
        lines += [[(_title(view), "")], *drawn[:first]]
        if mark is not None:
            lines.append([(_pointed(view, mark, width, pointer), "")])
        scale, *entries = (piece for line in drawn[first:] for piece in line)
        lines += [[scale], [("", "")]]
        for at in range(0, len(entries), 3):  # A gap, a sign, and what it means.
            legend += entries[at : at + 3] if entries[at + 1] not in legend else []
    legend = legend[1:]  # Nothing stands before it in its line.
    return [*lines, legend]


def _title(view: CalendarView) -> str:
    resource = view.resource
    units = "1 unit" if resource.capacity == 1 else f"{resource.capacity} units"
    hours = f", open {resource.hours}" if resource.hours else ""
    return f"{resource.name}  {units}{hours}"


def _pointed(view: CalendarView, mark: Interval, width: int, pointer: str) -> str:
    """Return a line that points at the columns of `mark`."""
    margin = len(str(view.resource.capacity)) + 1
    drawn = grid(view, max(width - margin - 1, 10))
    signs = "".join(_signs(drawn, mark, pointer))
    return f"{' ' * margin}{signs.rstrip()} yours"


def _signs(grid: TimeGrid, mark: Interval, pointer: str) -> Iterator[str]:
    for column in range(len(grid.columns)):
        start = grid.start + column * grid.column_s
        yield pointer if Interval(start, start + grid.column_s).overlaps(mark) else " "
