"""A site that is closed for a time: ``kalends admin close`` and ``open``."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.settings import Settings
from kalends.contract.owner_calls import Closures, ClosureView, Standing
from kalends.contract.owner_texts import reservation_lines
from kalends.core.durations import format_duration
from kalends.core.times import format_time


@server_command(
    "close",
    "kalends admin close --for 2d --reason 'water in the hall'",
    "kalends admin close sdsc/sp2 --at 'fri 08:00' --for 4h --dry-run",
)
@click.argument("resources", nargs=-1)
@click.option(
    "--at", metavar="TIME", default="now", help="Start, e.g. 'fri 08:00'.  [default: now]"
)
@click.option("--for", "length", metavar="DURATION", default="", help="Length, e.g. 2d.")
@click.option(
    "--standing",
    type=click.Choice(["keep", "move", "cancel"]),
    default="keep",
    help="Outcome for the reservations in that time.  [default: keep]",
)
@click.option("--reason", metavar="TEXT", default="", help="Reason for the users, e.g. repair.")
@click.option(
    "--key", default="", metavar="KEY", help="Key of a closure, to change it.  [default: a new one]"
)
@click.option("--dry-run", is_flag=True, help="List the reservations in that time; change nothing.")
def close(
    settings: Settings, resources: tuple[str, ...], at: str, length: str, standing: Standing,
    reason: str, key: str, dry_run: bool,
) -> None:  # fmt: skip
    """Close a site, or some resources, for a time.

    Accepts nothing new in that time, and shows the reservations in it. They are kept, moved as by a reclaim,
    or cancelled as a whole, even those that have begun. To change the outcome later, give --key without
    --for. Calls the site at --broker and needs the scope admin.
    """
    if not (length or key):
        raise click.UsageError("Give --for; or --key of a closure, to change it.")
    with settings.connect() as client:
        key = key or client.new_key()
        if not dry_run:
            output.say(f"{'key':8} {key}", error=True)
        view = client.close_site(
            resources, at=at, duration=length or None, standing=standing, reason=reason,
            dry_run=dry_run, key=key,
        )  # fmt: skip
    zone = settings.time_zone()
    output.answer(settings, "closure", view, lambda: closure_lines(view, zone, dry_run=dry_run))


@server_command(
    "open",
    "kalends admin open",
    "kalends admin open 673ba8f8-d9a3-48be-9394-4080cc7feafa",
)
@click.argument("key", required=False, default="")
def open_again(settings: Settings, key: str) -> None:
    """Open what was closed: one closure, or all.

    Moved and cancelled reservations stay so. Calls the site at --broker and needs the scope admin.
    """
    with settings.connect() as client:
        found = client.open_site(key)
    zone = settings.time_zone()
    output.answer(
        settings,
        "closures",
        Closures(closures=found),
        lambda: [f"open again: {_title(each, zone)}" for each in found] or ["nothing was closed"],
    )


def closure_lines(view: ClosureView, zone: ZoneInfo, *, dry_run: bool = False) -> list[str]:
    """Describe the closure, and each resource with reservations in it."""
    lines = [f"{'would be closed' if dry_run else 'closed'}: {_title(view, zone)}"]
    if view.reason:
        lines.append(f"  {'reason':8} {view.reason}")
    met = [part for part in view.parts if part.reservations]
    lines.append(f"  {'stands':8} {sum(len(part.reservations) for part in met) or 'nothing'}")
    for part in met:
        lines += [
            f"  {part.resource}",
            *reservation_lines(part, zone, output.rows, dry_run=dry_run),
        ]
    return lines


def _title(view: ClosureView, zone: ZoneInfo) -> str:
    names = [part.resource for part in view.parts]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")
    length = format_duration(view.end - view.start)
    return f"{listed} from {format_time(view.start, zone)} for {length}"
