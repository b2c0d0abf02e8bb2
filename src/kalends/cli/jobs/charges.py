"""``kalends usage --charges``: costs of reservations and jobs at each owner, as sums and as a statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from kalends.cli.admin.credits import COLUMNS, cells
from kalends.cli.console import output, site_calls
from kalends.cli.console.output import short_time
from kalends.cli.console.settings import Settings
from kalends.cli.jobs.tables import opened, write_table
from kalends.contract.credit_calls import CreditAccount, CreditEntryView
from kalends.core.errors import NotFound, Unavailable
from kalends.core.money import format_credits

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient

_OfAccount = tuple[str, CreditAccount, tuple[CreditEntryView, ...]]
"""The owner, the account, and its entries of the period."""


def show_charges(
    settings: Settings, start: str, end: str, project: str, table: Path | None, *, everyone: bool
) -> None:
    """Ask each owner for the entries of the period; credits of two owners are never added up.

    An owner who does not answer is named, and the sums of the others are shown: then raises `Unavailable`. A
    statement is written of all owners, or not at all.
    """
    found: list[_OfAccount] = []
    zone = settings.time_zone()
    away: Unavailable | None = None
    for site in _owners(settings):
        try:
            with site_calls.site_client(settings, site) as client:
                found += _of_owner(client, site, (start, end), project, zone, everyone=everyone)
        except Unavailable as error:
            if table is not None:
                raise
            output.say(f"kalends: site {site} does not answer", error=True)
            away = error
    if away is not None and not found:
        raise away
    if project and not found:
        raise NotFound(
            f"no owner lets you charge a project {project}",
            where="--project",
            remedy="kalends usage --charges lists your accounts",
        )
    if table is not None:
        statement = [(site, *cells(each)) for site, _, entries in found for each in entries]
        with opened(table) as stream:
            count = write_table(stream, ("owner", *COLUMNS), statement)
        if table != Path("-"):
            output.say(f"{table}: {count} entries")
        return
    header = ("OWNER", "ACCOUNT", "CHARGED", "PAID BACK", "GRANTED", "BALANCE", "RESERVED")
    sums = [(site, account.account, _sums(account, entries)) for site, account, entries in found]
    told = [{"site": site, "account": account, **amounts} for site, account, amounts in sums]
    rows = [(site, name, *map(format_credits, each.values())) for site, name, each in sums]
    output.answer(
        settings, "charges", {"charges": told},
        lambda: output.rows(header, rows, right=header[2:]),
    )  # fmt: skip
    if away is not None:
        raise away


def _of_owner(
    client: SyncClient, site: str, period: tuple[str, str], project: str, zone: ZoneInfo, *,
    everyone: bool,
) -> list[_OfAccount]:  # fmt: skip
    """Return the accounts of an owner; says of which the period is not complete."""
    start_s, end_s = client.period_s(*period)
    found: list[_OfAccount] = []
    for each in client.credits(own=not everyone):
        if project and each.account != f"project:{project}":
            continue
        found.append((site, each, client.credit_entries(each.account, start=start_s, until=end_s)))
        if start_s < each.complete_from:
            since = short_time(each.complete_from, zone)
            output.say(
                f"kalends: entries of {each.account} at {site} before {since} are folded into one",
                error=True,
            )
    return found


def _sums(account: CreditAccount, entries: Sequence[CreditEntryView]) -> dict[str, int]:
    """Return the sums of the period, and what the account has now, in parts."""
    return {
        "charged": -_sum_of(entries, "charge"),
        "paid_back": _sum_of(entries, "refund"),
        "granted": _sum_of(entries, "grant", "take"),
        "balance": account.balance,
        "reserved": account.reserved,
    }


def _owners(settings: Settings) -> list[str]:
    """Return the sites of the broker, or the site that is asked itself."""
    with settings.connect() as client:
        health = client.health()
        if health.role == "site":
            return [health.name]
        return sorted(each.site for each in client.resources().sites)


def _sum_of(entries: Iterable[CreditEntryView], *kinds: str) -> int:
    return sum(each.amount for each in entries if each.kind in kinds)
