"""Bounds of starts against their definitions: recomputed from the whole history, and by the plainest way."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.scheduling.job import Job
from kalends.scheduling.prediction import learner as learner_module
from kalends.scheduling.prediction.learner import (
    GAINS,
    KNOWN_MIN,
    LEVEL_MAX,
    LEVEL_MIN,
    SHARES,
    AdaptiveLevel,
    Learner,
    WaitHistory,
    censored_quantile,
)
from kalends.scheduling.prediction.run_times import RunTimes

values = st.lists(st.integers(0, 12).map(float), max_size=12).map(sorted)


def redistributed_to_the_right(known: list[float], at_least: list[float], level: float) -> float:
    """Efron 1967: every open value hands its weight on to all that are greater, in equal parts."""
    # A known value comes before an open one of the same size.
    points = sorted([(value, 0) for value in known] + [(value, 1) for value in at_least])
    weights = [1 / len(points) for _ in points]
    reached = 0.0
    for place, (value, is_open) in enumerate(points):
        after = len(points) - place - 1
        if is_open:
            for later in range(place + 1, len(points)):
                weights[later] += weights[place] / after
        else:
            reached += weights[place]
            if reached >= level - 1e-9:
                return value
    return inf


@settings(max_examples=effort.examples(400), deadline=None)
@given(values, values, st.sampled_from((0.05, 0.33, 0.5, 0.71, 0.9, 0.99)))
def test_the_censored_quantile_is_that_of_weight_handed_on_to_the_right(
    known: list[float], at_least: list[float], level: float
) -> None:
    effort.steps["censored quantiles"] += 1
    expected = redistributed_to_the_right(known, at_least, level) if known else inf
    assert censored_quantile(known, at_least, level) == expected


def test_a_job_that_still_waits_makes_the_quantile_later_and_never_earlier() -> None:
    known = [1.0, 2.0, 3.0, 4.0]
    assert censored_quantile(known, [], 0.5) == 2.0
    assert censored_quantile(known, [1.5, 1.5], 0.5) == 3.0
    assert censored_quantile(known, [9.0] * 9, 0.5) == inf


@given(
    st.lists(st.booleans(), min_size=200, max_size=600),
    st.sampled_from(list(zip(SHARES, GAINS, strict=True))),
)
def test_the_level_holds_the_share_whatever_happens_while_it_is_within_its_limits(
    outcomes: list[bool], of: tuple[float, float]
) -> None:
    share, gain = of
    level = AdaptiveLevel(share, gain)
    for place, within in enumerate(outcomes, start=1):
        level.learn(within)
        if not LEVEL_MIN < level.level < LEVEL_MAX:
            return
        moved = gain * (share * place - sum(outcomes[:place]))
        assert abs(level.level - share - moved) < 1e-9


class Twin:
    """A learner that keeps everything that ever happened, and works all out anew each time."""

    def __init__(self) -> None:
        self.made: list[tuple[int, WaitHistory, int, tuple[int, ...]]] = []
        """Number, waits, time, bounds."""
        self.ended: list[tuple[int, int, bool]] = []
        """Number, time, whether it started."""

    def end_of(self, number: int) -> tuple[int, bool] | None:
        return next(((at, began) for each, at, began in self.ended if each == number), None)

    def level(self, which: int, now: int) -> float:
        """Outcomes in the order in which they became known: passed bounds first, then starts."""
        outcomes = []
        for number, _, _, bounds in self.made:
            end, bound_s = self.end_of(number), bounds[which]
            place = next((at for at, each in enumerate(self.ended) if each[0] == number), -1)
            if (end is None or end[0] > bound_s) and bound_s < now:
                outcomes.append(((bound_s, 0, number), False))
            elif end is not None and end[1] and end[0] <= bound_s:
                outcomes.append(((end[0], 1, place), True))
        level = SHARES[which]
        for _, within in sorted(outcomes):
            moved = level + GAINS[which] * (SHARES[which] - within)
            level = min(max(moved, LEVEL_MIN), LEVEL_MAX)
        return level

    def bounds(self, waits: WaitHistory, now: int) -> tuple[int, ...]:
        for kind in (0, 1):
            alike = [each for each in self.made if each[1].kinds[kind] == waits.kinds[kind]]
            scores = self.scores_of(alike)
            if len(scores) >= KNOWN_MIN:
                break
        else:
            return now + waits.expected_s, now + max(waits.expected_s, waits.requested_s)
        open_scores = sorted(
            told.score(now - made_s)
            for number, told, made_s, _ in alike
            if self.end_of(number) is None
        )
        found = []
        for which in range(len(SHARES)):
            score = censored_quantile(scores, open_scores, self.level(which, now))
            if which:
                score = score / 2 + waits.score(waits.requested_s) / 2
            found.append(now + waits.wait_s(score))
        return found[0], max(found)

    def scores_of(self, alike: list[tuple[int, WaitHistory, int, tuple[int, ...]]]) -> list[float]:
        """The last scores of these, ascending."""
        scores = []
        for number, at, began in self.ended:
            if began:
                scores += [each[1].score(at - each[2]) for each in alike if each[0] == number]
        return sorted(scores[-learner_module.WINDOW :])


@settings(max_examples=effort.examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_bounds_are_those_recomputed_from_the_whole_history(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Few, so that the oldest are forgotten in a short history.
        patch.setattr(learner_module, "WINDOW", 25)
        compare_histories(Random(seed))


def compare_histories(random: Random) -> None:
    """Tell a learner and its twin of 200 jobs, and compare what they say to each."""
    learner, twin = Learner(), Twin()
    now, waiting = 0, list[int]()
    for number in range(200):
        now += random.randrange(40)
        while waiting and random.random() < 0.5:
            ended = waiting.pop(random.randrange(len(waiting)))
            began = random.random() < 0.9
            if began:
                learner.started(ended, now)
            else:
                learner.advance(now)
                learner.withdrawn(ended)
            twin.ended.append((ended, now, began))
        expected_s = random.choice((50, 60, 100))
        nodes = random.choice((1, 1, 1, 3))
        waits = WaitHistory(expected_s, expected_s + random.choice((0, 10, 400)), nodes)
        effort.steps["learned bounds"] += 1
        learner.advance(now)
        told = twin.bounds(waits, now)
        assert learner.bounds(waits, now) == told
        assert learner.predict(number, waits, now) == told
        twin.made.append((number, waits, now, told))
        waiting.append(number)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(-3, 3), st.floats(-3, 3))
def test_waits_grow_with_scores_and_have_limits(
    expected_s: int, requested_s: int, one: float, other: float
) -> None:
    waits = WaitHistory(expected_s, requested_s, 1)
    low, high = sorted((waits.wait_s(one), waits.wait_s(other)))
    assert (waits.wait_s(min(one, other)), waits.wait_s(max(one, other))) == (low, high)
    assert low >= 0
    assert waits.wait_s(inf) <= 2 * (max(expected_s, requested_s) + 60)
    assert abs(waits.wait_s(0.0) - expected_s) <= 1


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_p50_is_what_was_learned_and_p90_lies_between_that_and_the_requested_times(
    expected_s: int, requested_s: int, wait_s: int
) -> None:
    learner, waits = Learner(), WaitHistory(expected_s, requested_s, 1)
    for number in range(KNOWN_MIN):
        learner.predict(number, waits, 0)
    for number in range(KNOWN_MIN):
        learner.started(number, wait_s)
    p50_s, p90_s = (bound_s - wait_s for bound_s in learner.bounds(waits, wait_s))
    most_s = 2 * (max(expected_s, requested_s) + 60)
    assert min(wait_s, most_s) - 61 <= p50_s <= wait_s
    low_s, high_s = sorted((requested_s, wait_s))
    assert p50_s <= p90_s
    assert min(low_s, most_s) - 1 <= p90_s <= max(high_s, p50_s)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 99)), max_size=30))
def test_a_guess_is_the_mean_of_the_last_two_runs_of_that_user(
    runs: list[tuple[int, int, int]],
) -> None:
    learned = RunTimes()
    for number, (user, requested, run_s) in enumerate(runs):
        job = Job(number, 0, 1, requested * 100, user=user, start_s=7)
        learned.ended(job, 7 + run_s)
    for user in range(4):
        for requested in range(1, 4):
            alike = [run_s for one, asked, run_s in runs if (one, asked) == (user, requested)]
            alike = alike or [run_s for one, _, run_s in runs if one == user]
            last = alike[-2:] if len(alike) > 1 else alike * 2
            guess = learned.guess(Job(99, 0, 1, requested * 100, user=user))
            assert guess == (max(sum(last) // 2, 1) if last else requested * 100)


def test_a_job_that_outruns_its_guess_is_expected_step_by_step_until_its_limit() -> None:
    learned = RunTimes()
    learned.ended(Job(1, 0, 1, 1000, user=1, start_s=0), 100)
    job = Job(2, 0, 1, 1000, user=1, start_s=0, until_s=1000)
    ends = [learned.expected_end(job, now) for now in (0, 99, 100, 159, 160, 400, 999, 1000)]
    assert ends == [100, 100, 160, 160, 400, 1000, 1000, 1000]
