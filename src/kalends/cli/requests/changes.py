"""Changes of a request: ``kalends lock``, ``release``, ``cancel``, ``move``, ``extend`` and ``shrink``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypedDict, Unpack

import click

from kalends.cli.console import output
from kalends.cli.console.commands import F, all_of, server_command
from kalends.cli.console.settings import Settings
from kalends.cli.requests import request_options, series
from kalends.client.sync import SyncClient
from kalends.contract.calls import OccurrenceView, RequestView, SeriesView
from kalends.core.durations import format_duration, parse_duration, parse_offset
from kalends.core.identifiers import short_id
from kalends.core.times import format_time


def _id_command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command with ID and --wait."""

    def command(function: Callable[..., None]) -> click.Command:
        function = click.argument("id")(request_options.wait_option(function))
        example = f"kalends {name} 5d0c1f2e"
        return server_command(name, example, f"{example} --wait 2m")(function)

    return command


@_id_command("lock")
def lock(settings: Settings, id: str, wait: str) -> None:
    """Lock all slots that a request holds.

    Locks all of them or none, and makes the hold a reservation. A repeated call does no harm.
    """
    _settle(settings, id, wait, SyncClient.lock)


@_id_command("release")
def release(settings: Settings, id: str, wait: str) -> None:
    """Release all slots that a request holds.

    A request that still waits also leaves its wait queues. A repeated call does no harm.
    """
    _settle(settings, id, wait, SyncClient.release)


def _settle(settings: Settings, id: str, wait: str, end_hold: Callable[..., RequestView]) -> None:
    wait_s = request_options.wait_s(wait)
    with settings.connect() as client:
        view = end_hold(client, id, wait_s=wait_s)
    request_options.answer(settings, view)


class SeriesFlags(TypedDict):
    """--following and --all, as they were typed."""

    following: bool
    whole: bool


class Scope(NamedTuple):
    """The occurrences that a command is about, as they were typed: ``SERIES@DAY``, --following and --all."""

    id: str
    day: str
    following: bool
    whole: bool

    @property
    def of_series(self) -> bool:
        return bool(self.day) or self.whole

    def occurrence(self, client: SyncClient) -> OccurrenceView | None:
        """Return the occurrence on that day; None for all. Raises `InvalidInput`."""
        return series.occurrence_of(client.series(self.id), self.day) if self.day else None


def _scope(id: str, following: bool, whole: bool) -> Scope:
    """Return what `id` and the options say; raises `click.UsageError` if they do not go together."""
    id, _, day = id.partition("@")
    if following and not day:
        raise click.UsageError("--following needs an occurrence: SERIES@2027-03-09.")
    if whole and day:
        raise click.UsageError("--all is about the whole series: leave out the day.")
    if series.is_series(id) and not (day or whole):
        raise click.UsageError(f"Say what of the series: {id}@DATE, with --following, or --all.")
    return Scope(id, day, following, whole)


def _scope_options(verb: str) -> Callable[[F], F]:
    """Make options of what to `verb` of a series."""
    return all_of(
        click.option(
            "--following",
            is_flag=True,
            help=f"{verb} this occurrence of a series and all later ones.",
        ),
        click.option("--all", "whole", is_flag=True, help=f"{verb} all occurrences of a series."),
    )


@_id_command("cancel")
@_scope_options("Cancel")
def cancel(settings: Settings, id: str, wait: str, following: bool, whole: bool) -> None:
    """Cancel a reservation at all its sites, or occurrences of a series.

    Also ends requests that hold slots or still wait. With the id of a change that is still being decided,
    cancels only the change. SERIES@2027-03-09 is the occurrence of a series on that day. A repeated call
    does no harm.
    """
    wait_s = request_options.wait_s(wait)
    scope = _scope(id, following, whole)
    with settings.connect() as client:
        if scope.of_series:
            named = scope.occurrence(client)
            left = client.cancel_series(
                scope.id,
                named.name if named is not None else "",
                following=following,
                wait_s=wait_s,
            )
            zone = settings.time_zone()
            output.answer(settings, "series", left, lambda: series.series_lines(left, zone))
            return
        id = client.full_id(id)
        view = client.cancel(id, wait_s=wait_s)
        if view.id != id:
            standing = client.show(view.id)
            if standing.state == "reserved":
                output.say(
                    f"the change {short_id(id)} is cancelled; this reservation stays", error=True
                )
                view = standing
    request_options.answer(settings, view)


_change_options = all_of(
    click.option(
        "--key",
        default="",
        metavar="KEY",
        help="Idempotency key: a repeated call with the same key changes once.  [default: a new one]",
    ),
    request_options.wait_option,
)


def _send(
    settings: Settings,
    client: SyncClient,
    id: str,
    key: str,
    asked: str,
    change: Callable[[str, str], RequestView],
) -> None:
    """Echo the change and its key, `change` the request of this id, and print it."""
    full, key = client.full_id(id), key or client.new_key()
    output.say(f"{'change':8} {full} {asked}", error=True)
    output.say(f"{'key':8} {key}", error=True)
    request_options.answer(settings, change(full, key))


def _send_series(
    settings: Settings,
    client: SyncClient,
    scope: Scope,
    key: str,
    asked: str,
    change: Callable[[str, str], SeriesView],
    named: OccurrenceView | None,
) -> int:
    """Echo the change of a series and its key, `change` it, print it, and return the exit code.

    `change` takes the name of the occurrence and the key.
    """
    key = key or client.new_key()
    about = (
        "all"
        if named is None
        else f"{named.name} and the following"
        if scope.following
        else named.name
    )
    output.say(f"{'change':8} {client.series_id(scope.id)} {asked}: {about}", error=True)
    output.say(f"{'key':8} {key}", error=True)
    return series.changed(settings, change(named.name if named is not None else "", key))


def _length_text(comparative: str, by: str | None, duration: str | None) -> str:
    """Describe ``--by`` or ``--for``, of which exactly one must be given."""
    if (by is None) == (duration is None):
        raise click.UsageError("Give one of --by and --for.")
    if by is not None:
        return f"{comparative} by {format_duration(parse_duration(by, where='--by'))}"
    return f"{comparative}: {format_duration(parse_duration(str(duration), where='--for'))} in all"


def _units_kept(pairs: Iterable[str]) -> dict[str, int]:
    """Parse ``site/name=N`` into a map."""
    kept = {}
    for pair in pairs:
        resource, _, count = pair.rpartition("=")
        if not resource or not count.isdecimal() or int(count) < 1:
            raise click.BadParameter(
                f"{pair!r} is not RES=N, e.g. sdsc/sp2=32.", param_hint="--units"
            )
        kept[resource] = int(count)
    return kept


@server_command(
    "move",
    "kalends move 5d0c1f2e --to 'tomorrow 14:00'",
    "kalends move 5d0c0000@2027-03-09 --following --by 1h",
)
@click.argument("id")
@click.option("--to", metavar="TIME", default="", help="New start, e.g. 'tomorrow 14:00'.")
@click.option(
    "--by", metavar="DURATION", help="Time to move occurrences of a series by, e.g. 1h or -30m."
)
@click.option(
    "--elsewhere",
    is_flag=True,
    help="Move a job to another site, if it was submitted --at-most-once and has not started, or --rerun.",
)
@_scope_options("Move")
@_change_options
def move(
    settings: Settings, id: str, to: str, by: str | None, elsewhere: bool, key: str, wait: str,
    **of_series: Unpack[SeriesFlags],
) -> int:  # fmt: skip
    """Move a reservation to another time, or a job to another site.

    Keeps the old time, or place, until every site has agreed to the new one. SERIES@2027-03-09 is the
    occurrence of a series on that day; the following ones are moved by the same time of the local clock. A
    running job is ended, and restarts at the other site.
    """
    if bool(to) + bool(by) + elsewhere != 1:
        raise click.UsageError("Give one of --to, --by and --elsewhere.")
    scope = _scope(id, of_series["following"], of_series["whole"])
    if by and not scope.of_series:
        raise click.UsageError("--by moves occurrences of a series: give --to.")
    if scope.of_series and elsewhere:
        raise click.UsageError("--elsewhere moves a job, and a series has none.")
    if scope.whole and to:
        raise click.UsageError("--to is the start of one occurrence: name it, or give --by.")
    by_s = parse_offset(by, where="--by") if by else None
    wait_s = request_options.wait_s(wait)
    zone = settings.time_zone()
    with settings.connect() as client:
        if scope.of_series:
            named, start = scope.occurrence(client), None
            asked = f"by {format_duration(by_s or 0)}"
            if named is not None and to:
                start = client.start_after_move_s(named.id, to, where="--to")
                asked = f"to start at {format_time(start, zone)}"
            return _send_series(
                settings, client, scope, key, asked,
                lambda name, key: client.move_series(
                    scope.id, name, start, by=by_s, following=scope.following, key=key, wait_s=wait_s
                ),
                named,
            )  # fmt: skip
        if elsewhere:
            _send(
                settings, client, id, key, "to another site",
                lambda full, key: client.place_elsewhere(full, key=key, wait_s=wait_s),
            )  # fmt: skip
            return 0
        start_s = client.start_after_move_s(id, to, where="--to")
        _send(
            settings, client, id, key, f"to start at {format_time(start_s, zone)}",
            lambda full, key: client.move(full, start_s, key=key, wait_s=wait_s),
        )  # fmt: skip
    return 0


@server_command(
    "extend", "kalends extend 5d0c1f2e --by 30m", "kalends extend 5d0c0000 --all --for 3h"
)
@click.argument("id")
@click.option("--by", metavar="DURATION", help="Added length, e.g. 30m.")
@click.option("--for", "duration", metavar="DURATION", help="New length, e.g. 3h.")
@_scope_options("Extend")
@_change_options
def extend(
    settings: Settings, id: str, by: str | None, duration: str | None, key: str, wait: str,
    **of_series: Unpack[SeriesFlags],
) -> int:  # fmt: skip
    """Make a reservation longer.

    Keeps the start. If any site refuses, the reservation stays as it was. SERIES@2027-03-09 is the occurrence
    of a series on that day.
    """
    wait_s = request_options.wait_s(wait)
    scope = _scope(id, of_series["following"], of_series["whole"])
    asked = _length_text("longer", by, duration)
    with settings.connect() as client:
        if scope.of_series:
            return _send_series(
                settings, client, scope, key, asked,
                lambda name, key: client.extend_series(
                    scope.id, name, by=by, duration=duration, following=scope.following, key=key,
                    wait_s=wait_s,
                ),
                scope.occurrence(client),
            )  # fmt: skip
        _send(
            settings, client, id, key, asked,
            lambda full, key: client.extend(full, by=by, duration=duration, key=key, wait_s=wait_s),
        )  # fmt: skip
    return 0


@server_command(
    "shrink", "kalends shrink 5d0c1f2e --by 30m", "kalends shrink 5d0c1f2e --units sdsc/sp2=32"
)
@click.argument("id")
@click.option("--by", metavar="DURATION", help="Removed length, e.g. 30m.")
@click.option("--for", "duration", metavar="DURATION", help="New length, e.g. 1h.")
@click.option("--units", "units", metavar="RES=N", multiple=True,
              help="Units kept of a resource, e.g. sdsc/sp2=32; may be repeated.")  # fmt: skip
@_scope_options("Shrink")
@_change_options
def shrink(
    settings: Settings, id: str, by: str | None, duration: str | None, units: tuple[str, ...], key: str,
    wait: str, **of_series: Unpack[SeriesFlags],
) -> int:  # fmt: skip
    """Make a reservation shorter or smaller.

    Keeps the start. SERIES@2027-03-09 is the occurrence of a series on that day.
    """
    wait_s = request_options.wait_s(wait)
    scope = _scope(id, of_series["following"], of_series["whole"])
    kept = _units_kept(units)
    asked = [_length_text("shorter", by, duration)] if by or duration or not kept else []
    asked += [f"to {count} of {resource}" for resource, count in kept.items()]
    with settings.connect() as client:
        if scope.of_series:
            return _send_series(
                settings, client, scope, key, ", ".join(asked),
                lambda name, key: client.shrink_series(
                    scope.id, name, by=by, duration=duration, units=kept, following=scope.following,
                    key=key, wait_s=wait_s,
                ),
                scope.occurrence(client),
            )  # fmt: skip
        _send(
            settings, client, id, key, ", ".join(asked),
            lambda full, key: client.shrink(
                full, by=by, duration=duration, units=kept, key=key, wait_s=wait_s
            ),
        )  # fmt: skip
    return 0
