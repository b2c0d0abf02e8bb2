"""Credit of users and projects at a site: ``kalends admin credits grant``, ``take``, ``list``, ``export``."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.settings import Settings
from kalends.cli.jobs.tables import write_table
from kalends.contract.credit_calls import CreditAccount, CreditAccounts, CreditEntryView
from kalends.core.limits import TIME_S_MAX
from kalends.core.money import format_credits, parse_credits

_NOTE = click.option("--note", metavar="TEXT", default="", help="Note for the statement.")
_KEY = click.option(
    "--key",
    default="",
    metavar="KEY",
    help="Idempotency key: a repeated call with the same key counts once.  [default: a new one]",
)


COLUMNS = (
    "number", "at", "account", "what", "credits", "parts", "balance", "request", "user", "key", "note",
)  # fmt: skip


@server_command(
    "grant",
    "kalends admin credits grant user:ann 40",
    "kalends admin credits grant project:dna 500 --until 2027-01-01",
)
@click.argument("account")
@click.argument("amount")
@click.option("--from", "start", metavar="TIME", default="", help="Earliest slot time to pay for.")
@click.option("--until", metavar="TIME", default="", help="End of the slot times to pay for.")
@_NOTE
@_KEY
def grant(
    settings: Settings, account: str, amount: str, start: str, until: str, note: str, key: str
) -> None:
    """Grant credits to a user or a project.

    A grant with --until pays for slots before that time, whenever they are booked. Calls the site at --broker
    and needs the scope admin.
    """
    parts = parse_credits(amount, "AMOUNT")
    with settings.connect() as client:
        key = key or client.new_key()
        output.say(f"{'key':8} {key}", error=True)
        view = client.grant_credits(
            account, parts, start=start or None, until=until or None, note=note, key=key
        )
    zone = settings.time_zone()
    output.answer(settings, "credit_account", view, lambda: _lines([view], zone))


@server_command(
    "take",
    "kalends admin credits take user:ann 10",
    "kalends admin credits take project:dna 20 --note 'end of the course'",
)
@click.argument("account")
@click.argument("amount")
@_NOTE
@_KEY
def take(settings: Settings, account: str, amount: str, note: str, key: str) -> None:
    """Take granted credits back.

    Credits that are reserved or spent cannot be taken back. Calls the site at --broker and needs the scope
    admin.
    """
    parts = parse_credits(amount, "AMOUNT")
    with settings.connect() as client:
        key = key or client.new_key()
        output.say(f"{'key':8} {key}", error=True)
        view = client.take_credits(account, parts, note=note, key=key)
    zone = settings.time_zone()
    output.answer(settings, "credit_account", view, lambda: _lines([view], zone))


@server_command("list", "kalends admin credits list", "kalends admin credits list --json")
def list_credits(settings: Settings) -> None:
    """List accounts with their credit.

    RESERVED credits are promised to requests that are not decided yet. Without the scope audit, lists the
    accounts that you may charge. Calls the site at --broker.
    """
    with settings.connect() as client:
        found = client.credits()
    zone = settings.time_zone()
    output.answer(
        settings, "credit_accounts", CreditAccounts(accounts=found), lambda: _lines(found, zone)
    )


@server_command(
    "export",
    "kalends admin credits export user:ann > ann.csv",
    "kalends admin credits export project:dna --from 2026-10-01 --until 2026-11-01",
)
@click.argument("account")
@click.option("--from", "start", default="", metavar="TIME", help="Start of the period.")
@click.option("--until", default="", metavar="TIME", help="End of the period.")
def export(settings: Settings, account: str, start: str, until: str) -> None:
    """Print the entries of an account as CSV: all, or those of a period.

    Grants have their keys: `grant --key` enters a lost one again, and never twice. Calls the site at
    --broker.
    """
    with settings.connect() as client:
        entries = client.credit_entries(account, start=start or None, until=until or None)
    output.answer(settings, "credit_entries", {"entries": entries}, lambda: table(entries))


def _lines(accounts: Sequence[CreditAccount], zone: ZoneInfo) -> list[str]:
    if not accounts:
        return ["no account has any credit"]
    table = []
    for each in accounts:
        lots = [
            format_credits(lot.left)
            + (f" from {short_time(lot.start, zone)}" if lot.start else "")
            + (f" until {short_time(lot.until, zone)}" if lot.until < TIME_S_MAX else "")
            for lot in each.lots
        ]
        table.append(
            (
                each.account, format_credits(each.balance), format_credits(each.reserved),
                format_credits(each.debt), ", ".join(lots) or "-",
            )
        )  # fmt: skip
    header = ("ACCOUNT", "BALANCE", "RESERVED", "DEBT ALLOWED", "GRANTS")
    return rows(header, table, right=header[1:4])


def iso_time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def table(entries: Sequence[CreditEntryView]) -> list[str]:
    """Return `entries` as CSV, with a header."""
    text = io.StringIO()
    write_table(text, COLUMNS, map(cells, entries))
    return text.getvalue().splitlines()


def cells(each: CreditEntryView) -> tuple[object, ...]:
    """Return the row of an entry, for `COLUMNS`."""
    return (
        each.number, iso_time(each.at), each.account, each.kind, format_credits(each.amount),
        each.amount, format_credits(each.balance), each.request, each.user, each.key, each.note,
    )  # fmt: skip
