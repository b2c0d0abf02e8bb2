"""The sessions of one application, and the choice of one to close when all places are taken.

With a common bound alone, one user could take every place. So the user with the most sessions gives
one up for a user who would have fewer.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.core.errors import LimitExceeded
from kalends.serving.http.sessions import Session


class OpenSessions:
    """Sessions by their users, at most `sessions_max` of all together."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._of: dict[str, dict[Session, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __iter__(self) -> Iterator[Session]:
        for sessions in self._of.values():
            yield from sessions

    def make_room(self, user: str) -> None:
        """Make room for one more session of `user`; raises `LimitExceeded` if that is impossible.

        The user with the most sessions gives up the one with the fewest calls in flight, the oldest of those.
        """
        if len(self) < self._sessions_max:
            return
        greedy = max(self._of, key=lambda each: len(self._of[each]), default=user)
        if len(self._of.get(greedy, ())) <= len(self._of.get(user, ())) + 1:
            raise LimitExceeded(
                f"{self._sessions_max} sessions are open, the maximum of this server",
                remedy="close unused sessions, or try again later",
                retry_after_s=1.0,
            )
        session = min(self._of[greedy], key=lambda each: each.calls_in_flight)
        self.remove(greedy, session)
        session.give_way()

    def add(self, user: str, session: Session) -> None:
        self._of.setdefault(user, {})[session] = None

    def remove(self, user: str, session: Session) -> None:
        """Forget `session`, if it is there."""
        sessions = self._of.get(user, {})
        sessions.pop(session, None)
        if not sessions:
            self._of.pop(user, None)
