"""``kalends notify``: the addresses for notices."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.settings import Settings
from kalends.contract.notice_calls import NoticeAddressView
from kalends.core.durations import format_duration


@server_command("list", "kalends notify list", "kalends notify list --json")
def list_addresses(settings: Settings) -> None:
    """List the addresses for your notices."""
    zone = settings.time_zone()
    with settings.connect() as client:
        found = client.notice_addresses()
    output.answer(settings, "notices", found, lambda: _address_listing(found, zone))


@server_command(
    "add", "kalends notify add", "kalends notify add https://hooks.example.org/kalends --remind 1h"
)
@click.argument("to", default="", metavar="[ADDRESS|URL]")
@click.option(
    "--remind",
    metavar="DURATION",
    help="Time from a reminder to the start of each reservation, e.g. 1h.  [default: none]",
)
def add(settings: Settings, to: str, remind: str | None) -> None:
    """Add a mail address or a webhook for notices.

    You get a notice if an owner or operator moves, shortens or cancels your reservation or job, if a hold is
    recalled, if a request leaves its waiting lists, and if a job must leave its site. Without ADDRESS, mail
    goes to the address that the broker's operator has for you. For a webhook, prints once the secret that
    signs its calls.
    """
    with settings.connect() as client:
        view = client.add_notice_address(to, zone=settings.time_zone(), remind=remind)
    output.answer(settings, "notice", view, lambda: _added_lines(view))


@server_command("remove", "kalends notify remove", "kalends notify remove ann@uni.example")
@click.argument("to", default="", metavar="[ADDRESS|URL]")
def remove(settings: Settings, to: str) -> None:
    """Remove an address for notices.

    Drops notices for this address that were not sent yet.
    """
    with settings.connect() as client:
        view = client.remove_notice_address(to)
    output.answer(settings, "notice", view, lambda: [f"removed {view.to}"])


@server_command(
    "test", "kalends notify test", "kalends notify test https://hooks.example.org/kalends"
)
@click.argument("to", default="", metavar="[ADDRESS|URL]")
def test(settings: Settings, to: str) -> None:
    """Send yourself a test notice.

    Like all notices, it arrives within some seconds if the receiver answers.
    """
    with settings.connect() as client:
        view = client.test_notice_address(to)
    output.answer(settings, "notice", view, lambda: [f"sending a test notice to {view.to}"])


def _address_listing(views: Iterable[NoticeAddressView], zone: ZoneInfo) -> list[str]:
    """Return a row for each address; the last column gives the reason if no notice is sent there."""
    return rows(
        ("TO", "BY", "TIMES IN", "REMINDER", f"SINCE ({zone.key})", "PROBLEM"),
        [
            (
                view.to or "-",
                view.kind,
                view.zone,
                f"{format_duration(view.remind_s)} before" if view.remind_s else "-",
                short_time(view.added_at, zone),
                view.problem or "-",
            )
            for view in views
        ],
    )


def _added_lines(view: NoticeAddressView) -> list[str]:
    """Describe a new address; the secret of a webhook is shown only here."""
    lines = [f"notices go to {view.to}, with times in {view.zone}"]
    if view.remind_s:
        lines.append(f"reminders come {format_duration(view.remind_s)} before a reservation begins")
    if view.secret:
        lines += [f"  secret   {view.secret}", "keep it: it is not shown again"]
    return lines
