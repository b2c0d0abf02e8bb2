"""Whose turn it is and what it may cost: the queue, the budgets and the suspensions, beside slow twins."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kalends.agents.sandbox.budgets import SWEEP_EVERY, Budgets, Suspensions
from kalends.agents.sandbox.fair_queue import FairQueue

LENGTH_MAX, PER_USER_MAX = 6, 3

users = st.sampled_from(["ada", "bob", "cyd", "dee"])


class QueueMachine(RuleBasedStateMachine):
    """The queue beside a list of (user, item) and a list of users in the order of their turns."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: FairQueue[int] = FairQueue(LENGTH_MAX, PER_USER_MAX)
        self.waiting: list[tuple[str, int]] = []
        self.row: list[str] = []
        self.made = 0

    @rule(user=users)
    def push(self, user: str) -> None:
        self.made += 1
        mine = [item for owner, item in self.waiting if owner == user]
        room = len(self.waiting) < LENGTH_MAX and len(mine) < PER_USER_MAX
        assert self.queue.push(user, self.made) is room
        if room:
            self.waiting.append((user, self.made))
            if user not in self.row:
                self.row.append(user)

    @rule()
    def pop(self) -> None:
        found = self.queue.pop()
        if not self.row:
            assert found is None
            return
        user = self.row.pop(0)
        first = next(item for owner, item in self.waiting if owner == user)
        assert found == first
        self.waiting.remove((user, first))
        if any(owner == user for owner, _ in self.waiting):
            self.row.append(user)

    @rule(data=st.data(), user=users)
    def remove(self, data: st.DataObject, user: str) -> None:
        item = data.draw(st.integers(1, self.made + 1))
        there = (user, item) in self.waiting
        # The queue knows items by identity: small integers are one object each.
        assert self.queue.remove(user, item) is there
        if there:
            self.waiting.remove((user, item))
            if all(owner != user for owner, _ in self.waiting):
                self.row.remove(user)

    @invariant()
    def as_long_as_its_twin(self) -> None:
        assert len(self.queue) == len(self.waiting)


TestQueue: Any = QueueMachine.TestCase


def test_a_crowd_of_one_user_does_not_keep_another_waiting() -> None:
    queue: FairQueue[str] = FairQueue(100, 50)
    for number in range(50):
        assert queue.push("crowd", f"crowd {number}")
    assert queue.push("ada", "ada 0")
    assert [queue.pop(), queue.pop()] == ["crowd 0", "ada 0"]


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
