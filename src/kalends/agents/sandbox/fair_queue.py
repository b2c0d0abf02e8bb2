"""A bounded queue, fair to users: they take turns, however much one of them asks for."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First come, first served among the requests of one user; users take turns.

    A user who has one request waiting is served before anybody's second. At most `length_max` wait,
    and `per_user_max` of one user.
    """

    def __init__(self, length_max: int, per_user_max: int) -> None:
        self._length_max = length_max
        self._per_user_max = per_user_max
        self._users: OrderedDict[str, deque[T]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, user: str, item: T) -> bool:
        """Queue `item`; return false, and queue nothing, if all places or all of `user` are taken."""
        mine = self._users.get(user, deque())
        if self._length >= self._length_max or len(mine) >= self._per_user_max:
            return False
        mine.append(item)
        self._users[user] = mine
        self._length += 1
        return True

    def pop(self) -> T | None:
        """Return the next item; its user goes to the end of the row."""
        if not self._users:
            return None
        user, mine = next(iter(self._users.items()))
        item = mine.popleft()
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

    def _forget_if_empty(self, user: str) -> None:
        if not self._users[user]:
            del self._users[user]
