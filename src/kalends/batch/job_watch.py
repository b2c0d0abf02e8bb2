"""Callers who wait for news of one job or of all their jobs, and what counts as news."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from kalends.contract.job_calls import JobView, WatchJob

MOVED_S: Final = 60
MOVED_PART: Final = 0.1
"""An expected start that moves by no more, or by no more than this part of the wait, is no news."""

REMEMBERED_MAX: Final = 20_000
"""Jobs of a machine whose last move is remembered; who is further behind looks at all of theirs."""

ANSWER_MAX: Final = 1_000
"""Jobs in one answer; the next call brings the next ones."""


def is_news(view: JobView, known: WatchJob, now: int) -> bool:
    """Return whether a job differs from what is `known` of it, so that its user would want to hear of it."""
    if (view.phase, view.attempt) != (known.phase, known.attempt):
        return True
    expected = view.predicted.expected if view.predicted is not None else 0
    if not (expected and known.expected):
        return expected != known.expected
    moved_s = abs(expected - known.expected)
    return moved_s > MOVED_S and moved_s > MOVED_PART * (known.expected - now)


class JobMoves(NamedTuple):
    """Jobs that have moved up to `after`, by when they last did; `skipped`: perhaps others, too."""

    after: int
    numbers: tuple[int, ...] = ()
    skipped: bool = False


class JobWatch:
    """Jobs that moved in this life of the site, and the callers that wait for them. In memory only."""

    def __init__(self) -> None:
        self.life = ""
        self._last = 0
        self._moves: defaultdict[str, OrderedDict[int, tuple[int, str]]] = defaultdict(OrderedDict)
        """By machine and job: when it last moved, and its user; in that order."""
        self._forgotten: defaultdict[str, int] = defaultdict(int)
        """By machine: up to which move not all are remembered."""
        self._waiting: defaultdict[tuple[str, int | str], dict[asyncio.Event, None]] = defaultdict(
            dict
        )
        """By machine, and a job's number or a user's name."""

    def begin(self, life: str = "") -> None:
        """Begin a `life`, of a name that none had before: nobody can go on from what they know."""
        self.life = life or secrets.token_hex(8)
        self._moves.clear()
        self._forgotten.clear()
        for events in self._waiting.values():
            for event in events:
                event.set()

    @contextmanager
    def of(self, machine: str, whose: int | str) -> Iterator[asyncio.Event]:
        """Provide an event that is set whenever the job of this number, or any of this user, has moved."""
        name, event = (machine, whose), asyncio.Event()
        self._waiting[name][event] = None
        try:
            yield event
        finally:
            del self._waiting[name][event]
            if not self._waiting[name]:
                del self._waiting[name]

    def moved(self, machine: str, users: Mapping[int, str]) -> None:
        """Note that these jobs have moved, with the user of each, and wake those who wait for them."""
        moves = self._moves[machine]
        for number, user in users.items():
            self._last += 1
            moves[number] = (self._last, user)
            moves.move_to_end(number)
        while len(moves) > REMEMBERED_MAX:
            _, (self._forgotten[machine], _) = moves.popitem(last=False)
        concerned: tuple[int | str, ...] = (*users, *users.values())
        for each in dict.fromkeys(concerned):
            for event in self._waiting.get((machine, each), ()):
                event.set()

    def since(self, machine: str, user: str, life: str, after: int) -> JobMoves:
        """Return which jobs of `user` have moved after the move `after` of a `life`."""
        if life != self.life or not self._forgotten[machine] <= after <= self._last:
            return JobMoves(self._last, skipped=True)
        found: list[tuple[int, int]] = []
        for number, (move, whose) in reversed(self._moves[machine].items()):
            if move <= after:
                break
            if whose == user:
                found.append((move, number))
        found = found[::-1][:ANSWER_MAX]
        upto = found[-1][0] if len(found) == ANSWER_MAX else self._last
        return JobMoves(upto, tuple(number for _, number in found))
