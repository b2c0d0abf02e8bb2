"""``kalends admin audit``: check all claims or decisions of a server."""

from __future__ import annotations

from collections import Counter

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.client.sync import SyncClient
from kalends.contract.calls import AuditClaim, Audited, AuditRecord


@click.command(
    "audit",
    cls=ServerCommand,
    examples=(
        "kalends admin audit",
        "kalends admin audit --broker http://127.0.0.1:7101 --json",
    ),
)
@pass_settings
def command(settings: Settings) -> int:
    """Check all claims or decisions of a server.

    Calls the site or broker at --broker and needs the scope audit. The exit code is 1 if an invariant
    does not hold. Also lists problems that have ended since the last start; they do not change the exit code.
    A broker also compares its decisions with the locks of every site; `kalends admin reconcile` repairs
    differences. With --json, prints every claim and decision.
    """
    with settings.connect() as client:
        audited = _everything(client)
    output.answer(settings, "audited", audited, lambda: _lines(audited))
    return 1 if audited.problems else 0


def _everything(client: SyncClient) -> Audited:
    claims: list[AuditClaim] = []
    records: list[AuditRecord] = []
    problems: list[str] = []
    settled: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    after = ""
    while True:
        page = client.audit(after)
        settled = page.settled
        unreached = unreached or page.unreached
        claims += page.claims
        records += page.records
        problems += [problem for problem in page.problems if problem not in problems]
        ids = [*(claim.id for claim in page.claims), *(record.id for record in page.records)]
        if not page.more or not ids:
            break
        after = max(ids)
    return Audited(
        claims=tuple(claims),
        records=tuple(records),
        problems=tuple(problems),
        settled=settled,
        unreached=unreached,
    )


def _lines(audited: Audited) -> list[str]:
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
