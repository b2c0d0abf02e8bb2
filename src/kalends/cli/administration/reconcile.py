"""``kalends admin reconcile``: compare a broker with its sites and repair differences."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.contract.calls import LostReservation, Reconciled
from kalends.core.errors import Unavailable


@click.command(
    "reconcile",
    cls=ServerCommand,
    examples=(
        "kalends admin reconcile --wait 30",
        "kalends admin reconcile site.sqlite",
    ),
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
@pass_settings
def command(settings: Settings, store: Path | None, wait_s: int, go_on: bool) -> int:  # fmt: skip
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
    output.answer(settings, "reconciled", reconciled, lambda: _lines(reconciled))
    if any(site.lost for site in reconciled.sites) or reconciled.unreached:
        return 1
    if reconciled.comparing:
        return Unavailable.exit_code
    return 1 if reconciled.recovering else 0


def _accept(settings: Settings, store: Path) -> int:
    with server_parts():
        from kalends.cli.administration._store_kinds import KINDS
        from kalends.stores.sqlite.maintenance import reconcile
    epoch = reconcile(store, KINDS)
    report = {"store": str(store), "epoch": epoch}
    output.answer(settings, "reconcile", report, lambda: [f"accepted {store}, epoch {epoch}"])
    return 0


def _lines(reconciled: Reconciled) -> list[str]:
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
