"""Bookings and resources of another system: ``kalends admin import bookings`` and ``resources``."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, problems
from kalends.cli.console.commands import local_command, server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings
from kalends.core.errors import NotAuthenticated, Problem, error_from_problem

if TYPE_CHECKING:
    from kalends.cli.admin.imported_resources import ImportedResource
    from kalends.client.client import Client
    from kalends.client.imports.bookings import ImportedRow

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show the outcome; change nothing.")

TOKEN_S: Final = 900
"""The life of a token for one user of the file; a longer import makes new ones."""

WORDS: Final = {
    "made": "booked", "free": "can be booked", "there": "there already", "waits": "waits",
    "over": "over, left out", "refused": "refused", "bad": "not understood",
}  # fmt: skip


@server_command(
    "bookings",
    "kalends admin import bookings old.csv --key people --dry-run",
    "kalends admin import bookings room.ics --key people --names names.csv",
)
@click.argument("file", type=FILE)
@click.option("--key", type=FILE, metavar="FILE", help="Private key that vouches for the users.")
@click.option(
    "--issuer", metavar="NAME", default="kalends", show_default=True, help="Issuer of the key."
)
@click.option(
    "--names",
    type=FILE,
    metavar="FILE",
    help="Table (CSV) with the columns there and here: users and resources, and their names here.",
)
@click.option(
    "--resource", metavar="NAME", default="", help="Resource of events (.ics) without a place."
)
@click.option("--stop", is_flag=True, help="Stop at the first row that cannot be booked.")
@DRY_RUN
def bookings(
    settings: Settings, file: Path, key: Path | None, issuer: str, names: Path | None,
    resource: str, stop: bool, dry_run: bool,
) -> int:  # fmt: skip
    """Book what another system has, for its users.

    Reads a table (CSV) with the columns resource, user, start and end, or a calendar (.ics). The owners'
    rules count for each row as for a booking by its user. Importing a file again books nothing twice. Calls
    the broker at --broker; without --key, a server that asks for no token.
    """
    from kalends.client.imports.booking_rows import read_bookings, read_names
    from kalends.client.imports.bookings import import_rows

    zone = settings.time_zone()
    read, ignored = read_bookings(
        file, zone=zone, now_s=int(time.time()), resource=resource,
        names=read_names(names) if names is not None else None,
    )  # fmt: skip
    if ignored:
        output.say(f"columns that are not read: {', '.join(ignored)}", error=True)
    as_user = _AsUsers(settings, key, issuer)
    try:
        done = asyncio.run(import_rows(read, as_user, dry_run=dry_run, stop=stop))
    except NotAuthenticated as error:
        error.where = "--key"
        error.remedy = (
            "give the private key of a key pair that the broker trusts: --key FILE"
            if key is None
            else "give a key that the broker lists, and with --issuer the issuer listed with it"
        )
        raise
    output.answer(settings, "imported", done, lambda: imported_lines(done, zone))
    failed = [each.problem for each in done if each.problem is not None]
    return error_from_problem(failed[0]).exit_code if failed else 0


class _AsUsers:
    """Makes clients that call as one of the users: by tokens of a key, or by name in open mode."""

    def __init__(self, settings: Settings, key: Path | None, issuer: str) -> None:
        self._settings = settings
        self._mint: Callable[..., str] | None = None
        if key is None:
            return
        with server_parts():
            from kalends.serving.auth.keys import load_private_key
            from kalends.serving.auth.tokens import mint
        with settings.connect() as client:
            server = client.health().name
        self._mint = partial(
            mint, load_private_key(key), audience=(server,), scopes=("use",), issuer=issuer,
            lifetime_s=TOKEN_S,
        )  # fmt: skip

    def __call__(self, user: str, groups: tuple[str, ...]) -> Client:
        from kalends.client.connection import connect

        sign, settings = self._mint, self._settings

        async def token() -> str:
            assert sign is not None
            return sign(user=user, groups=groups, now_s=int(time.time()))

        who = (user, groups, "") if sign is None else ("", (), token)
        return connect(
            settings.broker, user=who[0], groups=who[1], ca=settings.ca, zone=settings.zone,
            transport="http", token=who[2],
        )  # fmt: skip


def imported_lines(done: Sequence[ImportedRow], zone: ZoneInfo) -> list[str]:
    """Return a line for each row, with the reasons below it, and how many rows there are of each kind."""
    shown: list[str] = []
    table = rows(
        ("ROW", "OUTCOME", "USER", f"START ({zone.key})", "REQUEST", "ID"),
        [
            (
                each.where, WORDS[each.state], each.user or "-",
                short_time(each.start, zone) if each.start else "-", each.request or "-",
                each.id[-8:] or "-",
            )
            for each in done
        ],
    )  # fmt: skip
    for line, each in zip(table, (None, *done), strict=True):
        shown.append(line)
        if each is not None and each.problem is not None:
            shown += [f"  {one}" for one in _reason(each.problem)]
        elif each is not None and each.detail:
            shown.append(f"  {each.detail}")
    counts = Counter(WORDS[each.state] for each in done)
    return [*shown, ", ".join(f"{count} {word}" for word, count in counts.items()) or "no rows"]


def _reason(problem: Problem) -> list[str]:
    """Return why a row was not booked: the refusals, or the column and its fault."""
    if problem.refusals:
        return [one.strip() for one in problems.refusal_lines(problem.refusals)[1:]]
    where = f"{problem.where}: " if problem.where else ""
    first, *more = problem.detail.splitlines() or [problem.title]
    return [f"{where}{first}", *more]


@local_command(
    "resources",
    "kalends admin import resources rooms.csv site.toml --dry-run",
    "kalends admin import resources rooms.csv site.toml",
)
@click.argument("file", type=FILE)
@click.argument("configuration", type=FILE)
@DRY_RUN
def resources(settings: Settings, file: Path, configuration: Path, dry_run: bool) -> int:
    """Add the resources of a table to a site's configuration.

    Reads a table (CSV) with the column name, and others that a resource may have: capacity, zone, grain,
    horizon, description. Any further column is an attribute. Resources that are there already stay as they
    are. Reload the site afterwards.
    """
    with server_parts():
        from kalends.cli.admin.imported_resources import import_resources
    done = import_resources(file, configuration, dry_run=dry_run)
    output.answer(settings, "imported_resources", done, lambda: resource_lines(done, dry_run))
    return 2 if any(each.problem for each in done) else 0


def resource_lines(done: Sequence[ImportedResource], dry_run: bool) -> list[str]:
    words = {"made": "would be added" if dry_run else "added", "there": "there already"}
    return [
        f"line {each.line}: {each.name or '-'}: {each.problem or words[each.state]}"
        for each in done
    ] or ["no rows"]
