"""The outbox: letters wait, are tried, tried again later, and given up after a day.

Nothing here sends or stores anything. A letter that is posted comes out as one to be stored; when it is
(`stored`) it is due. What is due comes out as a try, whose end is told by `sent` or `failed`: until then it
is under way, and no more than `at_once` letters of a way are. A letter that was neither sent nor given up
before a crash comes back from the store, and is sent then, perhaps again.

A way that is blocked (a relay that is away) is tried by one letter at a time, after growing pauses, the next
time by another letter: one that its receiver cannot take holds up no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

from msgspec import structs

from kalends.notices.letter import FailedTry, Letter, utc_text

HOUR_S: Final = 3_600


class OutboxTerms(NamedTuple):
    """How often letters are tried and when they are given up; how many there may be."""

    pause_s: int = 30
    """After the first try; twice as long after each further one, up to `pause_s_max`."""
    pause_s_max: int = HOUR_S
    give_up_s: int = 86_400
    at_once: int = 2
    """Letters of one way that are under way."""
    waiting_max: int = 10_000
    hourly_max: int = 60
    """Letters to one user in an hour."""


class Loss(NamedTuple):
    """Nobody will get this letter; `first` of its kind, so that it is worth a line in the log."""

    letter: Letter
    why: str
    first: bool = True


@dataclass(slots=True)
class OutboxEffects:
    """What is to be done: first `kept` is to be stored."""

    kept: list[Letter] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """To be removed from the store: the ids of letters that are sent or lost."""
    tries: list[Letter] = field(default_factory=list)
    sent: int = 0
    lost: list[Loss] = field(default_factory=list)
    ways: dict[str, str] = field(default_factory=dict)
    """Ways that are blocked since, and why; or that are free again ("")."""


@dataclass(slots=True)
class _Waiting:
    letter: Letter
    tries: int = 0


@dataclass(slots=True)
class _Way:
    letters: dict[str, _Waiting] = field(default_factory=dict)
    """All, in the order in which they came."""
    due: list[tuple[int, int, str]] = field(default_factory=list)
    """Those that are not under way, by the time of their next try."""
    under_way: set[str] = field(default_factory=set)
    failures: int = 0
    """Since it was blocked."""
    blocked_until_s: int = 0

    def next_due_s(self, terms: OutboxTerms) -> int | None:
        """Return when `Outbox.advance` has something to do here; None: only after a try has ended."""
        if not self.failures:
            return self.due[0][0] if self.due and len(self.under_way) < terms.at_once else None
        if self.under_way or not self.due:
            return None
        oldest = next(iter(self.letters.values())).letter
        return min(max(self.blocked_until_s, self.due[0][0]), oldest.made_s + terms.give_up_s)


class Outbox:
    """All letters of a site that are neither sent nor given up; `letters` are those that were stored.

    Not thread-safe. `now` is in whole seconds UTC, `chance` between 0 and 1: it spreads the pauses.
    """

    def __init__(
        self, terms: OutboxTerms, chance: Callable[[], float], letters: Iterable[Letter], now: int
    ) -> None:
        self._terms = terms
        self._chance = chance
        self._effects = OutboxEffects()
        self._unstored: dict[str, Letter] = {}
        self._ways: dict[str, _Way] = {}
        self._order = 0
        self._hour = 0
        self._this_hour: Counter[str] = Counter()
        self._full = False
        for letter in letters:
            self._take(letter, now)
        self._try_due(now)

    def __len__(self) -> int:
        """Return how many letters are neither sent nor lost."""
        return len(self._unstored) + sum(len(way.letters) for way in self._ways.values())

    def take_effects(self) -> OutboxEffects:
        """Return all effects since the last call."""
        taken, self._effects = self._effects, OutboxEffects()
        return taken

    def post(self, letter: Letter, now: int) -> None:
        """Take a letter, or drop it where there are too many; one that is here already changes nothing."""
        way = self._ways.get(letter.way)
        if letter.id in self._unstored or (way is not None and letter.id in way.letters):
            return
        if len(self) >= self._terms.waiting_max:
            self._lose(letter, f"{self._terms.waiting_max} notices wait", first=not self._full)
            self._full = True
            return
        self._full = False
        if now // HOUR_S != self._hour:
            self._hour = now // HOUR_S
            self._this_hour.clear()
        self._this_hour[letter.user] += 1
        over = self._this_hour[letter.user] - self._terms.hourly_max
        if over > 0:
            why = f"{letter.user} has had {self._terms.hourly_max} notices in this hour"
            self._lose(letter, why, first=over == 1)
            return
        if over == 0:
            letter = structs.replace(letter, text=letter.text + _last_of_hour(self._terms, now))
        self._unstored[letter.id] = letter
        self._effects.kept.append(letter)

    def stored(self, ids: Iterable[str], now: int) -> None:
        """These letters are durable: they may be sent."""
        for each in ids:
            letter = self._unstored.pop(each, None)
            if letter is not None:
                self._take(letter, now)
        self._try_due(now)

    def sent(self, letter: Letter, now: int) -> None:
        """A try has succeeded."""
        way = self._ended(letter)
        if way is not None:
            self._free(letter.way, way)
            self._effects.sent += 1
            self._drop(way, letter.id)
            self._try_due(now)

    def failed(self, letter: Letter, failure: FailedTry, now: int) -> None:
        """A try has failed: the letter waits for the next one, or is given up."""
        way = self._ended(letter)
        if way is None:
            return
        if failure.kind == "blocked":
            self._block(letter.way, way, failure.why, now)
        else:
            self._free(letter.way, way)
        too_old = now >= letter.made_s + self._terms.give_up_s
        if failure.kind == "refused" or too_old:
            self._drop(way, letter.id)
            self._lose(letter, failure.why)
        else:
            waiting = way.letters[letter.id]
            self._wait(way, letter.id, now + self._pause_s(waiting.tries))
        self._try_due(now)

    def advance(self, now: int) -> None:
        """Let time pass: call it when `next_due_s` has come."""
        for way in self._ways.values():
            if way.failures:
                self._give_up_old(way, now)
        self._try_due(now)

    def next_due_s(self) -> int | None:
        """Return when `advance` is due without another event before; None: never."""
        times = [way.next_due_s(self._terms) for way in self._ways.values()]
        return min((each for each in times if each is not None), default=None)

    def _take(self, letter: Letter, now: int) -> None:
        way = self._ways.setdefault(letter.way, _Way())
        way.letters[letter.id] = _Waiting(letter)
        self._wait(way, letter.id, now)

    def _wait(self, way: _Way, letter: str, due_s: int) -> None:
        self._order += 1
        heappush(way.due, (due_s, self._order, letter))

    def _try_due(self, now: int) -> None:
        for way in self._ways.values():
            blocked = way.failures > 0
            at_once = 1 if blocked else self._terms.at_once
            if blocked and now < way.blocked_until_s:
                continue
            while len(way.under_way) < at_once and way.due and way.due[0][0] <= now:
                _, _, each = heappop(way.due)
                waiting = way.letters[each]
                waiting.tries += 1
                way.under_way.add(each)
                self._effects.tries.append(waiting.letter)

    def _ended(self, letter: Letter) -> _Way | None:
        """Return the way of a letter whose try has ended; None if none was under way."""
        way = self._ways.get(letter.way)
        if way is None or letter.id not in way.under_way:
            return None
        way.under_way.remove(letter.id)
        return way

    def _block(self, name: str, way: _Way, why: str, now: int) -> None:
        if way.failures and now < way.blocked_until_s:
            return  # It was under way when another one found out.
        way.failures += 1
        way.blocked_until_s = now + self._pause_s(way.failures)
        if way.failures == 1:
            self._effects.ways[name] = why

    def _free(self, name: str, way: _Way) -> None:
        if way.failures:
            way.failures = 0
            self._effects.ways[name] = ""

    def _give_up_old(self, way: _Way, now: int) -> None:
        """Give up what is too old to be told, also without another try: there is no way."""
        old = set()
        for each, waiting in way.letters.items():
            if now < waiting.letter.made_s + self._terms.give_up_s:
                break
            if each not in way.under_way:
                old.add(each)
        if old:
            way.due = sorted(entry for entry in way.due if entry[2] not in old)
        for each in sorted(old):
            letter = way.letters[each].letter
            self._drop(way, each)
            self._lose(letter, f"{letter.way} is blocked")

    def _drop(self, way: _Way, letter: str) -> None:
        del way.letters[letter]
        self._effects.done.append(letter)

    def _lose(self, letter: Letter, why: str, *, first: bool = True) -> None:
        self._effects.lost.append(Loss(letter, why, first))

    def _pause_s(self, tries: int) -> int:
        """Return how long to wait after so many tries; by chance up to half as much again."""
        pause_s = min(self._terms.pause_s << min(tries - 1, 20), self._terms.pause_s_max)
        return pause_s + int(pause_s * self._chance() / 2)


def _last_of_hour(terms: OutboxTerms, now: int) -> str:
    next_hour = utc_text((now // HOUR_S + 1) * HOUR_S)
    return (
        f"\nThis is the last of {terms.hourly_max} notices that you get in an hour:"
        f" what happens until {next_hour} is not told.\n"
    )
