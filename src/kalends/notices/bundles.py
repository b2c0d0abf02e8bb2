"""Number of deliveries to a user: one for each notice, until there are too many in a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kalends.notices.request_notice import RequestNotice

MINUTE_S: Final = 60

BUNDLE_MAX: Final = 50
"""Notices in one delivery."""


class Bundler:
    """Allows each user `minute_max` deliveries in a minute; the last of them tells all that waits."""

    def __init__(self, minute_max: int) -> None:
        self._minute_max = minute_max
        self._minute = 0
        self._had: Counter[str] = Counter()

    @property
    def at_once_max(self) -> int:
        """Return the maximum number of notices of a user in one delivery."""
        return self._minute_max - 1 + BUNDLE_MAX

    def bundles(self, notices: Mapping[int, RequestNotice], now_s: int) -> list[tuple[int, ...]]:
        """Return the numbers of those `notices` that are due, in order, each tuple of them for one delivery.

        What is in no bundle waits for the next minute. `now_s` is in seconds UTC.
        """
        if now_s // MINUTE_S != self._minute:
            self._minute = now_s // MINUTE_S
            self._had.clear()
        of_users: dict[str, list[int]] = {}
        for number, notice in notices.items():
            of_users.setdefault(notice.user, []).append(number)
        found: list[tuple[int, ...]] = []
        for user, numbers in of_users.items():
            made = _bundled(numbers, self._minute_max - self._had[user])
            self._had[user] += len(made)
            found += made
        return found


def _bundled(numbers: list[int], left: int) -> list[tuple[int, ...]]:
    """Return bundles of `numbers`, at most `left`."""
    if left <= 0:
        return []
    if len(numbers) <= left:
        return [(number,) for number in numbers]
    alone = [(number,) for number in numbers[: left - 1]]
    return [*alone, tuple(numbers[left - 1 : left - 1 + BUNDLE_MAX])]
