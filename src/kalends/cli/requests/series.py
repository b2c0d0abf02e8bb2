"""Series on the command line: ``kalends book ... --every``, and what lists and shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import click
from msgspec import structs

from kalends.cli.console import output
from kalends.cli.console.commands import all_of, section, server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import request_options
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput, NoCommonTime, error_from_problem
from kalends.core.identifiers import short_id
from kalends.core.limits import SERIES_MAX
from kalends.core.series import local_day, occurrences, rule_of_words

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient
    from kalends.contract.calls import (
        OccurrenceView,
        RequestView,
        SeriesHours,
        SeriesView,
    )
    from kalends.core.errors import Problem
    from kalends.core.requests import Request

MISSED_SHOWN: Final = 4

EXIT_IN_PART: Final = 3
"""Some of what was asked for could not be had, and the rest is booked."""

_series = section("Series")

repetition_options = all_of(
    _series("--every", metavar="'PERIOD [on DAYS]'", help="Repetition, e.g. 'week on tue,thu' or '2 weeks'."),
    _series("--times", type=WholeNumber(1, SERIES_MAX), metavar="N", help="Number of occurrences."),
    _series("--rrule", metavar="RULE", help="RFC 5545 rule with COUNT or UNTIL, in place of --every."),
    _series("--except", "skip", multiple=True, metavar="DATE", help="Day to leave out; may be repeated."),
)  # fmt: skip
"""The rule of a series, besides its last day, which is ``--until``."""

series_options = all_of(
    repetition_options,
    _series(
        "--as-many", is_flag=True, help="Book each occurrence by itself.  [default: all or none]"
    ),
    _series("--give", metavar="DURATION", help="Time by which each may begin earlier or later, e.g. 30m."),
    _series("--keep-going", is_flag=True, help="Book what lies beyond an owner's horizon once that moves."),
)  # fmt: skip

hours_options = all_of(
    repetition_options,
    _series("--until", metavar="DATE", help="Last day, in place of --times."),
    _series("--between", default="", metavar="HOURS", help="Hours of the day to look at, e.g. 09:00-18:00."),
)  # fmt: skip


class HoursOptions(TypedDict):
    """The options of a search for the best hours, as they were typed."""

    every: str | None
    times: int | None
    rrule: str | None
    skip: tuple[str, ...]
    until: str | None
    between: str


class SeriesOptions(NamedTuple):
    """The options of a series, as they were typed."""

    every: str | None
    times: int | None
    rrule: str | None
    skip: tuple[str, ...]
    as_many: bool = False
    give: str | None = None
    keep_going: bool = False

    @property
    def wanted(self) -> bool:
        return bool(self.every or self.rrule)


def rule_of(said: SeriesOptions, until: str | None) -> str:
    """Return the rule that the options say; raises `InvalidInput` for options that do not go together."""
    if said.every and said.rrule:
        raise click.UsageError("Give one of --every and --rrule.")
    if said.rrule:
        if said.times or until:
            raise click.UsageError("--rrule has its own end: COUNT or UNTIL.")
        return said.rrule
    if bool(said.times) == bool(until):
        raise click.UsageError("Give one of --times and --until.")
    last = local_day(until, where="--until") if until else None
    return rule_of_words(said.every or "", times=said.times or 0, until=last)


def book_series(
    settings: Settings, client: SyncClient, wanted: Request, key: str, rule: str, said: SeriesOptions,
    wait: str,
) -> int:  # fmt: skip
    """Echo the occurrences, book them, print them, and return the exit code."""
    zone = settings.time_zone()
    for line in understood(wanted, rule, said, zone):
        output.say(line, error=True)
    view = client.book_series(
        wanted, rule=rule, mode="as-many" if said.as_many else "all", skip=said.skip, key=key,
        give=said.give or 0, keep_going=said.keep_going, wait_s=request_options.wait_s(wait),
    )  # fmt: skip
    return told(settings, view)


def find_hours(
    settings: Settings, client: SyncClient, text: str, when: request_options.When, hours: HoursOptions,
    count: int,
) -> int:  # fmt: skip
    """Print the best hours of a series, and how to book the first; return the exit code."""
    said = SeriesOptions(hours["every"], hours["times"], hours["rrule"], hours["skip"])
    found = client.find_series(
        text, duration=when["duration"], window=(when["after"], None),
        rule=rule_of(said, hours["until"]), skip=said.skip, between=hours["between"], count=count,
    )  # fmt: skip
    output.answer(settings, "hours", found, lambda: _hour_lines(found))
    if not found.hours:
        output.say("no occurrence fits at any of these hours", error=True)
        return NoCommonTime.exit_code
    best = found.hours[0]
    beyond = bool(found.horizon_of) and best.fits < best.of
    if found.horizon_of:
        output.say(
            f"the horizon of {found.horizon_of} ends"
            f" {short_time(found.bookable_until, settings.time_zone())}: later occurrences count as missed,"
            " --keep-going books them once it moves",
            error=True,
        )
    end = f"--times {hours['times']}" if hours["times"] else f"--until {hours['until']}"
    rule = f"--rrule '{said.rrule}'" if said.rrule else f"--every '{said.every}' {end}"
    more = [f"--except {day}" for day in said.skip] + ["--as-many"] * (best.fits < best.of)
    more += ["--keep-going"] * beyond
    command = (
        f"kalends book {quote(text)} --for {when['duration']} --at '{best.first.replace('T', ' ')}'"
    )
    output.say(f"to book the first: {' '.join([command, rule, *more])}", error=True)
    return 0


def _hour_lines(found: SeriesHours) -> list[str]:
    return rows(
        ("FITS", "FIRST", "MISSED"),
        [
            (f"{each.fits} of {each.of}", _named(each.first), _missed(each.missed))
            for each in found.hours
        ],
    )


def _missed(days: Sequence[str]) -> str:
    more = len(days) - MISSED_SHOWN
    return ", ".join(days[:MISSED_SHOWN]) + (f" and {more} more" if more > 0 else "")


def understood(wanted: Request, rule: str, said: SeriesOptions, zone: ZoneInfo) -> list[str]:
    """Describe the first and the last occurrence, and whether the clocks change between them."""
    first = datetime.fromtimestamp(wanted.not_before, zone).replace(tzinfo=None, fold=0)
    found = occurrences(rule, first, zone, wanted.not_after - wanted.not_before, said.skip)
    offsets = {datetime.fromtimestamp(each.start, zone).utcoffset() for each in found}
    changes = "; the clocks change meanwhile, the local hour stays" if len(offsets) > 1 else ""
    times = f"{len(found)} times" if len(found) > 1 else "once"
    ends = f", last {_named(found[-1].name)}" if len(found) > 1 else ""
    how = "as many as possible" if said.as_many else "all or none"
    how += f", each up to {said.give} earlier or later" if said.give else ""
    how += ", and what lies beyond a horizon later" if said.keep_going else ""
    return [
        f"{'series':8} {times}: first {_named(found[0].name)}{ends}{changes}",
        f"{'books':8} {how}",
    ]


def told(settings: Settings, view: SeriesView) -> int:
    """Print a series after a call, and return the exit code: 0 only if all of it is as it was asked."""
    zone = settings.time_zone()
    output.answer(settings, "series", view, lambda: series_lines(view, zone))
    missed = [each for each in view.occurrences if each.state in ("failed", "not-asked")]
    if any(each.state == "open" and not each.opens for each in view.occurrences):
        output.say(f"not all is decided yet: kalends show {short_id(view.id)}", error=True)
    if not missed:
        return 0
    if view.mode == "as-many":
        output.say(
            f"{len(missed)} of {len(view.occurrences)} are missed; to try them again:"
            f" kalends series retry {short_id(view.id)}",
            error=True,
        )
        return EXIT_IN_PART
    refused = [
        each.problem for each in missed if each.problem is not None and each.problem.refusals
    ]
    reasons = refused or [each.problem for each in missed if each.problem is not None]
    return error_from_problem(reasons[0]).exit_code if reasons else 1


def changed(settings: Settings, view: SeriesView) -> int:
    """Print a series after a change, and return the exit code: 0 only if all of it is as it was asked."""
    zone = settings.time_zone()
    output.answer(settings, "series", view, lambda: series_lines(view, zone))
    if any(each.changing for each in view.occurrences):
        output.say(f"not all is decided yet: kalends show {short_id(view.id)}", error=True)
    problems = [each.unchanged for each in view.occurrences if each.unchanged is not None]
    if not problems:
        return 0
    stay = "nothing was changed" if view.mode == "all" else f"{len(problems)} could not be changed"
    output.say(f"{stay}; see the reasons above", error=True)
    if view.mode == "as-many":
        return EXIT_IN_PART
    refused = [each for each in problems if each.refusals]
    return error_from_problem((refused or problems)[0]).exit_code


def series_lines(view: SeriesView, zone: ZoneInfo) -> list[str]:
    """Describe a series, with a row for each occurrence."""
    count = Counter(str(each.state) for each in view.occurrences)
    booked = "all or none" if view.mode == "all" else "as many as possible"
    booked += f", each up to {format_duration(view.give_s)} away" if view.give_s else ""
    booked += ", keeps going" if view.keeps_going else ""
    changed = any(_length_s(each) not in (0, view.duration_s) for each in view.occurrences)
    length = format_duration(view.duration_s) + (", as booked" if changed else "")
    facts = (
        ("id", view.id), ("user", view.user), ("request", view.text), ("note", view.note),
        ("for", length), ("rule", f"{view.rule} in {view.zone}"),
        ("booked", booked),
    )  # fmt: skip
    return [
        f"series {short_id(view.id)}: {_counted(count)}",
        *(f"  {name:8} {text}" for name, text in facts if text),
        *(f"  {line}" for line in _table(view.occurrences, zone, lengths=changed)),
    ]


def _table(found: Iterable[OccurrenceView], zone: ZoneInfo, *, lengths: bool) -> list[str]:
    """Return a row for each occurrence; its length is shown where they are not all as booked."""
    return rows(
        ("OCCURRENCE", "STATE", f"START ({zone.key})", *["LENGTH"] * lengths, "ID", "WHY"),
        [
            (
                _named(each.name),
                each.state,
                short_time(each.start or each.nominal, zone),
                *[format_duration(_length_s(each)) if each.start else "-"] * lengths,
                short_id(each.id) if each.id else "-",
                _why(each, zone),
            )
            for each in found
        ],
    )


def _length_s(each: OccurrenceView) -> int:
    """Return how long it is (seconds); 0 without slots."""
    return each.end - each.start


def folded(views: Sequence[RequestView], now_s: int) -> list[RequestView]:
    """Return one view for all requests of a series: its text says how many there are, and how they stand.

    It is that of the next occurrence at `now_s` (seconds UTC), which may have begun.
    """
    by_series: dict[str, list[RequestView]] = {}
    for view in views:
        by_series.setdefault(view.series or view.id, []).append(view)
    return [
        each[0] if not each[0].series else _together(each, now_s) for each in by_series.values()
    ]


def _together(views: Sequence[RequestView], now_s: int) -> RequestView:
    """Return the next occurrence in the name of its series; `views` are in any order."""

    def place(view: RequestView) -> tuple[bool, bool, int]:
        is_over = view.state not in ("reserved", "open") or 0 < view.end <= now_s
        # One that is looked for has no start yet.
        return is_over, not view.start, view.start

    first = min(views, key=place)
    count = Counter(str(view.state) for view in views)
    return structs.replace(
        first, id=views[0].series, text=f"{first.text}, series: {_counted(count)}"
    )


def occurrence_of(view: SeriesView, day: str) -> OccurrenceView:
    """Return the occurrence on a day, or at a local time (``2027-03-09T14:00``); raises `InvalidInput`."""
    found = [each for each in view.occurrences if day in (each.name, each.name[:10])]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(
            f"the series has no occurrence {day}",
            where="id",
            remedy=f"see `kalends show {short_id(view.id)}`",
        )
    raise InvalidInput(
        f"the series has {len(found)} occurrences on {day}",
        where="id",
        remedy=f"write the time, too: @{found[0].name}",
    )


def is_series(id: str) -> bool:
    """Whether `id` can be that of a series: it ends with four zeros."""
    return len(id) >= 8 and id.endswith("0000")


@server_command("retry", "kalends series retry 5d0c0000", "kalends series retry 5d0c0000 --wait 2m")
@click.argument("id")
@request_options.wait_option
def retry(settings: Settings, id: str, wait: str) -> int:
    """Book again the occurrences that were missed.

    Asks for each occurrence to come that was refused, as many as possible. Repeating it books nothing twice.
    """
    with settings.connect() as client:
        view = client.retry_series(id, wait_s=request_options.wait_s(wait))
    return told(settings, structs.replace(view, mode="as-many"))


def _counted(count: Counter[str]) -> str:
    return ", ".join(f"{number} {state.replace('-', ' ')}" for state, number in count.items())


def _named(name: str) -> str:
    local = datetime.fromisoformat(name)
    return f"{local:%a} {name.replace('T', ' ')}"


def _why(each: OccurrenceView, zone: ZoneInfo) -> str:
    if each.changing:
        return f"a change is being decided: {short_id(each.changing)}"
    if each.unchanged is not None:
        return f"not changed: {_reason(each.unchanged)}"
    if each.opens:
        return f"beyond the horizon; is asked for {short_time(each.opens, zone)}"
    if each.problem is None:
        return ""
    free = f"; nearest free start: {short_time(each.nearest, zone)}" if each.nearest else ""
    return _reason(each.problem) + free


def _reason(problem: Problem) -> str:
    first = problem.refusals[:1]
    return f"{first[0].where}: {first[0].detail}" if first else problem.detail
