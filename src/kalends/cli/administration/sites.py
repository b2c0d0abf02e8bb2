"""``kalends admin sites``: statistics of the bids of a broker's sites."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.contract.calls import Bidders, BidderView


@click.command(
    "sites", cls=ServerCommand, examples=("kalends admin sites", "kalends admin sites --json")
)
@pass_settings
def command(settings: Settings) -> None:
    """Show statistics of the sites' bids.

    Counts since the start of the broker. CHOSEN bids were the best; PLACED are the jobs that then got a
    place. THERE counts the jobs that should still be there. Calls the broker and needs the scope audit.
    """
    with settings.connect() as client:
        found = client.bidders()
    zone = settings.time_zone()
    output.answer(settings, "bidders", found, lambda: list(_lines(found, zone)))


def _lines(found: Bidders, zone: ZoneInfo) -> Iterator[str]:
    yield from output.rows(
        (
            "SITE", "STATE", "ASKED", "BID", "LATE", "SILENT", "REFUSED", "CHOSEN", "PLACED", "THERE",
            "NEXT END",
        ),
        [
            (
                each.status.site, each.status.state, str(each.asked), str(each.bid), str(each.late),
                str(each.silent), _reasons(each), str(each.chosen), str(each.placed), str(each.there),
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
