"""The laws of what is learned of run times: bounded, forgetful, and each user's own; with a slow twin."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_high

from hypothesis import given
from hypothesis import strategies as st
from tests import effort

from kalends.federation.learned_runs import (
    JOBS_KEPT,
    PLACES_MAX,
    SHARE_MIN,
    UNKNOWN,
    USERS_MAX,
    JobRun,
    LearnedRuns,
)

USERS, WAYS, SITES = ("ann", "bob"), ("", "mpi"), ("east", "west")
ASKED = [(site, way) for site in SITES for way in (None, *WAYS)]
SHARES = st.floats(0, 2)
RUNS = st.builds(
    JobRun,
    st.sampled_from(USERS), st.sampled_from(WAYS), st.sampled_from(SITES), SHARES, st.booleans(),
)  # fmt: skip


def learning(runs: Sequence[JobRun]) -> LearnedRuns:
    known = LearnedRuns()
    for run in runs:
        known.note(run)
        known.check()
    return known


def bounded(share: float) -> float:
    return min(max(share, SHARE_MIN), 1.0)


class SlowTwin:
    """All runs, gone through from the beginning whenever somebody asks."""

    def __init__(self, runs: Sequence[JobRun], user: str) -> None:
        self.runs = [run for run in runs if run.user == user]

    def shares(self, way: str | None, site: str | None) -> list[float]:
        found: list[float] = []
        for number, run in enumerate(self.runs):
            if way not in (None, run.implementation) or site not in (None, run.site):
                continue
            before = SlowTwin(self.runs[:number], run.user)
            if run.whole or bounded(run.share) > before.learned(way, site)[0]:
                found.append(bounded(run.share))
        return found[-JOBS_KEPT:]

    def learned(self, way: str | None, site: str | None) -> tuple[float, int]:
        for place in ((way, site), (None, site), (None, None)):
            if shares := self.shares(*place):
                return median_high(shares), len(shares)
        return 1.0, 0


@given(st.lists(RUNS, max_size=8))
def test_what_is_learned_is_what_a_slow_twin_finds(runs: list[JobRun]) -> None:
    known = learning(runs)
    effort.steps["learned run times"] += len(runs)
    for user in USERS:
        for site, way in ASKED:
            assert known.learned(user, site, way) == SlowTwin(runs, user).learned(way, site)


@given(st.lists(RUNS, max_size=60))
def test_it_lies_between_the_shortest_and_the_longest_that_this_user_has_had(
    runs: list[JobRun],
) -> None:
    known = learning(runs)
    for user in USERS:
        seen = [bounded(run.share) for run in runs if run.user == user]
        for site, way in ASKED:
            found = known.learned(user, site, way)
            assert found == UNKNOWN or min(seen) <= found.share <= max(seen)
            assert found.jobs <= min(len(seen), JOBS_KEPT)


@given(st.lists(RUNS, max_size=40), RUNS, SHARES)
def test_after_as_many_new_ones_nothing_of_the_old_is_left(
    runs: list[JobRun], last: JobRun, share: float
) -> None:
    known = learning([*runs, *[last._replace(share=share, whole=True)] * JOBS_KEPT])
    found = known.learned(last.user, last.site, last.implementation)
    assert found == (bounded(share), JOBS_KEPT)


@given(st.lists(RUNS, max_size=40), st.integers(0, 7), SHARES)
def test_few_outliers_move_it_no_further_than_the_others_reach(
    runs: list[JobRun], outliers: int, share: float
) -> None:
    usual = [JobRun("ann", "mpi", "east", 0.3, whole=True)] * (JOBS_KEPT - outliers)
    odd = [JobRun("ann", "mpi", "east", share, whole=True)] * outliers
    assert learning([*runs, *usual, *odd]).learned("ann", "east", "mpi").share == 0.3


@given(st.lists(RUNS, max_size=30), st.lists(SHARES, max_size=20))
def test_a_site_where_nothing_succeeds_never_looks_faster_than_before(
    runs: list[JobRun], failed: list[float]
) -> None:
    elsewhere = [run._replace(site="east") for run in runs]
    before = learning(elsewhere).learned("ann", "west", "mpi").share
    at_west = [JobRun("ann", "mpi", "west", share, whole=False) for share in failed]
    assert learning([*elsewhere, *at_west]).learned("ann", "west", "mpi").share >= before


@given(st.lists(RUNS, max_size=30))
def test_jobs_of_another_user_count_for_nothing(runs: list[JobRun]) -> None:
    known, alone = learning(runs), learning([run for run in runs if run.user == "ann"])
    for site, way in ASKED:
        assert known.learned("ann", site, way) == alone.learned("ann", site, way)


def test_a_job_that_was_ended_counts_where_it_ran_longer_than_is_known() -> None:
    short = JobRun("ann", "", "east", 0.2, whole=True)
    ended = short._replace(share=0.1, whole=False)
    assert learning([short, ended]).learned("ann", "east") == (0.2, 1)
    assert learning([short, ended._replace(share=1.0)]).learned("ann", "east") == (1.0, 2)


def test_what_was_noted_longest_ago_is_forgotten_of_users_and_of_each_of_them() -> None:
    known = LearnedRuns()
    for number in range(USERS_MAX + 1):
        known.note(JobRun(f"user-{number}", "", "east", 0.5, whole=True))
    assert known.learned("user-0", "east") == UNKNOWN
    for number in range(PLACES_MAX):
        known.note(JobRun("user-1", f"way-{number}", "east", 0.25, whole=True))
    known.check()
    assert known.learned("user-1", "east", "way-0").jobs == JOBS_KEPT, "by all of its jobs there"
    assert known.learned("user-1", "east", f"way-{PLACES_MAX - 1}") == (0.25, 1)
    assert known.learned("user-2", "east") == (0.5, 1)
