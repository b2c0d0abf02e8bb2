"""A broker's experience with the sites that it asks for bids: soft state, lost in a restart.

"The SM will keep a table of the active sites" (Weissman and Grimshaw 1996, section 4.3). Of each site it is
known how soon it answers (`answer_delays`), how long jobs would wait there (`told_waits`), and whether
it is left alone for now (`back_off`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kalends.core.intervals import Moment
from kalends.federation.answer_delays import AnswerDelays, median_of
from kalends.federation.back_off import ACTIVE, after_refusal
from kalends.federation.told_waits import FadedMean, ToldWaits

SITES_MAX: Final = 16_384
"""The one that was noted longest ago is forgotten. Above all sites of any federation there is."""

DELAY_MS_PRIOR: Final = 80.0
"""The median delay of a site that has not answered yet: a round trip across a continent, and some work."""


class Seen(NamedTuple):
    """What is told of a site: it answers within `answer_ms` half of the time (0: it has not answered yet),
    a job would wait there for about `wait_s`, and it is left alone for `rests_s`; 0: it is asked.
    """

    answer_ms: int
    wait_s: int
    rests_s: int


class SiteExperience:
    """Experience with one site."""

    __slots__ = ("back_off", "delays", "waits")

    def __init__(self) -> None:
        self.delays = AnswerDelays()
        self.waits = ToldWaits()
        self.back_off = ACTIVE


class Experience:
    """Experience with all sites. Not thread-safe.

    Nothing has to be told for something else to be right: a call that is left out, or made twice, makes
    some choices worse, and every rest ends by itself.
    """

    def __init__(self) -> None:
        self._sites: dict[str, SiteExperience] = {}
        """The one noted last at the end."""
        self._all_waits = FadedMean()
        """Mean over all sites, which is expected of a new one."""

    # What happens

    def asked(self, site: str, now: Moment) -> None:
        """`site` is asked for a bid; if it has failed before, this is the probe, and no other is made."""
        of_site = self._sites.get(site)
        if of_site is not None:
            of_site.back_off = of_site.back_off.probed(now.monotonic_ms)

    def bid(self, site: str, delay_ms: float, wait_s: float, now: Moment) -> None:
        """`site` has bid `delay_ms` after it was asked, in time or not: a job would wait `wait_s` there.

        `wait_s` is what is compared: the bound that is promised, or the start that is likely, less now.
        """
        of_site = self._of(site)
        of_site.delays.note(delay_ms)
        of_site.waits.note(wait_s, now)
        of_site.back_off = ACTIVE
        self._all_waits.note(wait_s)

    def refused(self, site: str, delay_ms: float, now: Moment, closed_s: int = 0) -> None:
        """`site` has answered that it takes nothing now: it rests, and no longer however often it says so.

        Not for what it refuses of one job alone: it may take the next. It may have said for how long it is
        closed (`closed_s`; 0: it has not).
        """
        of_site = self._of(site)
        of_site.delays.note(delay_ms)
        of_site.back_off = after_refusal(now.monotonic_ms, closed_s)

    def silent(self, site: str, jitter: float, now: Moment) -> None:
        """`site` has not answered by the deadline. `jitter` is drawn in [0, 1).

        Not when a decision was made before the deadline: then it may only be slow.
        """
        of_site = self._of(site)
        of_site.back_off = of_site.back_off.failed(now.monotonic_ms, jitter)

    def back(self, site: str) -> None:
        """`site` can be reached again, and has said so without being asked: its rest is over."""
        of_site = self._sites.get(site)
        if of_site is not None:
            of_site.back_off = ACTIVE

    # What is known

    def rests(self, site: str, now: Moment) -> bool:
        """Return whether `site` is to be left alone now."""
        of_site = self._sites.get(site)
        return of_site is not None and of_site.back_off.rests(now.monotonic_ms)

    def active_at_ms(self, site: str) -> int:
        """Return from when on (monotonic) `site` may be asked; a time that has passed: now."""
        of_site = self._sites.get(site)
        return of_site.back_off.until_ms if of_site is not None else 0

    def expected_wait_s(self, site: str, now: Moment) -> float:
        """Return how long a job would wait at `site`, in seconds, by all that is known."""
        usual_s = self._all_waits.towards(0.0)
        of_site = self._sites.get(site)
        return usual_s if of_site is None else of_site.waits.expected_s(now, usual_s)

    def answer_ms(self, site: str) -> float:
        """Return how soon `site` answers half of the time, in milliseconds; 0: it has not answered yet."""
        of_site = self._sites.get(site)
        return (of_site.delays.median_ms or 0.0) if of_site is not None else 0.0

    def seen(self, site: str, now: Moment) -> Seen:
        """Return what is told of `site` to those who look."""
        answer_ms = round(self.answer_ms(site))
        wait_s = round(self.expected_wait_s(site, now)) if answer_ms else 0
        rests_ms = self.active_at_ms(site) - now.monotonic_ms
        return Seen(answer_ms, wait_s, max(-(-rests_ms // 1_000), 0))

    def usual_answer_ms(self, sites: Iterable[str]) -> float:
        """Return how soon the one in the middle of `sites` answers, in milliseconds; of none: 0.

        Of each by its median. Asked about those that are silent still, it says when they should have
        answered: far ones are waited for longer than near ones.
        """
        medians_ms = []
        for site in sites:
            of_site = self._sites.get(site)
            known_ms = None if of_site is None else of_site.delays.median_ms
            medians_ms.append(DELAY_MS_PRIOR if known_ms is None else known_ms)
        return median_of(medians_ms) if medians_ms else 0.0

    def check(self) -> None:
        """Raise `AssertionError` if something is wrong with the records."""
        assert len(self._sites) <= SITES_MAX
        self._all_waits.check()
        for of_site in self._sites.values():
            of_site.delays.check()
            of_site.waits.check()
            of_site.back_off.check()

    def _of(self, site: str) -> SiteExperience:
        of_site = self._sites.pop(site, None) or SiteExperience()
        self._sites[site] = of_site
        if len(self._sites) > SITES_MAX:
            del self._sites[next(iter(self._sites))]
        return of_site
