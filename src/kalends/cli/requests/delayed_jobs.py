"""Delays of waiting jobs by possible starts, as their sites compute them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import structs

from kalends.cli.console.settings import Settings
from kalends.cli.jobs import shown_jobs
from kalends.contract.calls import Candidate, ClaimView, Price
from kalends.core.errors import NotFound, Unavailable
from kalends.core.limits import PRICED_STARTS_MAX

Asked = tuple[str, int, int]
"""A resource, how many units of it, for how long."""

Delayed = tuple[int, int]
"""How many jobs, and the longest of their delays."""


def priced(
    settings: Settings, candidates: Sequence[Candidate]
) -> tuple[tuple[Candidate, ...], list[str]]:
    """Return `candidates` with the jobs that each would delay, and the resources that gave no answer.

    Only the first ten are priced. A resource on which no jobs run delays none.
    """
    starts: defaultdict[Asked, list[int]] = defaultdict(list)
    for candidate in candidates[:PRICED_STARTS_MAX]:
        for claim in candidate.claims:
            starts[_asked(claim)].append(claim.start)
    known: dict[tuple[Asked, int], Delayed] = {}
    silent = []
    for asked, at in starts.items():
        try:
            known |= {(asked, start): found for start, found in _told(settings, asked, at)}
        except NotFound:
            continue  # Not a machine, so no jobs wait there.
        except Unavailable as error:
            silent.append(f"{asked[0]}: {error.detail}")
    return tuple(_with_jobs(candidate, known) for candidate in candidates), silent


def _told(settings: Settings, asked: Asked, starts: Sequence[int]) -> Iterable[tuple[int, Delayed]]:
    resource, units, length_s = asked
    with shown_jobs.client_at(settings, resource) as site:
        answer = site.machine_delays(resource, units, length_s, dict.fromkeys(starts))
    return [(each.start, (max(each.jobs, 0), each.longest_s)) for each in answer.starts]


def _with_jobs(candidate: Candidate, known: dict[tuple[Asked, int], Delayed]) -> Candidate:
    found = [known.get((_asked(claim), claim.start), (0, 0)) for claim in candidate.claims]
    jobs = sum(count for count, _ in found)
    if not jobs:
        return candidate
    longest_s = max(delay_s for _, delay_s in found)
    price = structs.replace(
        candidate.price or Price(), delayed_jobs=jobs, longest_delay_s=longest_s
    )
    return structs.replace(candidate, price=price)


def _asked(claim: ClaimView) -> Asked:
    return claim.resource, claim.units, claim.end - claim.start
