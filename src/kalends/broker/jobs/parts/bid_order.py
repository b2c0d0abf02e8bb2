"""The order of the bids for a job, and the words that tell of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.contract.calls import PlacedJob
from kalends.core.durations import format_duration
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.jobs import JobRequest
from kalends.core.limits import DURATION_S_MAX
from kalends.core.times import format_time
from kalends.federation.learned_runs import UNKNOWN, LearnedShare
from kalends.federation.offered_places import OfferedPlace, best_first, decided_within_s

TOLD_MAX: Final = 8
"""Offers that are named in the story of a request."""


class Within(NamedTuple):
    """By when a job has to start, and to end (seconds UTC); 0: whenever."""

    end_by: int = 0
    start_by: int = 0


WHENEVER: Final = Within()


def counted_from(bid: m.Bid, asked_s: int, hold_ms: int) -> m.Bid:
    """Return `bid` with no start before its place may be taken, if it was asked for at `asked_s`.

    Sites count so themselves. Who does not, or has a clock that is behind, wins nothing by it.
    """
    decided_s = asked_s + decided_within_s(hold_ms)
    offers = tuple(
        replace(
            each,
            start_by=each.start_by and max(each.start_by, decided_s),
            late_start=max(each.late_start, decided_s),
        )
        for each in bid.offers
    )
    return replace(bid, offers=offers)


def placed_job(offer: m.PlaceOffer, implementation: str) -> PlacedJob:
    """Return the job as its user sees it, once it has the place that was offered."""
    return PlacedJob(
        machine=offer.machine, number=offer.job, start_by=offer.start_by,
        late_start=offer.late_start, implementation=implementation,
    )  # fmt: skip


def ranked_places(
    rid: str,
    bids: Mapping[str, m.Bid],
    within: Within = WHENEVER,
    worth_s: Callable[[str], float] = lambda _: 0.0,
    share_of: Callable[[str], float] = lambda _: 1.0,
    transport_s: Callable[[str], float] = lambda _: 0.0,
) -> list[OfferedPlace]:
    """Return all places that are offered and are surely in time, the best first.

    `worth_s` tells how many seconds of waiting a machine is worth to the user, `share_of` what share of its
    limit the job is expected to run there, and `transport_s` how long its input takes to a site.
    """
    in_time = (each for each in _offered(bids) if not _why_late(each, within))
    compared = (
        each._replace(
            preference_s=worth_s(each.resource),
            runs_s=share_of(each.resource) * each.limit_s,
            transport_s=transport_s(each.site),
        )
        for each in in_time
    )
    return best_first(compared, rid)


def what_won(ranked: Sequence[OfferedPlace], bids: Mapping[str, m.Bid], site: str) -> m.Won | None:
    """Return what `site`, whose bid has lost to the first of `ranked`, may hear of it."""
    best = ranked[0]
    own = next((each for each in ranked if each.site == site), None)
    offer = next(each for each in bids[best.site].offers if each.machine == best.resource)
    if own is None or offer.undisclosed:
        return None
    later_s = _end(own) - own.preference_s - _end(best) + best.preference_s
    return m.Won(
        site=best.site, start=int(best.counted_start), runs_s=min(int(best.runs_s), DURATION_S_MAX),
        behind_s=min(max(int(later_s), 0), DURATION_S_MAX),
    )  # fmt: skip


def too_late(bids: Mapping[str, m.Bid], within: Within) -> list[Refusal]:
    """Return a refusal for each place that is not in time."""
    return [
        Refusal(where=each.resource, code=RefusalCode.TOO_LATE, detail=why)
        for each in _offered(bids)
        if (why := _why_late(each, within))
    ]


def _why_late(place: OfferedPlace, within: Within) -> str:
    """Return why a place is not in time; "" if it is."""
    if within.end_by and _last_end(place) > within.end_by:
        return f"it would end by {format_time(int(_last_end(place)), 'UTC')}"
    if within.start_by and place.counted_start > within.start_by:
        start = format_time(int(place.counted_start), "UTC")
        return f"it would start by {start} only, so the job stays where it is"
    return ""


def _offered(bids: Mapping[str, m.Bid]) -> list[OfferedPlace]:
    return [
        OfferedPlace(
            site, each.machine, each.nodes, each.start_by, each.start, each.late_start,
            each.end - each.start, bool(each.start_by), each.price, limit_s=each.end - each.start,
            load=each.load, shared=each.shared, note=_chosen(each),
        )
        for site, bid in bids.items()
        for each in bid.offers
    ]  # fmt: skip


def _end(place: OfferedPlace) -> float:
    return place.counted_start + place.transport_s + place.runs_s


def _last_end(place: OfferedPlace) -> float:
    """Return when it has ended in any case: what was learned is no promise."""
    return place.counted_start + place.limit_s


def told(
    ranked: Sequence[OfferedPlace], asked: int, jobs: Mapping[str, JobRequest],
    learned: Callable[[str], LearnedShare] = lambda _: UNKNOWN,
    through: Callable[[str], tuple[str, ...]] = lambda _: (),
) -> str:  # fmt: skip
    """Return all offers in words, for the story of the request.

    `jobs` says what each machine would run, `learned` what its expected run time there rests on, `through` by
    which virtual sites its site is reached.
    """
    best = ranked[0]
    start = format_time(int(best.counted_start), "UTC")
    firm = "starts by" if best.firm else "is likely to start by"
    worth = f", and is preferred by {_duration(best.preference_s)}" if best.preference_s else ""
    sites = len({each.site for each in ranked})
    named = {
        each.resource: f"{each.resource}{_reached('/'.join(through(each.site)))}{_in_words(each, jobs)}"
        f"{_run_time(each, learned)}{_terms(each)}"
        for each in ranked[:TOLD_MAX]
    }
    told = f"{named[best.resource]} {firm} {start}{worth}; {sites} of {asked} sites have bid"
    return "; ".join((told, *(_compared(best, each, named) for each in ranked[1:TOLD_MAX])))


def _compared(best: OfferedPlace, other: OfferedPlace, named: Mapping[str, str]) -> str:
    """Say by how much `other` ends later than the `best`, and how far it is behind with preferences."""
    later_s = _end(other) - _end(best)
    if later_s:
        ends = f"ends {_duration(abs(later_s))} {'later' if later_s > 0 else 'earlier'}"
    else:
        ends = "ends as early"
    lost_s = later_s + best.preference_s - other.preference_s
    ends = f"{named[other.resource]} {ends}"
    if lost_s == later_s:
        return ends
    counted = (
        f"{_duration(abs(lost_s))} {'behind' if lost_s > 0 else 'ahead'}" if lost_s else "as good"
    )
    return f"{ends}, and with your preferences is {counted}"


def _reached(through: str) -> str:
    return f" through {through}" if through else ""


def _in_words(place: OfferedPlace, jobs: Mapping[str, JobRequest]) -> str:
    """Say in which implementation the job would run there, if it has several."""
    job = jobs.get(place.resource)
    if job is None or not job.implementation:
        return ""
    return f" with {job.implementation} on {place.nodes} node{'s' * (place.nodes != 1)}"


def _run_time(place: OfferedPlace, learned: Callable[[str], LearnedShare]) -> str:
    """Say how long it is expected to run there, if anything but its limit was learned."""
    jobs = learned(place.resource).jobs
    if not jobs:
        return ""
    by = f"your last {jobs} jobs" if jobs > 1 else "your last job"
    runs, limit = _duration(place.runs_s), _duration(place.limit_s)
    return f" (expected to run {runs} of {limit}, by {by})"


def _terms(place: OfferedPlace) -> str:
    """Describe what the owner says of the place, as far as it is not the usual."""
    told = (
        f"at most {place.cost:,.2f} credits" if place.cost else "",
        f"{_duration(place.transport_s)} of transport" if place.transport_s >= 1 else "",
        f"{place.load}% busy" if place.load else "",
        "shared nodes" if place.shared else "",
        place.note,
    )
    words = ", ".join(filter(None, told))
    return f" ({words})" if words else ""


def _chosen(offer: m.PlaceOffer) -> str:
    """Say who has chosen the way to run the job there, and why its script was ignored."""
    if offer.rank_fault:
        return f"your rank failed there, and was ignored: {' '.join(offer.rank_fault.split())}"
    return {"rank": "by your rank", "aim": "by its owner's aim", "": ""}[offer.chosen_by]


def _duration(length_s: float) -> str:
    return format_duration(int(length_s))
