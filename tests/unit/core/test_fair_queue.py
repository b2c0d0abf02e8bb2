"""Whose turn it is, and who makes room: the queue beside a slow twin, and what it is there for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kalends.core.fair_queue import FairQueue

LENGTH_MAX, PER_USER_MAX = 6, 3

users = st.sampled_from(["ada", "bob", "cyd", "dee"])


class QueueMachine(RuleBasedStateMachine):
    """The queue beside a list of (user, item) and a list of users in the order of their turns."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[str, int] = {}
        self.queue: FairQueue[int] = FairQueue(
            LENGTH_MAX, PER_USER_MAX, lambda user: self.used.get(user, 0)
        )
        self.waiting: list[tuple[str, int]] = []
        self.row: list[str] = []
        self.made = 0

    def of(self, user: str) -> list[int]:
        return [item for owner, item in self.waiting if owner == user]

    @rule(user=users, used=st.integers(0, 2))
    def use(self, user: str, used: int) -> None:
        self.used[user] = used

    @rule(user=users)
    def push(self, user: str) -> None:
        self.made += 1
        put_out = self.queue.push(user, self.made)
        mine = self.of(user)
        if len(mine) >= PER_USER_MAX:
            assert put_out == self.made
            return
        if len(self.waiting) >= LENGTH_MAX:
            weights = {each: (len(self.of(each)), self.used.get(each, 0)) for each in self.row}
            greedy = max(self.row, key=weights.__getitem__)
            if weights[greedy] <= (len(mine) + 1, self.used.get(user, 0)):
                assert put_out == self.made
                return
            assert put_out == self.of(greedy)[-1]
            self.take(greedy, put_out)
        else:
            assert put_out is None
        self.waiting.append((user, self.made))
        if user not in self.row:
            self.row.append(user)

    @rule()
    def pop(self) -> None:
        found = self.queue.pop()
        if not self.row:
            assert found is None
            return
        least = min(self.used.get(each, 0) for each in self.row)
        user = next(each for each in self.row if self.used.get(each, 0) == least)
        assert found == self.of(user)[0]
        self.take(user, found)
        if user in self.row:
            self.row.remove(user)
            self.row.append(user)

    @rule(data=st.data(), user=users)
    def remove(self, data: st.DataObject, user: str) -> None:
        item = data.draw(st.integers(1, self.made + 1))
        there = (user, item) in self.waiting
        # The queue knows items by identity: small integers are one object each.
        assert self.queue.remove(user, item) is there
        if there:
            self.take(user, item)

    def take(self, user: str, item: int) -> None:
        self.waiting.remove((user, item))
        if not self.of(user):
            self.row.remove(user)

    @invariant()
    def as_long_as_its_twin(self) -> None:
        assert len(self.queue) == len(self.waiting)


TestQueue: Any = QueueMachine.TestCase


def test_a_crowd_of_one_user_does_not_keep_another_waiting() -> None:
    queue: FairQueue[str] = FairQueue(100, 50)
    for number in range(50):
        assert queue.push("crowd", f"crowd {number}") is None
    assert queue.push("ada", "ada 0") is None
    assert [queue.pop(), queue.pop()] == ["crowd 0", "ada 0"]


@given(st.integers(2, 12))
def test_a_user_with_one_request_finds_a_place_whatever_ten_others_have_queued(
    accounts: int,
) -> None:
    queue: FairQueue[str] = FairQueue(20, 20)
    for number in range(40 * accounts):
        queue.push(f"greedy {number % accounts}", f"{number}")
    assert queue.push("ada", "ada 0") != "ada 0"
    assert "ada 0" in [queue.pop() for _ in range(len(queue))]


def test_who_has_used_least_is_next() -> None:
    used = {"greedy": 8.0, "ada": 0.1}
    queue: FairQueue[str] = FairQueue(20, 20, used.__getitem__)
    for number in range(5):
        queue.push("greedy", f"greedy {number}")
    queue.push("ada", "ada 0")
    assert queue.pop() == "ada 0"
