"""What runs may cost, and who may run nothing: the budgets and the suspensions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.agents.sandbox.budgets import SWEEP_EVERY, Budgets, Crashes, Suspensions

users = st.sampled_from(["ada", "bob", "cyd", "dee"])


moments = st.lists(
    st.tuples(users, st.floats(0, 5), st.floats(0, 30)),
    max_size=60,
)


@given(moments, st.floats(0.01, 20))
def test_a_user_gets_the_budget_at_once_and_no_more_than_grows_back(
    charges: list[tuple[str, float, float]], per_minute: float
) -> None:
    budgets = Budgets(per_minute)
    now = 0.0
    used: dict[str, float] = {}
    largest: dict[str, float] = {}
    for user, cpu_s, later_s in charges:
        now += later_s
        if budgets.wait_s(user, now) == 0:
            budgets.charge(user, cpu_s, now)
            used[user] = used.get(user, 0.0) + cpu_s
            largest[user] = max(largest.get(user, 0.0), cpu_s)
    for user, total in used.items():
        # The last run may overdraw, once.
        assert total <= per_minute + now * per_minute / 60 + largest[user] + 1e-6


@given(moments, users, st.floats(0.01, 20))
def test_after_the_wait_that_was_named_a_user_may_run(
    charges: list[tuple[str, float, float]], user: str, per_minute: float
) -> None:
    budgets = Budgets(per_minute)
    now = 0.0
    for who, cpu_s, later_s in charges:
        now += later_s
        budgets.charge(who, cpu_s, now)
    assert budgets.wait_s(user, now + budgets.wait_s(user, now)) == 0


@given(moments, users)
def test_what_others_use_changes_nothing(
    charges: list[tuple[str, float, float]], user: str
) -> None:
    shared, alone = Budgets(10), Budgets(10)
    now = 0.0
    for who, cpu_s, later_s in charges:
        now += later_s
        shared.charge(who, cpu_s, now)
        if who == user:
            alone.charge(who, cpu_s, now)
    assert shared.left_s(user, now) == alone.left_s(user, now)


def test_budgets_that_have_grown_back_are_forgotten() -> None:
    budgets = Budgets(10)
    for number in range(3 * SWEEP_EVERY):
        budgets.charge(f"user {number}", 0.01, float(number))
    assert len(budgets) <= SWEEP_EVERY


def test_a_suspended_user_waits_to_the_end_and_not_longer() -> None:
    suspensions = Suspensions(600)
    suspensions.suspend("eve", 1_000)
    assert suspensions.wait_s("eve", 1_000) == 600
    assert suspensions.wait_s("eve", 1_599) == 1
    assert suspensions.wait_s("eve", 1_600) == 0
    assert suspensions.wait_s("ada", 1_000) == 0


def test_a_second_attack_counts_from_then() -> None:
    suspensions = Suspensions(600)
    suspensions.suspend("eve", 0)
    suspensions.suspend("eve", 500)
    assert suspensions.wait_s("eve", 600) == 500


def test_suspensions_that_are_over_are_forgotten() -> None:
    suspensions = Suspensions(600)
    for number in range(100):
        suspensions.suspend(f"user {number}", number * 601)
    assert len(suspensions) == 1


def test_crashes_of_a_user_are_counted_until_there_was_none_for_long() -> None:
    crashes = Crashes(600)
    assert [crashes.count("eve", now) for now in (0, 500, 1_000)] == [1, 2, 3]
    assert crashes.count("ada", 1_000) == 1
    assert crashes.count("eve", 1_601) == 1
    assert len(crashes) == 1
