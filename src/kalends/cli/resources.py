"""Resources and sites: ``kalends resources``, ``sites`` and ``calendar``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from zoneinfo import ZoneInfo

import click

from kalends.cli import timeline
from kalends.cli.console import output, screen
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.settings import Settings
from kalends.client.sync import SyncClient
from kalends.contract.calls import CalendarView, Resources, SiteStatus
from kalends.core.durations import format_duration, parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import short_id, split_resource
from kalends.core.limits import WINDOW_S_MAX
from kalends.core.money import format_rate
from kalends.core.resources import ResourceInfo
from kalends.core.times import format_time


@server_command("resources", "kalends resources", "kalends resources sdsc/sp2")
@click.argument("resource", required=False)
def resources(settings: Settings, resource: str | None) -> None:
    """List the resources that can be booked.

    Below the list are the owners' rules: limits, blackouts and head starts in wait queues. With RESOURCE,
    lists the rules that apply to you and how much you may book. Sites that do not answer are named; their
    resources are missing.
    """
    with settings.connect() as client:
        if resource is not None:
            _show_one(settings, client, resource)
            return
        answer = client.resources()
    output.answer(settings, "resources", answer, lambda: _resource_lines(answer))
    if not settings.json:
        for line in _rules(answer):
            output.say(line)
    for site in answer.sites:
        if site.state == "down":
            output.say(f"kalends: site {site.site} does not answer: {site.detail}", error=True)


def _show_one(settings: Settings, client: SyncClient, resource: str) -> None:
    now_s = client.time_s("now")
    view = client.calendar(resource, start=now_s, end=now_s + 1)
    output.answer(settings, "calendar", view, lambda: _one(view))


def _one(view: CalendarView) -> Iterator[str]:
    info = view.resource
    yield from _resource_lines(Resources(resources=(info,)))
    yield f"bookings end within {format_duration(info.horizon_s)} from now"
    yield from view.rules


def _resource_lines(answer: Resources) -> Iterable[str]:
    return output.rows(
        ("RESOURCE", "UNITS", "GRAIN", "HOURS", "ATTRIBUTES", "DESCRIPTION"),
        [
            (
                resource.name,
                resource.capacity,
                format_duration(resource.grain_s),
                "advisory" if resource.advisory else resource.hours or "always",
                _attributes(resource),
                resource.description,
            )
            for resource in answer.resources
        ],
        right=("UNITS", "GRAIN"),
    )


def _attributes(resource: ResourceInfo) -> str:
    listed = [f"{name}={value}" for name, value in sorted(resource.attributes.items())]
    return " ".join([*listed, *(f"through={virtual}" for virtual in resource.through)])


def _rules(answer: Resources) -> Iterator[str]:
    """Yield every rule once, with its resources: most resources of a site share their rules."""
    resources_of: dict[str, list[str]] = {}
    for resource in answer.resources:
        for rule in resource.rules:
            resources_of.setdefault(rule, []).append(resource.name)
    for resource in answer.resources:
        if resource.advisory:
            yield (
                f"{resource.name}: advisory: {resource.advisory} alone schedules the jobs, and accepts no "
                f"reservations: submit jobs (kalends submit {resource.name})"
            )
    for rule, names in resources_of.items():
        yield f"{', '.join(names)}: {rule}"


@server_command("sites", "kalends sites", "kalends sites --json")
def sites(settings: Settings) -> None:
    """List the sites that a broker knows, and how they bid for jobs.

    ANSWERS is the usual time to a site's bid. WAIT is the wait of a job there, from the last bids. YOURS RUN
    is the share of their limits that your last jobs used there (at other sites, if none ran there). A site
    that did not answer is asked again after a pause. VERSION is the version of kalends at the site. A site
    refuses requests that need features of later versions, and names the feature.
    """
    with settings.connect() as client:
        answer = client.resources()
    output.answer(settings, "sites", answer.sites, lambda: site_lines(answer))


def site_lines(answer: Resources) -> list[str]:
    machines = Counter(split_resource(each.name)[0] for each in answer.resources if each.queue)
    return output.rows(
        ("SITE", "STATE", "BIDS FOR", "ANSWERS", "WAIT", "YOURS RUN", "VERSION", "DETAIL"),
        [
            (
                site.site,
                site.state,
                f"{machines[site.site]} machine{'s' if machines[site.site] > 1 else ''}"
                if machines[site.site]
                else "-",
                f"{site.answer_ms} ms" if site.answer_ms else "-",
                format_duration(site.wait_s) if site.answer_ms else "-",
                f"{site.learned_share:.2g}" if site.learned_jobs else "-",
                site.version or "-",
                _detail(site),
            )
            for site in answer.sites
        ],
    )


def _detail(site: SiteStatus) -> str:
    resting = f"did not bid; asked again in {format_duration(site.rests_s)}"
    detail = resting if site.rests_s else site.detail
    lacks = f"lacks {', '.join(site.lacks)}" if site.lacks else ""
    return "; ".join(filter(None, (site.through and f"through {site.through}", lacks, detail)))


@server_command(
    "calendar",
    "kalends calendar sdsc/sp2",
    "kalends calendar ncsa/cave --from 'tomorrow 08:00' --for 10h",
)
@click.argument("resource")
@click.option("--from", "start", metavar="TIME", help="Start of the drawing.  [default: this hour]")
@click.option(
    "--for", "duration", metavar="DURATION", help="Length of the drawing, e.g. 2d.  [default: 1d]"
)
@click.option("--to", "end", metavar="TIME", help="End of the drawing, instead of --for.")
def calendar(
    settings: Settings, resource: str, start: str | None, duration: str | None, end: str | None
) -> None:
    """Draw the calendar of a resource.

    Below the drawing each slot has a row, with its holder if you may see it. A buffer is the owner's time for
    set-up or clearing, which no user can book. PRICE is what a unit costs
    for an hour, in credits of the owner.
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
    terminal, glyphs = screen.console(), timeline.glyphs(screen.can_print)
    lines = timeline.draw(view, zone, width=terminal.width, glyphs=glyphs)
    output.print_lines(lines, terminal)


def _by_price(view: CalendarView, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield the parts of ``[start, end)``, with the price of a unit and an hour in each."""
    if not view.prices:
        yield start, end, "-"
    for begin, finish, rate in view.prices:
        if max(begin, start) < min(finish, end):
            yield max(begin, start), min(finish, end), format_rate(rate)


def _slot_rows(view: CalendarView, zone: ZoneInfo) -> list[str]:
    slots: list[tuple[int, int, int, str, str, str, str]] = [
        (slot.start, slot.end, slot.units, slot.state, slot.holder, slot.reservation, "-")
        for slot in view.slots
    ]
    slots += [
        (max(start, view.start), end, slot.units, "buffer", "", "", "-")
        for slot in view.slots
        for start, end in (
            (slot.start - slot.before_s, slot.start),
            (slot.end, slot.end + slot.after_s),
        )
        if start < end and view.start < end and start < view.end
    ]
    slots += [
        (start, end, units, "available", "", "", price)
        for first, last, units in view.free
        for start, end, price in _by_price(view, first, last)
    ]
    priced = bool(view.prices)
    names = (f"START ({zone.key})", "END", "LENGTH", "UNITS", "STATE", "HOLDER", "RESERVATION")
    return output.rows(
        (*names, *(["PRICE"] * priced)),
        [
            (
                short_time(start, zone),
                short_time(end, zone),
                format_duration(end - start),
                units,
                state,
                holder or "-",
                short_id(reservation) or "-",
                *([price] * priced),
            )
            for start, end, units, state, holder, reservation, price in sorted(slots)
        ],
        right=("LENGTH", "UNITS", "PRICE"),
    )
