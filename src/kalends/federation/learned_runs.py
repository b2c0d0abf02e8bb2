"""Share of the time limit that a user's jobs run: the median of the last ones, by implementation and site.

Users cannot know how long a job runs on a machine that they have not seen, and their limits have to be on
the safe side: most jobs end long before, at some sites earlier than at others. What was learned corrects what
is compared. The laws:

- What is known of the implementation at that site counts; where that is nothing, what is known of all the
  user's jobs there; then of all that are theirs; else the limit.
- It is the median of the last `JOBS_KEPT`, of two in the middle the longer: between the smallest and the
  largest share that was seen, moved by few outliers no further than the others reach, and after as many new
  ones nothing of the old is left.
- A job that was ended, by its limit or by somebody, or that has failed, would have run for at least as long.
  It counts where that is longer than what is known. So a site where all jobs fail at once never looks fast.
- What jobs of one user show counts for that user alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kalends.federation.answer_delays import median_of

JOBS_KEPT: Final = 15

SHARE_MIN: Final = 1e-4
"""Shorter runs are noted as this share of their limits."""

USERS_MAX: Final = 1_000
"""The one of whom nothing was noted for longest is forgotten; with all that is known of them, some 20 MB."""

PLACES_MAX: Final = 100
"""Implementations and sites that are known of one user: as with users."""


class JobRun(NamedTuple):
    """A job of `user` has run at `site` for this `share` of its limit, in an implementation ("": it has one).

    `whole`: to the end of its program, which has succeeded. If not, it would have run for at least as long.
    """

    user: str
    implementation: str
    site: str
    share: float
    whole: bool


class LearnedShare(NamedTuple):
    """The expected `share` of its limit that a job runs, learned from `jobs` jobs; without any, all of it."""

    share: float = 1.0
    jobs: int = 0


UNKNOWN: Final = LearnedShare()

_Place = tuple[str | None, str | None]
"""An implementation and a site; None: any."""


class LearnedRuns:
    """Learned shares of all users. Not thread-safe; in memory only."""

    def __init__(self) -> None:
        self._users: dict[str, dict[_Place, tuple[float, ...]]] = {}
        """The last shares of each place, the newest last; who was noted last is at the end."""

    def note(self, run: JobRun) -> None:
        """A job has ended."""
        share = min(max(run.share, SHARE_MIN), 1.0)
        known = self._users.get(run.user, {})
        told = [
            place
            for place in _places(run.implementation, run.site)
            if run.whole or share > _learned(known, place).share
        ]
        if not told:
            return
        self._users[run.user] = self._users.pop(run.user, known)
        for place in told:
            known[place] = (*known.pop(place, ())[1 - JOBS_KEPT :], share)
        _keep_newest(self._users, USERS_MAX)
        _keep_newest(known, PLACES_MAX)

    def learned(self, user: str, site: str, implementation: str | None = None) -> LearnedShare:
        """Return what is known of a user's jobs at `site`: in one implementation, or (None) in any."""
        return _learned(self._users.get(user, {}), (implementation, site))

    def check(self) -> None:
        """Raise `AssertionError` if something is wrong with the record."""
        assert len(self._users) <= USERS_MAX
        for known in self._users.values():
            assert 0 < len(known) <= PLACES_MAX
            for shares in known.values():
                assert 0 < len(shares) <= JOBS_KEPT
                assert all(SHARE_MIN <= share <= 1 for share in shares)


def _places(implementation: str | None, site: str | None) -> tuple[_Place, ...]:
    """Return where something is known of it, what is nearest to it first."""
    return tuple(dict.fromkeys(((implementation, site), (None, site), (None, None))))


def _learned(known: dict[_Place, tuple[float, ...]], place: _Place) -> LearnedShare:
    for each in _places(*place):
        if shares := known.get(each):
            return LearnedShare(median_of(shares), len(shares))
    return UNKNOWN


def _keep_newest(known: dict[Any, Any], count_max: int) -> None:
    while len(known) > count_max:
        del known[next(iter(known))]
