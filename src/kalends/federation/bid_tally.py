"""Counts of the sites' answers to a broker that asked for bids, and of the jobs placed there.

"The SM will keep a table of the active sites", and "a table of jobs" with "the projected completion time",
after which an entry is purged (Weissman and Grimshaw 1996, sections 4.1 and 4.3). Soft state: a new start
counts anew.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import Final

REASONS_MAX: Final = 64
"""Kinds of refusals that are told apart, of one site."""


class SiteCounts:
    """Counts of one site, since the start of the broker.

    It was `asked`; it has `bid` in time, or `late`, it has `refused`, by reason, or was `silent` to the
    deadline; its bid was `chosen`, and the job `placed` there once it had promised.
    """

    __slots__ = ("_ends", "_there", "asked", "bid", "chosen", "late", "placed", "refused", "silent")

    def __init__(self) -> None:
        self.asked = self.bid = self.late = self.silent = self.chosen = self.placed = 0
        self.refused: Counter[str] = Counter()
        self._ends: list[tuple[float, str]] = []
        """A heap of the ends that were foreseen for what was placed, and of which job each is."""
        self._there: set[str] = set()

    def note_refusals(self, reasons: set[str]) -> None:
        """The site has offered nothing, for these reasons: each is counted once."""
        for reason in reasons:
            if reason in self.refused or len(self.refused) < REASONS_MAX:
                self.refused[reason] += 1

    def note_placed(self, rid: str, end_s: float, now_s: int) -> None:
        self.placed += 1
        self._there.add(rid)
        heappush(self._ends, (end_s, rid))
        self.there(now_s)

    def note_over(self, rid: str) -> None:
        """The job is there no more, as its site has said."""
        self._there.discard(rid)

    def there(self, now_s: int) -> int:
        """Return how many jobs that were placed there have not ended, as their site says or was foreseen."""
        while self._ends and (self._ends[0][0] <= now_s or self._ends[0][1] not in self._there):
            self._there.discard(heappop(self._ends)[1])
        return len(self._there)

    def next_end_s(self, now_s: int) -> int:
        """Return when the next of them ends at the latest, as was foreseen; 0: there is none."""
        return int(self._ends[0][0]) if self.there(now_s) else 0


class BidTally:
    """The counts of each site; as many as a broker has configured."""

    def __init__(self) -> None:
        self._sites: dict[str, SiteCounts] = {}

    def of(self, site: str) -> SiteCounts:
        counts = self._sites.get(site)
        if counts is None:
            counts = self._sites[site] = SiteCounts()
        return counts

    def forget(self, site: str) -> None:
        """Count nothing of `site` any more, until it is named again."""
        self._sites.pop(site, None)

    def busiest_share(self, share: float = 0.1) -> float:
        """Return what share of all questions the busiest tenth of the sites gets, of those ever asked.

        Where it is much more than a tenth, jobs herd: they run to the same few sites.
        """
        asked = sorted((each.asked for each in self._sites.values() if each.asked), reverse=True)
        busiest = asked[: max(1, round(share * len(asked)))]
        return sum(busiest) / sum(asked) if asked else 0.0
