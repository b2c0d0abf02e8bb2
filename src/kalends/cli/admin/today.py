"""An owner's day: ``kalends today``."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.settings import Settings
from kalends.cli.console.site_calls import SITE_HELP, site_client
from kalends.contract.day_text import day_lines


@server_command("today", "kalends today", "kalends today --site sdsc --day tomorrow --json")
@click.option(
    "--site", metavar="SITE", default="", help=f"{SITE_HELP}  [default: the one at --broker]"
)
@click.option("--day", metavar="DAY", default="", help="Another day, e.g. 2027-03-01 or tomorrow.")
def today(settings: Settings, site: str, day: str) -> None:
    """Show an owner's day: who comes, what waits, what changed.

    Times are in the zone of the site's resources, or in --zone. Calls the site and needs the scope admin.
    """
    zone = settings.given.get("zone", "")
    with site_client(settings, site) if site else settings.connect() as client:
        view = client.today(day=day, zone=zone)
    output.answer(settings, "day", view, lambda: day_lines(view, output.rows))
