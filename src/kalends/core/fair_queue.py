"""A bounded, fair queue: the user with the least use is next, and the one with most items makes room."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue that takes one user's requests in order, and first those of the user with the least use.

    `used` returns the recent use of a user; users with equal use take turns. At most `length_max` items wait,
    and `per_user_max` of one user. If all places are taken, the newest item of the user with the most of them
    makes room for an item of a user with fewer, so that no user can keep others out.
    """

    def __init__(
        self, length_max: int, per_user_max: int, used: Callable[[str], float] = lambda user: 0.0
    ) -> None:
        self._length_max = length_max
        self._per_user_max = per_user_max
        self._used = used
        self._users: OrderedDict[str, deque[T]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, user: str, item: T) -> T | None:
        """Queue `item`; return the item that has lost its place: another, `item` itself, or None."""
        mine = self._users.get(user, deque())
        if len(mine) >= self._per_user_max:
            return item
        put_out = None
        if self._length >= self._length_max:
            greedy = max(self._users, key=self._weight, default=user)
            if self._weight(greedy) <= (len(mine) + 1, self._used(user)):
                return item
            put_out = self._users[greedy].pop()
            self._length -= 1
            self._forget_if_empty(greedy)
        mine.append(item)
        self._users[user] = mine
        self._length += 1
        return put_out

    def pop(self) -> T | None:
        """Return the next item; its user goes to the end of the round."""
        if not self._users:
            return None
        user = min(self._users, key=self._used)
        item = self._users[user].popleft()
        self._length -= 1
        self._users.move_to_end(user)
        self._forget_if_empty(user)
        return item

    def remove(self, user: str, item: T) -> bool:
        """Remove `item` of `user`; return False if it is not in the queue."""
        mine = self._users.get(user, deque())
        for place, waiting in enumerate(mine):
            if waiting is item:
                del mine[place]
                self._length -= 1
                self._forget_if_empty(user)
                return True
        return False

    def _weight(self, user: str) -> tuple[int, float]:
        return len(self._users[user]), self._used(user)

    def _forget_if_empty(self, user: str) -> None:
        if not self._users[user]:
            del self._users[user]
