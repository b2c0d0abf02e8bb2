"""``kalends find``: possible starts, their prices and obstacles, and whom a broker polls; books nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Unpack
from zoneinfo import ZoneInfo

import click
from msgspec import structs

from kalends.cli.console import output, problems, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import request_options, request_texts, series
from kalends.cli.requests.waiting_texts import to_approve_lines
from kalends.contract.calls import (
    Candidate,
    ClaimView,
    Found,
    PollPoint,
    PollView,
    Price,
)
from kalends.core.durations import format_duration
from kalends.core.errors import NoCommonTime, NotFound, Unavailable
from kalends.core.limits import PRICED_STARTS_MAX
from kalends.core.money import format_credits
from kalends.core.refusals import error_of
from kalends.core.resources import job_of_slot

Asked = tuple[str, int, int]
"""A resource, how many units of it, for how long."""

Delayed = tuple[int, int]
"""How many jobs, and the longest of their delays."""


class FindOptions(request_options.When, series.HoursOptions):
    """The options of a time and of a series, as they were typed."""


@server_command(
    "find",
    "kalends find 'sdsc/sp2:64 + ncsa/cave' --for 2h",
    "kalends find ncsa/cave --for 1h --every week --times 15 --between 9:00-18:00",
)
@click.argument("request")
@request_options.when_options
@request_options.prefer_option
@request_options.price_options
@request_options.traffic_option
@click.option(
    "--count",
    default=5,
    show_default=True,
    type=WholeNumber(1, 100),
    metavar="N",
    help="Number of starts.",
)
@series.hours_options
@click.option(
    "--free-for",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Calendar file (.ics) with times at which you are busy: no start overlaps them.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also show the bookings in the way, and the delays of other requests and jobs.",
)
def find(
    settings: Settings,
    request: str,
    prefer: tuple[str, ...],
    at_most: str,
    rate: str,
    traffic: str,
    count: int,
    free_for: Path | None,
    explain: bool,
    **when: Unpack[FindOptions],
) -> int:
    """Find possible starts; book nothing.

    Prints the best starts at present, with the weights of your preferences, and the price at each site. If
    there is none, prints the refusals. The exit code is then that of `kalends book`: 5, or 75 if a site does
    not answer.

    With --every or --rrule, finds the weekdays and hours at which the most occurrences of a series fit. The
    first week begins at --after.
    """
    if when["every"] or when["rrule"]:
        given = (when["at"], when["before"], prefer, at_most, rate, traffic, free_for, explain)
        if any(given):
            raise click.UsageError("--every and --rrule go with --for, --after and --count only.")
        with settings.connect() as client:
            return series.find_hours(settings, client, request, when, when, count)
    if when["until"]:
        raise click.UsageError(
            "Did you mean '--before'? --until is the last day of a series, and needs --every."
        )
    if when["times"] or when["skip"] or when["between"]:
        raise click.UsageError("--times, --except and --between need --every or --rrule.")
    zone = settings.time_zone()
    with settings.connect() as client:
        preferences = request_options.preferred(settings, client, prefer)
        wanted = client.request(
            request, duration=when["duration"], at=when["at"], window=request_options.window(when),
            prefer=request_options.with_price(preferences, prefer), at_most=at_most, rates=rate,
            traffic=traffic,
        )  # fmt: skip
        request_options.echo(
            settings, client, wanted, when, request_texts.Said(preferences=preferences)
        )
        found = client.find(wanted, count=count, explain=explain, free_for=free_for)
    silent: list[str] = []
    if explain:
        candidates, silent = _priced(settings, found.candidates)
        found = structs.replace(found, candidates=candidates)
    if found.candidates or settings.json:
        output.answer(settings, "found", found, lambda: found_lines(found, zone))
        for each in silent:
            output.say(f"kalends: jobs that would be delayed are not known: {each}", error=True)
        return 0 if found.candidates else error_of(found.refusals).exit_code
    error = error_of(found.refusals)
    if isinstance(error, NoCommonTime):
        error.detail, error.remedy = "there is no common time in this window", ""
    for line in (*problems.lines(error), *obstacle_lines(found, zone)):
        output.say(line, error=True)
    return error.exit_code


def _priced(
    settings: Settings, candidates: Sequence[Candidate]
) -> tuple[tuple[Candidate, ...], list[str]]:
    """Return `candidates` with the jobs that each would delay, and the resources that gave no answer.

    Only the first ten are priced. A resource on which no jobs run delays none.
    """
    starts: defaultdict[Asked, list[int]] = defaultdict(list)
    for candidate in candidates[:PRICED_STARTS_MAX]:
        for claim in candidate.claims:
            starts[_asked(claim)].append(claim.start)
    known: dict[tuple[Asked, int], Delayed] = {}
    silent = []
    for asked, at in starts.items():
        try:
            known |= {(asked, start): found for start, found in _told(settings, asked, at)}
        except NotFound:
            continue  # Not a machine, so no jobs wait there.
        except Unavailable as error:
            silent.append(f"{asked[0]}: {error.detail}")
    return tuple(_with_jobs(candidate, known) for candidate in candidates), silent


def _told(settings: Settings, asked: Asked, starts: Sequence[int]) -> Iterable[tuple[int, Delayed]]:
    resource, units, length_s = asked
    with site_calls.client_at(settings, resource) as site:
        answer = site.machine_delays(resource, units, length_s, dict.fromkeys(starts))
    return [(each.start, (max(each.jobs, 0), each.longest_s)) for each in answer.starts]


def _with_jobs(candidate: Candidate, known: dict[tuple[Asked, int], Delayed]) -> Candidate:
    found = [known.get((_asked(claim), claim.start), (0, 0)) for claim in candidate.claims]
    jobs = sum(count for count, _ in found)
    if not jobs:
        return candidate
    longest_s = max(delay_s for _, delay_s in found)
    price = structs.replace(
        candidate.price or Price(), delayed_jobs=jobs, longest_delay_s=longest_s
    )
    return structs.replace(candidate, price=price)


def _asked(claim: ClaimView) -> Asked:
    return claim.resource, claim.units, claim.end - claim.start


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
        idle_s = [price.idle_unit_s for price in prices]
        columns.append(("IDLE", [format_duration(each) if each > 0 else "-" for each in idle_s]))
    if any(price.delays for price in prices):
        columns.append(("DELAYS", [price.delays or "-" for price in prices]))
    if any(price.delayed_jobs for price in prices):
        columns.append(("JOBS DELAYED", [_jobs_delayed(price) for price in prices]))
    if any(candidate.costs for candidate in shown):
        columns.append(("COST", costs_of(shown)))
    columns.append(("ON", [_on(candidate.claims) for candidate in shown]))
    return rows(
        [name for name, _ in columns],
        list(zip(*(cells for _, cells in columns), strict=True)),
        right=("WEIGHT", "IDLE", "DELAYS"),
    )


def costs_of(candidates: Sequence[Candidate]) -> list[str]:
    """Return the price of each start, by site if several have prices: they are never added up."""
    sites = {site for each in candidates for site in each.costs}
    return [
        ", ".join(
            format_credits(parts) + (f" {site}" if len(sites) > 1 else "")
            for site, parts in sorted(each.costs.items())
        )
        or "-"
        for each in candidates
    ]


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


def _on(claims: Iterable[ClaimView]) -> str:
    return " + ".join(
        claim.resource + (f":{claim.units}" if claim.units > 1 else "") for claim in claims
    )


def poll_lines(view: PollView) -> list[str]:
    """Return a line for the term, then one for each number polled with a bar.

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
        bar = "#" * max(1, round(BAR_WIDTH * point.delay_ms / dearest_ms)) if dearest_ms else ""
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
