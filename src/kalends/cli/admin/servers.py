"""Running servers: ``kalends admin audit``, ``sites``, ``reconcile``, ``drain`` and ``undrain``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
from msgspec import structs

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.core.errors import Unavailable

if TYPE_CHECKING:
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


@server_command("sites", "kalends admin sites", "kalends admin sites --json")
def sites(settings: Settings) -> None:
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
@click.argument(
    "store", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
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
def reconcile(settings: Settings, store: Path | None, wait_s: int, go_on: bool) -> int:  # fmt: skip
    """Compare a broker with its sites and repair differences.

    At a broker (scope admin), compares its register with every site. Locks slots again that a site has lost
    if they are free, frees cancelled slots, and restores lost entries of the register. Losses that
    cannot be repaired are listed with their users and the requests in the way; the exit code is then 1.
    A comparison continues after --wait: call again for its result; the exit code is then 75.
    A broker whose register was restored from a backup accepts no new requests until all is compared, or
    until --go-on.

    At a site whose store was restored from a backup, lists the registers that are not compared yet and
    the number of reservations at risk. With --go-on the site stops waiting for them.

    With STORE, accepts a backup in place of a store while no server uses it. The server started on it
    accepts no new claims until everything is compared.
    """
    if store is not None:
        if go_on:
            raise click.UsageError("--go-on is for a running server, not for a STORE.")
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


def _intake_command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command that opens or closes the server at --broker to new claims."""
    call = f"kalends admin {name}"
    return server_command(name, call, f"{call} --broker http://127.0.0.1:7101")


@_intake_command("drain")
def drain(settings: Settings) -> None:
    """Refuse new claims; keep promises.

    Calls the site or broker at --broker and needs the scope admin. `kalends admin undrain` ends it.
    """
    _drain(settings, on=True)


@_intake_command("undrain")
def undrain(settings: Settings) -> None:
    """Accept new claims again.

    Calls the site or broker at --broker and needs the scope admin.
    """
    _drain(settings, on=False)


def _drain(settings: Settings, *, on: bool) -> None:
    with settings.connect() as client:
        health = client.drain(on)
    output.answer(
        settings, "health", health, lambda: [f"{health.role} {health.name}: {health.status}"]
    )
