"""One look of a request at its candidates, in growing rounds.

``first()`` says whom to ask; after each answer ``more()`` says whom to ask besides, and `over` whether
anybody is still waited for. Nobody is, once those who have answered allow a plan at the earliest start:
the others could not better it. As soon as they cannot, a larger round follows, which at least doubles
the number of sites asked, up to all of them. So a poll saves messages and time, and books nothing worse.

Named resources are asked in the first round; so is everybody, where the earliest plan need not be the
best. To ask a site about one of its resources or about all of them is one message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from kalends.broker.planning.directory import Directory
from kalends.broker.planning.planner import Free
from kalends.broker.planning.polling.counts import Prospect
from kalends.broker.planning.polling.model import MESSAGE_MS
from kalends.broker.planning.polling.poll_order import TERMS_MAX, choose
from kalends.broker.planning.polling.poll_terms import PollTerm, hurried, sites_of, wanted_of
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.core.identifiers import split_resource
from kalends.core.requests import Request


class Observation(NamedTuple):
    """Whether a resource of `site` was `taken` at `at_s`: for `Odds.note`."""

    site: str
    at_s: int
    taken: bool


def poll_of(
    request: Request,
    directory: Directory,
    names: Collection[str],
    odds: Odds,
    enough: Callable[[Free], bool],
    wall_s: int,
    *,
    everybody: bool = False,
    polled: int = 0,
) -> Poll:
    """Return the poll for one look of `request` at `names`, all that it could ask about.

    `everybody` is asked at once, where a plan at the earliest start is not to be hoped for, or not all
    that matters. `polled` as for `Poll`.
    """
    wanted = wanted_of(request, directory.resources, names, wall_s)
    pickable = {name for each in wanted for name in each.grains}
    weighed = hurried(request) and not everybody and len(wanted) <= TERMS_MAX
    return Poll(
        wanted, odds, enough,
        always=set(names) - pickable, hurried=weighed, polled=polled,
    )  # fmt: skip


class Poll:
    """The poll of one look; `enough`: a plan is possible; `hurried`: the earliest is best.

    `always` are resources to ask about in the first round besides what is `wanted`. `polled` sites of
    each term are asked first (0: as many as the model says), for measurements.
    """

    def __init__(
        self,
        wanted: Sequence[PollTerm],
        odds: Odds,
        enough: Callable[[Free], bool],
        *,
        always: Iterable[str] = (),
        hurried: bool = True,
        message_ms: float = MESSAGE_MS,
        polled: int = 0,
    ) -> None:
        self._polled = polled
        self._wanted = wanted
        self._odds = odds
        self._enough = enough
        self._always = frozenset(always)
        self._hurried = hurried
        self._message_ms = message_ms
        self._asked: set[str] = set()
        self.over = False
        """Nobody else is waited for: there is a plan that is as early as can be, or all have answered."""

    def first(self) -> tuple[str, ...]:
        """Return the resources to ask about first."""
        asked = set(self._always)
        for wanted in self._wanted:
            if wanted.named or not self._hurried:
                asked.update(wanted.grains)
        for wanted in self._wanted:
            if self._hurried and not wanted.named:
                asked.update(self._round(wanted, wanted.needed, asked, polled=self._polled))
        self._asked = asked
        self.over = not asked
        return tuple(sorted(asked))

    def more(self, free: Free, waiting_for: Collection[str]) -> tuple[str, ...]:
        """Return what else to ask about now that `free` has been answered; mostly nothing.

        `waiting_for` are the sites that owe an answer. What others have left out counts as taken.
        """
        outstanding = {
            name for name in self._asked - free.keys() if split_resource(name)[0] in waiting_for
        }
        available = [self._available(wanted, free) for wanted in self._wanted]
        if self._suffices(available) and self._enough(free):
            self.over = True
            return ()
        lacking = [
            (wanted, max(wanted.needed - count, 1))
            for wanted, count in zip(self._wanted, available, strict=True)
            if not outstanding or count + len(outstanding & wanted.grains.keys()) < wanted.needed
        ]
        asked: set[str] = set()
        for wanted, missing in lacking:
            asked.update(self._round(wanted, missing, asked, outstanding))
        asked -= self._asked
        self._asked |= asked
        self.over = not (asked or outstanding)
        return tuple(sorted(asked))

    def observations(self, free: Free, refused: Collection[str] = ()) -> Iterator[Observation]:
        """Yield what answers tell of sites picked by attributes; `refused` ones tell nothing."""
        for wanted in self._wanted:
            for name, steps in sorted(free.items()):
                if name in wanted.grains and name not in refused and not wanted.named:
                    site = split_resource(name)[0]
                    yield Observation(site, wanted.start, not wanted.serves(name, steps))

    def _available(self, wanted: PollTerm, free: Free) -> int:
        return sum(
            wanted.serves(name, steps) for name, steps in free.items() if name in wanted.grains
        )

    def _suffices(self, available: Sequence[int]) -> bool:
        """Tell whether every term is served at its first start: no silent site is better."""
        return self._hurried and all(
            count >= wanted.needed for wanted, count in zip(self._wanted, available, strict=True)
        )

    def _round(
        self,
        wanted: PollTerm,
        missing: int,
        asking: Collection[str],
        outstanding: Collection[str] = (),
        polled: int = 0,
    ) -> set[str]:
        """Return candidates for `missing` more; `asking` go out anyway, `outstanding` may help."""
        left = wanted.grains.keys() - (self._asked - set(outstanding))
        if not left:
            return set()
        asked = sites_of(self._asked & wanted.grains.keys()).keys()
        addressed = sites_of({*asking, *(wanted.grains.keys() & set(outstanding))}).keys()
        by_site = sites_of(left)
        prospects = [
            Prospect(
                site,
                len(names),
                self._odds.busy(site, wanted.start),
                self._odds.delay(site),
                asked=site in addressed,
            )
            for site, names in by_site.items()
        ]
        waiting = sum(prospect.site in asked for prospect in prospects)
        choice = choose(
            prospects,
            missing,
            at_least=min(waiting + max(len(asked), 1), len(prospects)),
            message_ms=self._message_ms,
        )
        chosen = choice.order[: polled or choice.sites]
        return {name for prospect in chosen for name in by_site[prospect.site]}
