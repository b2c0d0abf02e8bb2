"""Possible starts as lines of text, with their prices, what is in their way, and whom a broker polls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from kalends.cli.console.output import rows, short_time
from kalends.cli.requests.waiting_words import to_approve_lines
from kalends.contract.calls import (
    Candidate,
    ClaimView,
    Found,
    PollPoint,
    PollView,
    Price,
)
from kalends.core.durations import format_duration
from kalends.core.resources import job_of_slot

ROWS_MAX: Final = 16

BAR_WIDTH: Final = 32


def found_lines(found: Found, zone: ZoneInfo) -> list[str]:
    """List the possible starts and, if asked for, the bookings in their way."""
    polls = (line for poll in found.polls for line in poll_lines(poll))
    seen = [
        f"{resource}: bookings by others in its batch system: as seen {short_time(as_of, zone)}"
        for resource, as_of in sorted(found.as_of.items())
    ]
    return [
        *candidate_lines(found.candidates, zone), *seen, *to_approve_lines(found.approval),
        *obstacle_lines(found, zone), *polls,
    ]  # fmt: skip


def candidate_lines(candidates: Iterable[Candidate], zone: ZoneInfo) -> list[str]:
    """Return a row for each possible start, with weights and prices if any differ from zero.

    IDLE is the time, of one unit, that a start leaves in gaps too short for another like it; DELAYS
    counts requests in line, JOBS DELAYED waiting jobs, with the longest of their delays.
    """
    shown = tuple(candidates)
    prices = [candidate.price or Price() for candidate in shown]
    columns: list[tuple[str, Sequence[object]]] = [
        (f"START ({zone.key})", [short_time(candidate.start, zone) for candidate in shown]),
        ("END", [short_time(candidate.end, zone) for candidate in shown]),
    ]
    if any(candidate.weight for candidate in shown):
        columns.append(("WEIGHT", [f"{candidate.weight:g}" for candidate in shown]))
    if any(price.idle_unit_s for price in prices):
        columns.append(("IDLE", [_idle(price) for price in prices]))
    if any(price.delays for price in prices):
        columns.append(("DELAYS", [price.delays or "-" for price in prices]))
    if any(price.delayed_jobs for price in prices):
        columns.append(("JOBS DELAYED", [_jobs_delayed(price) for price in prices]))
    columns.append(("ON", [_on(candidate.claims) for candidate in shown]))
    return rows(
        [name for name, _ in columns],
        list(zip(*(cells for _, cells in columns), strict=True)),
        right=("WEIGHT", "IDLE", "DELAYS"),
    )


def obstacle_lines(found: Found, zone: ZoneInfo) -> list[str]:
    """List the bookings that would have to move, and the jobs that run, below the start that they prevent."""
    if not found.obstacles:
        return []
    when = short_time(found.obstacles[0].start, zone)
    jobs = sum(bool(job_of_slot(each.slot.reservation)) for each in found.obstacles)
    counted = [
        f"{number} {name}{'' if number == 1 else 's'} would have to {do}"
        for number, name, do in (
            (len(found.obstacles) - jobs, "booking", "move"),
            (jobs, "job", "end"),
        )
        if number
    ]
    what = f"{', and '.join(counted)}{'' if found.fewest else ' (fewer might do)'}"
    better = "a better start" if found.candidates else "a start"
    return [
        f"for {better} at {when} {what}:",
        *rows(
            ("RESOURCE", "UNITS", f"START ({zone.key})", "END", "STATE", "HOLDER"),
            [
                (
                    each.resource,
                    each.slot.units,
                    short_time(each.slot.start, zone),
                    short_time(each.slot.end, zone),
                    job_of_slot(each.slot.reservation) or each.slot.state,
                    each.slot.holder or "-",
                )
                for each in found.obstacles
            ],
            right=("UNITS",),
        ),
    ]


def _jobs_delayed(price: Price) -> str:
    if not price.delayed_jobs:
        return "-"
    return f"{price.delayed_jobs}, by up to {format_duration(price.longest_delay_s)}"


def _idle(price: Price) -> str:
    return format_duration(price.idle_unit_s) if price.idle_unit_s > 0 else "-"


def _on(claims: Iterable[ClaimView]) -> str:
    return " + ".join(
        claim.resource + (f":{claim.units}" if claim.units > 1 else "") for claim in claims
    )


def poll_lines(view: PollView, sign: str = "#") -> list[str]:
    """Return a line for the term, then one for each number polled with a bar of `sign`.

    The longest bar is the most expensive poll shown. An arrow points at the cheapest, which is used first.
    Of a long curve the chosen point, both ends and evenly spaced points between are shown.
    """
    told = [
        f"term {view.term + 1}: {view.needed} of {view.candidates}, "
        f"each taken with a chance of {view.busy:.0%}: {view.chosen} are asked first"
    ]
    points = _shown_points(view.curve, view.chosen)
    if not points:
        return told
    dearest_ms = max(point.delay_ms for point in points)
    width = max(len("polled"), len(str(points[-1].polled)) + 2)
    told.append(f"{'polled':>{width}}  {'delay':>9}  enough")
    for point in points:
        mark = "> " if point.polled == view.chosen else "  "
        bar = sign * max(1, round(BAR_WIDTH * point.delay_ms / dearest_ms)) if dearest_ms else ""
        told.append(
            f"{mark + str(point.polled):>{width}}  {point.delay_ms:>6,.0f} ms  "
            f"{point.chance:>6.1%}  {bar}".rstrip()
        )
    return told


def _shown_points(curve: Sequence[PollPoint], chosen: int) -> list[PollPoint]:
    """Return at most `ROWS_MAX` points of `curve`: the chosen one, the ends and some between."""
    if len(curve) <= ROWS_MAX:
        return list(curve)
    steps = ROWS_MAX - 2
    spaced = {round(number * (len(curve) - 1) / steps) for number in range(steps + 1)}
    return [
        point for number, point in enumerate(curve) if number in spaced or point.polled == chosen
    ]
