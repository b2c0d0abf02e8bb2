"""The demo told in text: every step with the command that does the same, and what came out."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

from kalends.cli import timeline
from kalends.cli.console import output, screen
from kalends.cli.console.screen import SlotState
from kalends.cli.jobs import shown_jobs
from kalends.cli.requests import find, request_texts
from kalends.cli.requests.lookups import story_lines
from kalends.contract.calendar_steps import TimeGrid, grid
from kalends.contract.calls import CalendarView, Candidate, RequestView, Story
from kalends.core.identifiers import short_id
from kalends.core.intervals import Interval
from kalends.demo.facility import DURATION, MACHINE, SECOND_USER, TEXT, UNITS, Facility
from kalends.demo.one_job import LIMIT_S, LINE, NODES, JobSeen

Tell = Callable[[str, Sequence[str], Sequence[str]], None]
"""Shows a step: its title, the commands that do the same, and what comes out."""


class Teller:
    """Prints the steps of a story with times in `zone`, each once and in this order; if `silent`, nothing."""

    def __init__(self, zone: ZoneInfo, *, silent: bool) -> None:
        self._zone = zone
        self._silent = silent

    def filled(self, jobs: int, seconds: float) -> None:
        if not self._silent:
            output.say(f"{jobs} jobs of a busy day are booked on {MACHINE}, in {seconds:.1f} s.")

    def found(self, candidate: Candidate) -> None:
        self._step(
            "When could all three start?",
            [f"kalends find '{TEXT}' --for {DURATION} --count 1"],
            find.candidate_lines([candidate], self._zone),
        )

    def before(self, views: Sequence[CalendarView]) -> None:
        self._step(
            "Their calendars now (the command lists the slots, too)",
            [f"kalends calendar {name}" for name in UNITS],
        )
        self._draw(views, None)

    def booked(self, view: RequestView) -> None:
        self._step(
            "Book all three, or none",
            [f"kalends book '{TEXT}' --for {DURATION} --note '{view.note}'"],
            request_texts.request_lines(view, self._zone),
        )

    def after(self, views: Sequence[CalendarView], reserved: Interval) -> None:
        self._step("Their calendars with the reservation")
        self._draw(views, reserved)

    def ran(self, seen: JobSeen) -> None:
        job = f"{MACHINE}/{seen.running.job}"
        self._step(
            "The machine runs jobs, too, on what nobody has reserved",
            [
                f"kalends submit {MACHINE} -n {NODES} --for {LIMIT_S}s -- sh -c {shlex.quote(LINE)}",
                f"kalends job {job}",
            ],
            shown_jobs.details(seen.running, self._zone),
        )
        self._step("What it has written", [f"kalends log {job}"], [seen.output.strip()])
        over = shown_jobs.news(None, seen.over, self._zone)
        self._step("End it", [f"kalends kill {job}"], [f"{job} {over}"])

    def why(self, story: Story) -> None:
        self._step(
            "What happened to it",
            [f"kalends why {short_id(story.request.id)}"],
            story_lines(story, self._zone),
        )

    def cancelled(self, view: RequestView, free: dict[str, int]) -> None:
        body = [(name, units, UNITS[name]) for name, units in free.items()]
        numbers = ("FREE FOR YOU", "HAD TAKEN")
        self._step(
            "Cancel it",
            [f"kalends cancel {short_id(view.id)}"],
            [
                *request_texts.request_lines(view, self._zone),
                "",
                "Free again at that time:",
                *output.rows(("RESOURCE", *numbers), body, right=numbers),
            ],
        )

    def _step(self, title: str, commands: Sequence[str] = (), lines: Iterable[str] = ()) -> None:
        if not self._silent:
            tell_step(title, commands, lines)

    def _draw(self, views: Sequence[CalendarView], mark: Interval | None) -> None:
        if self._silent:
            return
        terminal = screen.console()
        lines = draw_all(
            views,
            self._zone,
            width=terminal.width,
            glyphs=timeline.glyphs(screen.can_print),
            mark=mark,
            pointer="▲" if screen.can_print("▲") else "^",
        )
        output.print_lines(lines, terminal)


def tell_step(title: str, commands: Sequence[str], lines: Iterable[str]) -> None:
    """Print a step: its title, the commands that do the same, and what came out."""
    output.say("")
    output.say(f"== {title}")
    for command in commands:
        output.say(f"   $ {command}")
    output.say("")
    for line in lines:
        output.say(line)


def tell_nothing(title: str, commands: Sequence[str], lines: Sequence[str]) -> None:
    """Print nothing of a step."""


def try_now(facility: Facility) -> Iterator[str]:
    """Yield commands to copy while the facility runs."""
    kalends = program()
    yield from in_a_second_terminal(
        facility,
        f"{kalends} resources",
        f"{kalends} calendar {MACHINE}",
        f"{kalends} find '{TEXT}' --for {DURATION}",
        f"{kalends} book '{TEXT}' --for {DURATION}",
        f"{kalends} list",
        f"{kalends} submit {MACHINE} -n 4 --for 1m --directory / -- hostname",
        f"{kalends} queue {MACHINE} --plan",
    )


def in_a_second_terminal(facility: Facility, *commands: str) -> Iterator[str]:
    """Yield what to enter there, and what ends the demo."""
    yield ""
    yield "The servers keep running. In a second terminal:"
    yield ""
    for name, value in facility.environment().items():
        yield f"    export {name}={shlex.quote(value)}"
    yield ""
    for command in commands:
        yield f"    {command}"
    yield ""
    second = shlex.quote(str(facility.token_file(SECOND_USER)))
    yield f"A second person, {SECOND_USER}, to share reservations with: put this before a command"
    yield ""
    yield f"    KALENDS_TOKEN_FILE={second}"
    yield ""
    yield f"Configurations, tokens, stores and logs are in {facility.directory}"
    yield "Ctrl-C stops everything."


def try_later(options: str = "") -> Iterator[str]:
    """Yield commands to copy when everything has stopped; `options` chose the demo."""
    yield ""
    yield "Everything is stopped again. To try the commands above yourself, start it with"
    yield ""
    yield f"    {program()} demo {options}--keep"
    yield ""
    yield "which prints what to enter in a second terminal."


def program() -> str:
    """Return the name of this program for a shell: its name if on the path, else its full path."""
    beside = Path(sys.executable).with_name("kalends")
    found = shutil.which("kalends")
    if found is not None and (not beside.exists() or Path(found).samefile(beside)):
        return "kalends"
    return shlex.quote(os.path.relpath(beside) if beside.exists() else sys.argv[0])


def draw_all(
    views: Sequence[CalendarView],
    zone: ZoneInfo,
    *,
    width: int,
    glyphs: dict[SlotState, str],
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
