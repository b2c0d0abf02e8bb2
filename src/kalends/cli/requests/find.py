"""``kalends find``: possible starts, with the delays of waiting jobs; books nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Unpack

import click
from msgspec import structs

from kalends.cli.console import output, problems, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.settings import Settings
from kalends.cli.requests import found_words, request_options, words
from kalends.contract.calls import Candidate, ClaimView, Price
from kalends.core.errors import NoCommonTime, NotFound, Unavailable
from kalends.core.limits import PRICED_STARTS_MAX
from kalends.core.refusals import error_of

Asked = tuple[str, int, int]
"""A resource, how many units of it, for how long."""

Delayed = tuple[int, int]
"""How many jobs, and the longest of their delays."""


@server_command(
    "find",
    "kalends find 'sdsc/sp2:64 + ncsa/cave' --for 2h",
    "kalends find 'ncsa/cave' --for 1h --after 'tomorrow 08:00' --explain",
)
@click.argument("request")
@request_options.when_options
@request_options.prefer_option
@click.option(
    "--count",
    default=5,
    show_default=True,
    type=click.IntRange(1, 100),
    metavar="N",
    help="Number of starts.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also show the bookings in the way, and the delays of other requests and jobs.",
)
def find(
    settings: Settings,
    request: str,
    prefer: tuple[str, ...],
    count: int,
    explain: bool,
    **when: Unpack[request_options.When],
) -> int:
    """Find possible starts; book nothing.

    Prints the best starts at present, with the weights of your preferences. If there is none, prints
    the refusals. The exit code is then that of `kalends book`: 5, or 75 if a site does not answer.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        preferences = request_options.preferred(settings, client, prefer)
        wanted = request_options.understand(client, request, when, preferences)
        request_options.echo(settings, wanted, when, words.Said(preferences=preferences))
        found = client.find(wanted, count=count, explain=explain)
    silent: list[str] = []
    if explain:
        candidates, silent = _priced(settings, found.candidates)
        found = structs.replace(found, candidates=candidates)
    if found.candidates or settings.json:
        output.answer(settings, "found", found, lambda: found_words.found_lines(found, zone))
        for each in silent:
            output.say(f"kalends: jobs that would be delayed are not known: {each}", error=True)
        return 0 if found.candidates else error_of(found.refusals).exit_code
    error = error_of(found.refusals)
    if isinstance(error, NoCommonTime):
        error.detail, error.remedy = "there is no common time in this window", ""
    for line in (*problems.lines(error), *found_words.obstacle_lines(found, zone)):
        output.say(line, error=True)
    return error.exit_code


def _priced(
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
    with site_calls.client_at(settings, resource) as site:
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
