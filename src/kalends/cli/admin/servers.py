"""Running servers: ``kalends admin audit``, ``bids``, ``reconcile``, ``drain`` and ``undrain``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
from msgspec import structs

from kalends.cli.admin._store_arguments import AnyStoreArgument, address_of
from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.core.durations import parse_duration
from kalends.core.errors import Unavailable
from kalends.core.full_times import format_time

if TYPE_CHECKING:
    from pathlib import Path

    from kalends.cli.console.settings import Settings
    from kalends.client.sync import SyncClient
    from kalends.contract.calls import (
        AuditClaim,
        Audited,
        AuditRecord,
        Bidders,
        BidderView,
        LostReservation,
        Reconciled,
    )


@server_command(
    "audit", "kalends admin audit", "kalends admin audit --broker http://127.0.0.1:7101 --json"
)
def audit(settings: Settings) -> int:
    """Check all claims or decisions of a server.

    Calls the site or broker at --broker and needs the scope audit. The exit code is 1 if an invariant
    does not hold. Also lists problems that have ended since the last start; they do not change the exit code.
    A broker also compares its decisions with the locks of every site; `kalends admin reconcile` repairs
    differences. With --json, prints every claim and decision.
    """
    with settings.connect() as client:
        audited = _everything(client)
    output.answer(settings, "audited", audited, lambda: _audit_lines(audited))
    return 1 if audited.problems else 0


def _everything(client: SyncClient) -> Audited:
    claims: list[AuditClaim] = []
    records: list[AuditRecord] = []
    problems: list[str] = []
    unreached: tuple[str, ...] = ()
    after = ""
    while True:
        page = client.audit(after)
        unreached = unreached or page.unreached
        claims += page.claims
        records += page.records
        problems += [problem for problem in page.problems if problem not in problems]
        ids = [*(claim.id for claim in page.claims), *(record.id for record in page.records)]
        if not page.more or not ids:
            break
        after = max(ids)
    return structs.replace(
        page, claims=tuple(claims), records=tuple(records), problems=tuple(problems),
        unreached=unreached, more=False,
    )  # fmt: skip


def _audit_lines(audited: Audited) -> list[str]:
    counts = Counter(f"claims {claim.state}" for claim in audited.claims)
    counts.update(f"decisions {record.state}" for record in audited.records)
    return [
        *(f"{name}: {count}" for name, count in sorted(counts.items())),
        *(f"problem: {problem}" for problem in audited.problems),
        *(f"has ended: {problem}" for problem in audited.settled),
        *(f"{site}: not reached, so not compared" for site in audited.unreached),
        _how_many(len(audited.problems)),
    ]


def _how_many(problems: int) -> str:
    if not problems:
        return "all invariants hold"
    return "1 problem" if problems == 1 else f"{problems} problems"


@server_command("bids", "kalends admin bids", "kalends admin bids --json")
def bids(settings: Settings) -> None:
    """Show statistics of the sites' bids.

    Counts since the start of the broker. CHOSEN bids were the best; PLACED are the jobs that then got a
    place. THERE counts the jobs that should still be there. Calls the broker and needs the scope audit.
    """
    with settings.connect() as client:
        found = client.bidders()
    zone = settings.time_zone()
    output.answer(settings, "bidders", found, lambda: list(_bidder_lines(found, zone)))


def _bidder_lines(found: Bidders, zone: ZoneInfo) -> Iterator[str]:
    yield from output.rows(
        (
            "SITE", "STATE", "ASKED", "BID", "LATE", "SILENT", "REFUSED", "CHOSEN", "PLACED", "THERE",
            "NEXT END",
        ),
        [
            (
                each.status.site, each.status.state, each.asked, each.bid, each.late, each.silent,
                _reasons(each), each.chosen, each.placed, each.there,
                short_time(each.next_end, zone) if each.next_end else "-",
            )
            for each in found.bidders
        ],
    )  # fmt: skip
    if found.herd:
        yield ""
        yield f"The busiest tenth of the sites got {found.herd:.0%} of all questions."


def _reasons(view: BidderView) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(view.refused.items())) or "0"


@server_command(
    "reconcile", "kalends admin reconcile --wait 30", "kalends admin reconcile site.sqlite"
)
@click.argument("store", required=False, type=AnyStoreArgument())
@click.option(
    "--wait",
    "wait_s",
    type=WholeNumber(0, 60),
    default=60,
    metavar="SECONDS",
    help="Time to wait for the answers of sites.  [default: 60s]",
)
@click.option(
    "--go-on", is_flag=True, help="Accept new bookings before all sites have been compared."
)
def reconcile(settings: Settings, store: Path | str | None, wait_s: int, go_on: bool) -> int:  # fmt: skip
    """Compare a broker with its sites and repair differences.

    At a broker (scope admin), compares its register with every site. Locks slots again that a site has lost
    if they are free, frees cancelled slots, and restores lost entries of the register. Losses that
    cannot be repaired are listed with their users and the requests in the way; the exit code is then 1.
    A comparison continues after --wait: call again for its result; the exit code is then 75.
    A broker whose register was restored from a backup accepts no new requests until all is compared, or
    until --go-on.

    At a site whose store was restored from a backup, lists the registers that are not compared yet and
    the number of reservations at risk. With --go-on the site stops waiting for them.

    With STORE, a file or the URL of a PostgreSQL database, accepts a backup in place of a store while no
    server uses it. The server started on it accepts no new claims until everything is compared.
    """
    if store is not None:
        if go_on:
            raise click.UsageError("--go-on is for a running server, not for a STORE.")
        if isinstance(store, str):
            return _accept_database(settings, store)
        return _accept(settings, store)
    with settings.connect() as client:
        reconciled = client.reconcile(wait_s=wait_s, go_on=go_on)
    output.answer(settings, "reconciled", reconciled, lambda: _reconciled_lines(reconciled))
    if any(site.lost for site in reconciled.sites) or reconciled.unreached:
        return 1
    if reconciled.comparing:
        return Unavailable.exit_code
    return 1 if reconciled.recovering else 0


def _accept(settings: Settings, store: Path) -> int:
    with server_parts():
        from kalends.cli.admin._store_kinds import KINDS
        from kalends.stores.sqlite import maintenance
    epoch = maintenance.reconcile(store, KINDS)
    report = {"store": str(store), "epoch": epoch}
    output.answer(settings, "reconcile", report, lambda: [f"accepted {store}, epoch {epoch}"])
    return 0


def _accept_database(settings: Settings, url: str) -> int:
    address = address_of(url)
    # Imported here because of the driver, which other stores do not need.
    from kalends.broker.register.postgres.postgres_register import accept_restored
    from kalends.broker.register.postgres.register_schema import REGISTER
    from kalends.stores.postgres.migrations import accept_cluster, kind_of

    if kind_of(address) == REGISTER.kind:
        accept_restored(address)
    else:
        # What a site may have forgotten, the marks of its brokers tell.
        accept_cluster(address)
    report = {"store": address.shown}
    output.answer(settings, "reconcile", report, lambda: [f"accepted {address.shown}"])
    return 0


def _reconciled_lines(reconciled: Reconciled) -> list[str]:
    lines = []
    for site in reconciled.sites:
        lines.append(
            f"{site.site}: {site.compared} compared, {site.relocked} locked again,"
            f" {site.cancelled} cancelled ones freed, {site.recovered} restored in the register,"
            f" {len(site.lost)} lost"
        )
        lines += map(_lost_line, site.lost)
    lines += [
        f"{site}: still comparing, {count} compared so far; ask again for the result"
        for site, count in reconciled.comparing.items()
    ]
    lines += [f"{site}: not reached" for site in reconciled.unreached]
    lines += [
        f"register {register}: not compared, {count} reservations at risk"
        for register, count in sorted(reconciled.at_risk.items())
    ]
    if reconciled.recovering:
        lines.append(
            "the site accepts nothing new until all of them have compared, or with --go-on"
        )
    return lines or ["nothing to compare"]


def _lost_line(lost: LostReservation) -> str:
    what = ", ".join(f"{want.units} of {want.resource}" for want in lost.wants)
    return f"  lost: {lost.id} of {lost.user}: {what}; in the way: {', '.join(lost.blockers)}"


@server_command("drain", "kalends admin drain", "kalends admin drain --for 2h")
@click.option(
    "--for", "length", metavar="DURATION", default="", help="Length of the drain, e.g. 2h."
)
@click.option(
    "--until", metavar="TIME", default="", help="End of the drain, e.g. 18:00.  [default: none]"
)
def drain(settings: Settings, length: str, until: str) -> None:
    """Refuse new claims; keep promises.

    Without --for or --until, the drain lasts until `kalends admin undrain`. Calls the site or broker at
    --broker and needs the scope admin.
    """
    if length and until:
        raise click.UsageError("Give --for or --until, not both.")
    if length:
        parse_duration(length, where="--for")
        until = f"in {length}"
    _drain(settings, on=True, until=until)


@server_command(
    "undrain", "kalends admin undrain", "kalends admin undrain --broker http://127.0.0.1:7101"
)
def undrain(settings: Settings) -> None:
    """Accept new claims again.

    Calls the site or broker at --broker and needs the scope admin.
    """
    _drain(settings, on=False)


def _drain(settings: Settings, *, on: bool, until: str = "") -> None:
    zone = settings.time_zone()
    with settings.connect() as client:
        health = client.drain(on, until=client.time_s(until, where="--until") if until else None)
    end = f" until {format_time(health.until, zone)}" if health.until else ""
    line = f"{health.role} {health.name}: {health.status}{end}"
    output.answer(settings, "health", health, lambda: [line])
