"""``kalends calendar``: draw the calendar of a resource."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, screen
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.cli.requests import timeline
from kalends.client.sync import SyncClient
from kalends.contract.calls import CalendarView
from kalends.core.durations import format_duration, parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import short_id
from kalends.core.limits import WINDOW_S_MAX
from kalends.core.times import format_time


@click.command(
    "calendar",
    cls=ServerCommand,
    examples=(
        "kalends calendar sdsc/sp2",
        "kalends calendar ncsa/cave --from 'tomorrow 08:00' --for 10h",
    ),
)
@click.argument("resource")
@click.option("--from", "start", metavar="TIME", help="Start of the drawing.  [default: this hour]")
@click.option(
    "--for", "duration", metavar="DURATION", help="Length of the drawing, e.g. 2d.  [default: 1d]"
)
@click.option("--to", "end", metavar="TIME", help="End of the drawing, instead of --for.")
@pass_settings
def command(
    settings: Settings, resource: str, start: str | None, duration: str | None, end: str | None
) -> None:
    """Draw the calendar of a resource.

    Below the drawing each slot has a row, with its holder if you may see it.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        start_s = client.time_s("now") // 3_600 * 3_600 if start is None else client.time_s(start)
        end_s = _end(client, start_s, duration, end)
        view = client.calendar(resource, start=start_s, end=end_s)
    if settings.json:
        output.print_json("calendar", view)
        return
    _draw(view, zone)
    output.say("")
    for line in _slot_rows(view, zone):
        output.say(line)


def _end(client: SyncClient, start_s: int, duration: str | None, end: str | None) -> int:
    if duration is not None and end is not None:
        raise InvalidInput(
            "--for and --to both fix the end", where="--to", remedy="give one of them"
        )
    if end is None:
        return start_s + parse_duration(duration or "1d", where="--for", longest_s=WINDOW_S_MAX)
    return client.period_s(start_s, end)[1]


def _draw(view: CalendarView, zone: ZoneInfo) -> None:
    plural = "" if view.resource.capacity == 1 else "s"
    output.say(f"{view.resource.name}  {view.resource.capacity} unit{plural}")
    output.say(f"from {format_time(view.start, zone)}")
    output.say(f"to   {format_time(view.end, zone)}")
    if view.resource.hours:
        output.say(f"open {view.resource.hours}")
    if view.as_of:
        seen = format_time(view.as_of, zone)
        output.say(f"bookings by others in its batch system: as seen {seen}")
    if view.until < view.end:
        output.say(f"known only until {format_time(view.until, zone)}")
    output.say("")
    terminal, glyphs = screen.console(), screen.glyphs()
    lines = timeline.draw(view, zone, width=terminal.width, glyphs=glyphs)
    screen.print_lines(lines, terminal)


def _slot_rows(view: CalendarView, zone: ZoneInfo) -> list[str]:
    slots = [
        (slot.start, slot.end, slot.units, slot.state, slot.holder, slot.reservation)
        for slot in view.slots
    ]
    slots += [(start, end, units, "available", "", "") for start, end, units in view.free]
    return output.rows(
        (f"START ({zone.key})", "END", "LENGTH", "UNITS", "STATE", "HOLDER", "RESERVATION"),
        [
            (
                short_time(start, zone),
                short_time(end, zone),
                format_duration(end - start),
                units,
                state,
                holder or "-",
                short_id(reservation) or "-",
            )
            for start, end, units, state, holder, reservation in sorted(slots)
        ],
        right=("LENGTH", "UNITS"),
    )
