"""A bounded queue that is fair to users: who has used least is next, and who asks for most makes room."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First come, first served among the requests of one user; of users, who has used least comes first.

    `used` tells how much a user has used lately; where that is the same, users take turns. At most
    `length_max` wait, and `per_user_max` of one user. When all places are taken, the newest request of the
    user with the most of them makes room for that of a user with fewer: nobody's crowd keeps another out.
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
        """Queue `item`; return what has no place instead: that of another, `item` itself, or None."""
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
        """Return the next item; its user goes to the end of the row."""
        if not self._users:
            return None
        user = min(self._users, key=self._used)
        item = self._users[user].popleft()
        self._length -= 1
        self._users.move_to_end(user)
        self._forget_if_empty(user)
        return item

    def remove(self, user: str, item: T) -> bool:
        """Take `item` of `user` out, wherever it stands; False when it is not there."""
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
