"""The demo's calendars: a scale for each, one legend, and a pointer under the reservation's columns."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from kalends.cli.timeline import ASCII
from kalends.contract.calls import CalendarView
from kalends.core.intervals import Interval
from kalends.core.resources import ResourceInfo, Slot
from kalends.demo.narrator import draw_all

START = 1_800_000_000
HOUR = 3_600
UTC = ZoneInfo("UTC")


def view(name: str, capacity: int, free: Interval, slot: Interval) -> CalendarView:
    return CalendarView(
        resource=ResourceInfo(name=name, capacity=capacity),
        start=START,
        end=START + 48 * HOUR,
        until=START + 48 * HOUR,
        free=((free.start, free.end, capacity),),
        slots=(Slot(slot.start, slot.end, capacity, "locked"),),
    )


def lines(mark: Interval | None, width: int = 80) -> list[str]:
    day = Interval(START + 24 * HOUR, START + 48 * HOUR)
    first = Interval(START, START + 24 * HOUR)
    views = [view("a/x", 1, day, first), view("a/machine", 128, day, mark or first)]
    drawn = draw_all(views, UTC, width=width, glyphs=ASCII, mark=mark)
    return ["".join(text for text, _ in line) for line in drawn]


def test_there_is_one_legend_with_every_sign_that_occurs_in_any_of_them() -> None:
    assert lines(None)[-1] == "# locked  . available"


def test_each_drawing_names_its_own_scale() -> None:
    """At this width the wider margin of the second leaves it too few columns for half hours."""
    scales = [line for line in lines(None, width=100) if "one column is" in line]
    assert scales == ["one column is 30m", "one column is 1h"]


def test_each_resource_is_named_with_its_units() -> None:
    drawn = lines(None)
    assert "a/x  1 unit" in drawn
    assert "a/machine  128 units" in drawn


@given(st.integers(0, 47), st.integers(1, 12))
def test_the_pointer_is_under_the_columns_of_the_reservation(start_h: int, length_h: int) -> None:
    length_h = min(length_h, 48 - start_h)
    mark = Interval(START + start_h * HOUR, START + (start_h + length_h) * HOUR)
    pointers = [line for line in lines(mark) if line.endswith(" yours")]
    assert [line.index("^") for line in pointers] == [2 + start_h, 4 + start_h]
    assert [line.count("^") for line in pointers] == [length_h] * 2
