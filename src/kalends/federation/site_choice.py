"""Choice of the k sites that are asked to bid for a job.

"Which subset of k sites ought to be selected? If the local site has no knowledge of the resources and
their availability in the other sites, then a random selection may work well." (Weissman and Grimshaw 1996,
section 4.3.) With some knowledge, a choice by history alone makes all run to the same few sites: where few
brokers bring most jobs, waits become longer than without any knowledge. So a sample is drawn of four times
as many, the best of it by preference and history are asked, and always one by chance: what has become free
is found again. A job's home sites, where it or its data is, are always asked.

Sites are looked at in the order of a shuffle that goes only as far as it is needed: ten thousand sites cost
no more than a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from kalends.core.intervals import Moment
from kalends.federation.draws import Draw
from kalends.federation.experience import Experience

SAMPLED_PER_ASKED: Final = 4


class Bidder(NamedTuple):
    """A site that could bid: `resources` of it fit the job.

    `preference_s`: how many seconds of waiting it is worth to have the job there. `runs_s`: how long it would
    run there, in seconds, if that is known; only differences between sites count.
    """

    site: str
    resources: tuple[str, ...]
    preference_s: float = 0.0
    runs_s: float = 0.0


def whom_to_ask(
    bidders: Sequence[Bidder],
    count: int,
    experience: Experience,
    draw: Draw,
    now: Moment,
    homes: Sequence[Bidder] = (),
) -> list[Bidder]:
    """Return the sites to ask: homes, then the best of a sample, then one by chance.

    Each once; `count` of them, or all that do not rest (`Experience.rests`) where those are fewer. Homes
    that do not rest are among them even if they are more than `count`. All may rest: then nobody is
    returned, and `Experience.active_at_ms` says until when.
    """
    chosen = [home for home in _each_once(homes) if not experience.rests(home.site, now)]
    others = _active(bidders, {home.site for home in homes}, experience, draw, now)
    left = count - len(chosen)
    by_chance = next(others, None) if left > 0 else None
    if by_chance is None:
        return chosen
    if left > 1:
        sample = islice(others, SAMPLED_PER_ASKED * count)
        chosen += sorted(sample, key=partial(_expected_s, experience, now))[: left - 1]
    return [*chosen, by_chance]


def best_known(
    bidders: Sequence[Bidder], experience: Experience, draw: Draw, now: Moment
) -> Bidder | None:
    """Return the best of a sample of those that do not rest; None where all do."""
    sample = islice(_active(bidders, set(), experience, draw, now), SAMPLED_PER_ASKED)
    return min(sample, key=partial(_expected_s, experience, now), default=None)


def _expected_s(experience: Experience, now: Moment, bidder: Bidder) -> float:
    """Return in how many seconds the job would have ended there, less what the site is preferred.

    Not in how many it would begin: lines are short where machines are slow.
    """
    wait_s = experience.expected_wait_s(bidder.site, now)
    return wait_s + bidder.runs_s - bidder.preference_s


def _active(
    bidders: Sequence[Bidder],
    left_out: set[str],
    experience: Experience,
    draw: Draw,
    now: Moment,
) -> Iterator[Bidder]:
    """Yield each site that does not rest and is not `left_out`, once, in an order that is drawn."""
    seen = set(left_out)
    for bidder in _shuffled(bidders, draw):
        if bidder.site not in seen and not experience.rests(bidder.site, now):
            seen.add(bidder.site)
            yield bidder


def _shuffled(bidders: Sequence[Bidder], draw: Draw) -> Iterator[Bidder]:
    """Yield all in an order that is drawn, one draw for each that is taken (Fisher and Yates).

    Only those that have moved are written down.
    """
    moved: dict[int, int] = {}
    for place in range(len(bidders)):
        other = place + draw(len(bidders) - place)
        yield bidders[moved.get(other, other)]
        moved[other] = moved.get(place, place)


def _each_once(bidders: Sequence[Bidder]) -> list[Bidder]:
    return list({bidder.site: bidder for bidder in bidders}.values())
