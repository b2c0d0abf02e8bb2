"""Sites of a broker: ``kalends admin sites list``, ``add``, ``remove``, ``card`` and ``announce``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import local_command, server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings
from kalends.contract.site_calls import BrokerSites, BrokerSiteView

_File = click.Path(exists=True, dir_okay=False, path_type=Path)


@server_command("list", "kalends admin sites list", "kalends admin sites list --json")
def list_sites(settings: Settings) -> None:
    """List the sites of a broker, and those that were announced.

    KEY is the id of the key that signed the card of the site. Calls the broker and needs the scope audit.
    """
    with settings.connect() as client:
        found = client.broker_sites()
    zone = settings.time_zone()
    output.answer(settings, "broker_sites", BrokerSites(sites=found), lambda: _listing(found, zone))


@local_command(
    "card",
    "kalends admin sites card sdsc --url https://a.example --key people > sdsc.card",
    "kalends admin sites card sdsc --url http://127.0.0.1:7101 --key people",
)
@click.argument("site")
@click.option(
    "--url",
    metavar="URL",
    required=True,
    help="Address of the site, or several, separated by commas.",
)
@click.option(
    "--key",
    type=_File,
    required=True,
    metavar="FILE",
    help="Private key of the site, from `kalends admin key`.",
)
@click.option(
    "--authority",
    type=_File,
    metavar="FILE",
    help="Certificates, in PEM form, that sign the one of the site.  [default: a public authority]",
)
@click.option(
    "--no-passes", is_flag=True, help="Say that the site accepts no users' passes of the broker."
)
def card(
    settings: Settings, site: str, url: str, key: Path, authority: Path | None, no_passes: bool
) -> None:
    """Print the signed card of a site, for operators of brokers.

    Give the operator the printed id of the key in another way than the card. A later card by the same key
    may name other addresses. List the public key of the broker at the site first, with the scope broker.
    """
    with server_parts():
        from kalends.serving.auth.keys import load_private_key
        from kalends.serving.auth.public_keys import key_id
        from kalends.serving.auth.site_cards import sign_card
    private = load_private_key(key)
    signed = sign_card(
        private, name=site, url=url, ca=authority.read_text() if authority is not None else "",
        passes=not no_passes, now_s=int(time.time()),
    )  # fmt: skip
    made = {"site": site, "key": key_id(private.public_key()), "card": signed}
    output.answer(settings, "card", made, lambda: [signed])
    output.say(f"the card of {site} is signed by the key {made['key']}", error=True)


@server_command(
    "announce",
    "kalends admin sites announce sdsc --card sdsc.card",
    "kalends admin sites announce sdsc --card sdsc.card --json",
)
@click.argument("site")
@click.option("--card", type=_File, required=True, metavar="FILE", help="Card of the site.")
def announce(settings: Settings, site: str, card: Path) -> None:
    """Show the card of your site to the operators of a broker.

    If an operator has added the site before, the broker uses the addresses of a newer card by the same key
    at once. Calls the broker and needs the scope use.
    """
    with settings.connect() as client:
        view = client.announce_site(site, card.read_text())
    output.answer(settings, "broker_site", view, lambda: _announced(view))


@server_command(
    "add",
    "kalends admin sites add sdsc --key 4mfXyQn6XjV0pGv2zrYTyTHmEoOeOk5tt0h5pEUb",
    "kalends admin sites add sdsc --card sdsc.card",
)
@click.argument("site")
@click.option(
    "--key",
    default="",
    metavar="ID",
    help="Id of the key of the site, as its owner has told you; needed without --card.",
)
@click.option(
    "--card", type=_File, metavar="FILE", help="Card of the site.  [default: as announced]"
)
def add(settings: Settings, site: str, key: str, card: Path | None) -> None:
    """Add a site to a broker that runs.

    Connects to the site first, and adds nothing if that fails. All replicas of the broker book there some
    seconds later, also after a restart. Calls the broker and needs the scope admin.
    """
    with settings.connect() as client:
        view = client.add_site(site, key=key, card=card.read_text() if card is not None else "")
    output.answer(settings, "broker_site", view, lambda: [f"{view.site} has joined: {view.url}"])


@server_command(
    "remove", "kalends admin sites remove sdsc", "kalends admin sites remove sdsc --json"
)
@click.argument("site")
@click.option(
    "--key", default="", metavar="ID", help="Key of the cards to forget, of an announced site."
)
def remove(settings: Settings, site: str, key: str) -> None:
    """Book nothing more at a site, and forget it once all there has ended.

    Reservations and jobs there stay as they are: users can use and cancel them. A site that was only
    announced is forgotten at once. Calls the broker and needs the scope admin.
    """
    with settings.connect() as client:
        view = client.remove_site(site, key=key)
    zone = settings.time_zone()
    output.answer(settings, "broker_site", view, lambda: _removed(view, zone))


def _listing(sites: Sequence[BrokerSiteView], zone: ZoneInfo) -> list[str]:
    return rows(
        ("SITE", "STATE", "CONNECTED", f"SINCE ({zone.key})", "BY", "KEY", "URL"),
        [
            (
                each.site, each.state, _connected(each),
                short_time(each.since, zone) if each.since else "-", each.named_by or "-",
                each.key or "-", each.url,
            )
            for each in sites
        ],
    )  # fmt: skip


def _connected(site: BrokerSiteView) -> str:
    if site.state == "announced":
        return "-"
    return "yes" if site.up else f"no: {site.detail}"


def _announced(view: BrokerSiteView) -> list[str]:
    if view.state == "announced":
        return [f"{view.site} waits for the operator of the broker; its key is {view.key}"]
    return [f"{view.site} has joined before: its address is now {view.url}"]


def _removed(view: BrokerSiteView, zone: ZoneInfo) -> list[str]:
    if view.state == "announced":
        return [f"the cards of {view.site} are forgotten"]
    until = short_time(view.until, zone)
    return [
        f"{view.site} gets no new bookings; {view.reservations} requests are booked there",
        f"  it is forgotten once they have ended, not before {until} ({zone.key})",
    ]
