"""Calendar feeds: a user has a limited number, each under a name."""

from __future__ import annotations

from kalends.broker.register.rows import Rows
from kalends.broker.register.writes import ForgetFeed, KeepFeed


def keep_feed(rows: Rows, op: KeepFeed) -> int:
    user, name = op.feed.user, op.feed.name
    others = [each for each in rows.feeds_of(user) if each != name]
    if len(others) >= op.count_max:
        return 0
    rows.feeds[user, name] = op.feed
    return 1


def forget_feed(rows: Rows, op: ForgetFeed) -> int:
    known = rows.feeds.get((op.user, op.name)) is not None
    rows.feeds.pop((op.user, op.name), None)
    return int(known)
