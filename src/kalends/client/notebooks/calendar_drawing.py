"""A calendar drawn for a notebook: SVG in HTML that needs nothing else, and a row for each slot below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from kalends.contract.calendar_steps import UnitCounts, grid, moments, round_length_s
from kalends.contract.calls import CalendarView
from kalends.core.durations import format_duration
from kalends.core.full_times import date_and_time
from kalends.core.identifiers import short_id
from kalends.core.markup import Markup, element, local_time, safe, table, time_element

WIDTH: Final = 720
HEIGHT: Final = 96
MARGIN: Final = 40
"""Width to the left of the drawing, for the numbers of units."""
AXIS: Final = 20

TICKS_MAX: Final = 8
STEPS_MAX: Final = 720
"""Number of changes above which a calendar is drawn in columns, each with its fullest moment."""
ROWS_MAX: Final = 40

COLOURS: Final = {
    "locked": "#2b6cb0", "held": "#ed9a3a", "available": "#c6e6c9", "closed": "#d5d9df",
    "past": "#edf0f3", "unknown": "#ffffff",
}  # fmt: skip

_MEANINGS: Final = {
    "locked": "locked", "held": "held", "available": "available to you",
    "closed": "closed, or not open to you", "past": "past", "unknown": "not known",
}  # fmt: skip


class _DrawnUnits(NamedTuple):
    state: str
    below: int
    units: int


def calendar_html(view: CalendarView, zone: tzinfo | None) -> Markup:
    """Return the drawing of `view`, and a table of its slots; times in `zone`, None for this computer's."""
    info = view.resource
    steps = _steps(view)
    shown = {layer.state for step in steps for layer in _layers(step, info.capacity)}
    legend = [
        element(
            "span", element("span", "\u2588", style=f"color:{COLOURS[state]}"), " ", meaning, " "
        )
        for state, meaning in _MEANINGS.items()
        if state in shown
    ]
    said = [element("b", info.name), f" {info.capacity} unit{'' if info.capacity == 1 else 's'} "]
    said += [f"open {info.hours} "] if info.hours else []
    said += ["seen ", time_element(view.as_of, zone)] if view.as_of else []
    return element(
        "div",
        element("div", *said),
        _svg(view, steps, zone),
        element("div", *legend, style="font-size:smaller"),
        _slot_table(view, zone),
    )


def _steps(view: CalendarView) -> Sequence[UnitCounts]:
    if view.end <= view.start:
        return ()
    steps = moments(view)
    if len(steps) <= STEPS_MAX:
        return steps
    drawn = grid(view, STEPS_MAX)
    return [
        step._replace(start=start, end=min(start + drawn.column_s, view.end))
        for start, step in zip(
            range(view.start, view.end, drawn.column_s), drawn.columns, strict=True
        )
    ]


def _layers(step: UnitCounts, capacity: int) -> Iterator[_DrawnUnits]:
    """Yield the bars of a step from below, within `capacity`."""
    below = 0
    for state, units in (("locked", step.locked), ("held", step.held), ("available", step.free),
                         (step.rest, capacity)):  # fmt: skip
        height = min(units, capacity - below)
        if height > 0:
            yield _DrawnUnits(state, below, height)
            below += height


def _svg(view: CalendarView, steps: Sequence[UnitCounts], zone: tzinfo | None) -> Markup:
    span_s = max(view.end - view.start, 1)
    across = (WIDTH - MARGIN) / span_s
    up = HEIGHT / view.resource.capacity
    boxes = []
    for step in steps:
        left, wide = MARGIN + (step.start - view.start) * across, (step.end - step.start) * across
        for state, below, units in _layers(step, view.resource.capacity):
            told = f"{units} {_MEANINGS[state]}, {_clock(step.start, zone)} to {_clock(step.end, zone)}"
            boxes.append(
                element(
                    "rect", element("title", told), x=f"{left:.2f}", width=f"{wide:.2f}",
                    y=f"{HEIGHT - (below + units) * up:.2f}", height=f"{units * up:.2f}",
                    fill=COLOURS[state], **{"class": state},
                )
            )  # fmt: skip
    frame = element("rect", x=MARGIN, y=0, width=WIDTH - MARGIN, height=HEIGHT, fill="none",
                    stroke="#718096")  # fmt: skip
    most = element("text", view.resource.capacity, x=MARGIN - 4, y=10, text_anchor="end")
    ticks = [
        mark
        for time_s, label in _ticks(view, zone)
        for mark in _tick(f"{MARGIN + (time_s - view.start) * across:.2f}", label)
    ]
    return element(
        "svg", element("title", f"calendar of {view.resource.name}"), *boxes, frame, most, *ticks,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT + AXIS}", width=WIDTH,
        height=HEIGHT + AXIS, font_size=11, font_family="sans-serif", fill="currentColor", role="img",
    )  # fmt: skip


def _tick(x: str, label: str) -> tuple[Markup, Markup]:
    line = element("line", x1=x, x2=x, y1=HEIGHT, y2=HEIGHT + 4, stroke="#718096")
    return line, element("text", label, x=x, y=HEIGHT + AXIS - 4, text_anchor="middle")


def _ticks(view: CalendarView, zone: tzinfo | None) -> Iterator[tuple[int, str]]:
    """Yield round times of the zone, a step apart, with their labels."""
    step_s = round_length_s(max((view.end - view.start) // TICKS_MAX, 1))
    first = local_time(view.start, zone)
    midnight = first.replace(hour=0, minute=0, second=0, tzinfo=None)
    wall = midnight + timedelta(
        seconds=-(-int((first.replace(tzinfo=None) - midnight).total_seconds()) // step_s) * step_s
    )
    for _ in range(2 * TICKS_MAX):
        time_s = int(wall.replace(tzinfo=first.tzinfo if zone is None else zone).timestamp())
        if time_s > view.end:
            return
        if time_s >= view.start:
            yield time_s, _label(wall, step_s)
        wall += timedelta(seconds=step_s)


def _label(wall: datetime, step_s: int) -> str:
    if step_s >= 86_400 or wall.hour == wall.minute == 0:
        return f"{wall:%a %d %b}"
    return f"{wall:%H:%M}"


def _clock(time_s: int, zone: tzinfo | None) -> str:
    local = local_time(time_s, zone)
    return f"{local:%a} {date_and_time(local)}"


def _slot_table(view: CalendarView, zone: tzinfo | None) -> Markup:
    taken = sorted(view.slots, key=lambda slot: (slot.start, slot.end))
    rows = [
        (
            time_element(slot.start, zone), time_element(slot.end, zone),
            format_duration(slot.end - slot.start), slot.units, slot.state, slot.holder,
            short_id(slot.reservation),
        )
        for slot in taken[:ROWS_MAX]
    ]  # fmt: skip
    if not rows:
        return safe("")
    listed = table(("start", "end", "length", "units", "state", "holder", "reservation"), rows)
    more = len(taken) - len(rows)
    return element("div", listed, f"and {more:,} more" if more else "")
