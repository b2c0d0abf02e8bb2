"""Jobs that may start again: one run after the other, and two at once only where a site was lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from kalends.batch.shepherds.facts import Ended
from kalends.batch.shepherds.folders import job_of
from kalends.contract.calls import PlacedJob
from kalends.core.identifiers import split_resource
from tests.shells.job_host import HOSTS, Run
from tests.shells.scenarios import Broken
from tests.support.last_runs import elsewhere_at_last

LATE_S: Final = 20.0
"""So long after its site was lost a second run begins at most: its start was granted before."""

SiteRun = tuple[str, Run]


class Absence(NamedTuple):
    """A site was out of reach."""

    site: str
    since_s: float
    until_s: float


def judge_restarts(
    runs: Sequence[SiteRun], placed: PlacedJob, what: str,
    *, wanted: bool, twice: bool, absences: Collection[Absence], lost_s: float,
) -> bool:  # fmt: skip
    """Raise `Broken` for runs of a job that may start again which must not be; return if two ran at once.

    `twice`: they may, where the first one's site is lost.
    """
    in_order = sorted(runs, key=lambda each: each[1].since_s)
    at_once = False
    for (site, first), (other, second) in combinations(in_order, 2):
        if first.until_s <= second.since_s:
            continue
        at_once = True
        lost = any(
            each.site == site
            and each.since_s + lost_s <= second.since_s
            and each.until_s >= second.since_s - LATE_S
            for each in absences
        )
        if not (twice and lost) or site == other:
            raise Broken(f"it ran twice at a time: {what}")
    if wanted and not any(_by_itself(site, run) for site, run in runs):
        raise Broken(f"it has never come to its end: {what}")
    told = split_resource(placed.machine)[0], placed.number
    if elsewhere_at_last([(site, job_of(run.name)) for site, run in in_order], told):
        raise Broken(f"it ran elsewhere at last: {what}")
    return at_once


def _by_itself(site: str, run: Run) -> bool:
    last = HOSTS[site].attempts[run.name].facts[-1]
    return isinstance(last, Ended) and last.kind in ("exit", "limit")
