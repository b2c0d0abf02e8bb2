"""``kalends admin reconcile``: compare what broker and sites have of each other, and mend it."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli import _output
from kalends.cli._server_parts import server_parts
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.contract.calls import LostReservation, Reconciled


@click.command("reconcile", cls=ServerCommand)
@click.argument(
    "store", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, 60),
    default=60.0,
    metavar="SECONDS",
    help="How long to wait for the sites' answers.  [default: 60]",
)
@click.option(
    "--go-on", is_flag=True, help="Take new bookings again, though not all has been compared."
)
@pass_settings
def command(settings: Settings, store: Path | None, wait_s: float, go_on: bool) -> int:  # fmt: skip
    """Compare broker and sites, and mend what differs.

    Asked of a broker (scope admin): its register is compared with every site. What a site has
    forgotten is locked again where it is free; what was cancelled and is still there is freed; what
    the register has forgotten is written down again. What cannot be made good is named, with the
    user it was promised to and the requests that stand in the way: then the exit code is 1. A broker
    whose own register was put back takes nothing new until this is done; --go-on ends that.

    Asked of a site: which registers have not compared yet since an older image of its store was put
    back, and how many reservations are at risk. With --go-on nobody is waited for any more.

    With STORE: a backup that was put in the place of a store is accepted. Call it while no server
    uses the store; started on it, the server takes nothing new until all has been compared.
    """
    if store is not None:
        if go_on:
            raise click.UsageError("--go-on is asked of a server that runs, not of a STORE")
        return _accept(settings, store)
    with settings.connect() as client:
        reconciled = client.reconcile(wait_s=wait_s, go_on=go_on)
    _output.answer(settings, "reconciled", reconciled, lambda: _lines(reconciled))
    unfinished = any(site.lost for site in reconciled.sites) or reconciled.unreached
    return 1 if unfinished or reconciled.recovering else 0


def _accept(settings: Settings, store: Path) -> int:
    with server_parts():
        from kalends.stores.sqlite.maintenance import reconcile
    epoch = reconcile(store)
    report = {"store": str(store), "epoch": epoch}
    _output.answer(settings, "reconcile", report, lambda: [f"{store} is accepted, epoch {epoch}"])
    return 0


def _lines(reconciled: Reconciled) -> list[str]:
    lines = []
    for site in reconciled.sites:
        lines.append(
            f"{site.site}: {site.compared} compared, {site.relocked} locked again,"
            f" {site.cancelled} ghosts freed, {site.recovered} written down again,"
            f" {len(site.lost)} lost"
        )
        lines += map(_lost_line, site.lost)
    lines += [f"{site}: not reached, or not finished yet" for site in reconciled.unreached]
    lines += [
        f"register {register}: not compared, {count} reservations at risk"
        for register, count in sorted(reconciled.at_risk.items())
    ]
    if reconciled.recovering:
        lines.append("nothing new is taken until all of them have compared, or with --go-on")
    return lines or ["nothing is to be compared"]


def _lost_line(lost: LostReservation) -> str:
    what = ", ".join(f"{want.units} of {want.resource}" for want in lost.wants)
    return f"  lost: {lost.id} of {lost.user}: {what}; in the way: {', '.join(lost.blockers)}"
