"""Drawn calendars tell the truth: columns against a slow obvious twin, stacks by their laws."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from kalends.cli import timeline
from kalends.cli.console import screen
from kalends.cli.timeline import ASCII, draw, stack
from kalends.contract.calendar_steps import UnitCounts, grid, moments
from kalends.contract.calls import CalendarView
from kalends.core.resources import ResourceInfo, Slot
from kalends.core.times import parse_time

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
DAY_S = 86_400
MIDNIGHT = 1_800_057_600


def view_of(
    capacity: int = 1,
    start: int = MIDNIGHT,
    end: int = MIDNIGHT + DAY_S,
    until: int | None = None,
    free: tuple[tuple[int, int, int], ...] = (),
    slots: tuple[Slot, ...] = (),
) -> CalendarView:
    resource = ResourceInfo(name="sdsc/sp2", capacity=capacity)
    return CalendarView(
        resource=resource, start=start, end=end, until=end if until is None else until,
        free=free, slots=slots,
    )  # fmt: skip


@st.composite
def views(draw: st.DrawFn) -> CalendarView:
    """Any steps whatever, in a window of minutes, some of them reaching outside."""
    length = draw(st.integers(1, 200))
    edges = st.integers(-20, 220)
    pairs = st.tuples(edges, edges).filter(lambda pair: pair[0] < pair[1])
    taken = draw(
        st.lists(
            st.tuples(pairs, st.integers(1, 5), st.sampled_from(["held", "locked"])), max_size=6
        )
    )
    free = draw(st.lists(st.tuples(pairs, st.integers(1, 5)), max_size=4))
    return view_of(
        capacity=draw(st.integers(1, 40)),
        start=0,
        end=length * 60,
        until=draw(st.integers(0, length)) * 60,
        free=tuple((start * 60, end * 60, units) for (start, end), units in free),
        slots=tuple(Slot(s * 60, e * 60, units, state) for (s, e), units, state in taken),
    )


def at(view: CalendarView, time_s: int) -> tuple[int, int, int, bool]:
    """The slow twin: what is so at one second."""
    locked = sum(s.units for s in view.slots if s.state == "locked" and s.start <= time_s < s.end)
    held = sum(s.units for s in view.slots if s.state == "held" and s.start <= time_s < s.end)
    free = sum(units for start, end, units in view.free if start <= time_s < end)
    return locked, held, free, time_s < view.until


@given(views())
def test_steps_cover_the_window_and_say_what_is_so_at_every_minute(view: CalendarView) -> None:
    steps = moments(view)
    assert (steps[0].start, steps[-1].end) == (view.start, view.end)
    assert all(before.end == after.start for before, after in pairwise(steps))
    for step in steps:
        for time_s in range(step.start, step.end, 60):
            assert at(view, time_s) == (step.locked, step.held, step.free, step.known)


@given(views(), st.integers(10, 100))
def test_each_column_shows_its_fullest_moment(view: CalendarView, width: int) -> None:
    drawn = grid(view, width)
    assert len(drawn.columns) <= width
    for number, moment in enumerate(drawn.columns):
        start = view.start + number * drawn.column_s
        minutes = range(start, min(start + drawn.column_s, view.end), 60)
        fullest = max(sum(at(view, time_s)[:2]) for time_s in minutes)
        assert moment.taken == fullest
        assert any(moment.start <= time_s < moment.end for time_s in minutes)


@given(
    locked=st.integers(0, 50), held=st.integers(0, 50), free=st.integers(0, 50),
    capacity=st.integers(1, 100), rows=st.integers(2, 6), known=st.booleans(),
)  # fmt: skip
def test_a_stack_is_full_height_in_order_and_hides_nothing_that_is_taken(
    locked: int, held: int, free: int, capacity: int, rows: int, known: bool
) -> None:
    states = stack(UnitCounts(0, 1, locked, held, free, known), capacity, rows)
    order = ["locked", "held", "available", "closed" if known else "unknown"]
    assert len(states) == rows
    assert states == sorted(states, key=order.index)
    assert ("locked" in states) == (locked > 0)
    assert ("held" in states) == (held > 0)
    if locked == held == 0:
        assert (states[0] == "available") == (free > 0)


@given(views(), st.integers(20, 200))
def test_a_drawing_is_never_wider_than_the_terminal_except_for_single_words(
    view: CalendarView, width: int
) -> None:
    lines = draw(view, UTC, width=width, glyphs=ASCII)
    longest = len("  - closed, or not open to you")
    assert all(sum(len(text) for text, _ in line) <= max(width, longest) for line in lines)


def text(view: CalendarView, zone: ZoneInfo = UTC) -> list[str]:
    return ["".join(text for text, _ in line) for line in draw(view, zone, width=80, glyphs=ASCII)]


def test_an_instrument_is_one_row_of_states_over_hours() -> None:
    nine, ten, noon, six = (MIDNIGHT + hour * 3_600 for hour in (9, 10, 12, 18))
    drawn = text(
        view_of(
            free=((nine - 3_600, nine, 1), (noon, six, 1)),
            slots=(Slot(nine, ten, 1, "locked"), Slot(ten, noon, 1, "held")),
        )
    )
    assert drawn == [
        "1 " + "-" * 24 + "..." + "###" + "+" * 6 + "." * 18 + "-" * 18,
        "  |        |        |        |        |        |        |        |",
        "  Sat 16   03:00    06:00    09:00    12:00    15:00    18:00    21:00",
        "one column is 20m  # locked  + held  . available  - closed, or not open to you",
    ]


def test_many_units_are_a_bar_from_below_with_units_beside_it() -> None:
    noon = MIDNIGHT + DAY_S // 2
    view = view_of(
        capacity=60,
        free=((MIDNIGHT, noon, 30),),
        slots=(Slot(MIDNIGHT, noon, 20, "locked"), Slot(MIDNIGHT, noon, 10, "held")),
        until=noon,
    )
    assert text(view)[:6] == [
        "60 " + "." * 36 + "?" * 36,
        "50 " + "." * 36 + "?" * 36,
        "40 " + "." * 36 + "?" * 36,
        "30 " + "+" * 36 + "?" * 36,
        "20 " + "#" * 36 + "?" * 36,
        "10 " + "#" * 36 + "?" * 36,
    ]


def test_labels_follow_the_clocks_of_the_zone_over_a_change() -> None:
    start = parse_time("2026-10-24 12:00", MIDNIGHT, BERLIN)
    labels = text(view_of(start=start, end=start + 25 * 3_600), BERLIN)[2]
    assert labels.split() == [
        "12:00",
        "15:00",
        "18:00",
        "21:00",
        "Sun",
        "25",
        "03:00",
        "06:00",
        "09:00",
    ]


def test_long_windows_are_labelled_by_day() -> None:
    assert "17 Jan" in text(view_of(end=MIDNIGHT + 30 * DAY_S))[2]


def test_every_state_has_a_style_a_glyph_a_meaning_and_they_all_differ() -> None:
    assert set(screen.STYLES) == set(get_args(screen.DrawnState))
    assert set(timeline._MEANING) == set(get_args(screen.SlotState))
    for glyphs in (timeline.UNICODE, timeline.ASCII):
        assert len(set(glyphs.values())) == len(glyphs) == len(timeline._MEANING)
        assert all(len(glyph) == 1 for glyph in glyphs.values())
