"""Check-in for a reservation: ``kalends checkin``."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.settings import Settings
from kalends.cli.console.site_calls import site_client
from kalends.contract.owner_calls import CheckedIn
from kalends.core.errors import NotFound
from kalends.core.identifiers import short_id, split_resource
from kalends.core.times import format_time


@server_command("checkin", "kalends checkin 5d0c1f2e", "kalends checkin 5d0c1f2e --site sdsc")
@click.argument("id")
@click.option(
    "--site", metavar="SITE", default="", help="One site, e.g. sdsc.  [default: all of them]"
)
def checkin(settings: Settings, id: str, site: str) -> None:
    """Check in: you came for a reservation.

    Owners may give back slots without a check-in. From half an hour before the start until the end,
    checks in at each site of the reservation, or at the site at --broker. An owner may check in any user. A
    repeated call does no harm.
    """
    with settings.connect() as client:
        at_site = client.health().role == "site"
        sites = [site] if site else [""]
        if not (at_site or site):
            view = client.show(id)
            id, sites = view.id, list({split_resource(e.resource)[0]: None for e in view.claims})
    if not sites:
        raise NotFound("the reservation has no slots", where="ID", remedy="kalends show shows it")
    came = []
    for name in sites:
        with site_client(settings, name) if name else settings.connect() as there:
            came.append(there.check_in(id))
    zone = settings.time_zone()
    output.answer(settings, "check_ins", came, lambda: [_line(each, zone) for each in came])


def _line(done: CheckedIn, zone: ZoneInfo) -> str:
    resources = ", ".join(dict.fromkeys(each.resource for each in done.slots))
    came = format_time(done.came_at, zone)
    return f"{short_id(done.id)} of {done.user} has come to {resources} at {came}"
