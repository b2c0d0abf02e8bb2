"""The outbox: letters wait, are tried, tried again later, and given up after a day.

Nothing here sends or stores anything. A letter that is posted comes out as one to be stored; when it is
(`stored`) it is due. What is due comes out as a try, whose end is told by `sent` or `failed`: until then it
is under way, and no more than `at_once` letters of a way are. A letter that was neither sent nor given up
before a crash comes back from the store, and is sent then, perhaps again.

A way that is blocked (a relay that is away) is tried by one letter at a time, after growing pauses, the next
time by somebody else's letter if there is one. If that is taken, the way is free, and what does not answer
is one address: its letters wait, and no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from kalends.notices.letter import FailedTry, Letter, utc_text
from kalends.notices.ways import LetterLine, Pause, Way

HOUR_S: Final = 3_600


class OutboxTerms(NamedTuple):
    """Terms for letters: number of tries, time to give up, and maximum number."""

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
    """Ways, and single addresses, that are blocked since, and why; or that are free again ("")."""


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
        self._ways: dict[str, Way] = {}
        self._order = 0
        self._tried = 0
        self._hour = 0
        self._this_hour: Counter[str] = Counter()
        self._full = False
        for letter in letters:
            self._take(letter, now)
        self._try_due(now)

    def __len__(self) -> int:
        """Return how many letters are neither sent nor lost."""
        return len(self._unstored) + sum(map(len, self._ways.values()))

    def take_effects(self) -> OutboxEffects:
        """Return all effects since the last call."""
        taken, self._effects = self._effects, OutboxEffects()
        return taken

    def post(self, letter: Letter, now: int) -> None:
        """Take a letter, or drop it where there are too many; one that is here already changes nothing."""
        line = self._way(letter).line_of(letter)
        if letter.id in self._unstored or (line is not None and letter.id in line.letters):
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

    def take_up(self, letters: Iterable[Letter], now: int) -> None:
        """Take letters that are durable already; those that are here change nothing."""
        for letter in letters:
            line = self._way(letter).line_of(letter)
            if letter.id not in self._unstored and (line is None or letter.id not in line.letters):
                self._take(letter, now)
        self._try_due(now)

    def sent(self, letter: Letter, now: int) -> None:
        """A try has succeeded."""
        line = self._ended(letter)
        if line is not None:
            self._answered(self._way(letter), line, now)
            self._effects.sent += 1
            self._drop(line, letter)
            self._try_due(now)

    def failed(self, letter: Letter, failure: FailedTry, now: int) -> None:
        """A try has failed: the letter waits for the next one, or is given up."""
        line = self._ended(letter)
        if line is None:
            return
        if failure.kind == "blocked":
            self._block(self._way(letter), line, failure.why, now)
        else:
            self._answered(self._way(letter), line, now)
        too_old = now >= letter.made_s + self._terms.give_up_s
        if failure.kind == "refused" or too_old:
            self._drop(line, letter)
            self._lose(letter, failure.why)
        else:
            self._wait(line, letter.id, now + self._pause_s(line.letters[letter.id].tries))
        self._try_due(now)

    def advance(self, now: int) -> None:
        """Let time pass: call it when `next_due_s` has come."""
        for way in self._ways.values():
            self._give_up_old(way, now)
        self._try_due(now)

    def next_due_s(self) -> int | None:
        """Return when `advance` is due without another event before; None: never."""
        terms = self._terms
        times = [way.next_due_s(terms.at_once, terms.give_up_s) for way in self._ways.values()]
        return min((each for each in times if each is not None), default=None)

    def _way(self, letter: Letter) -> Way:
        return self._ways.setdefault(letter.way, Way(letter.way))

    def _take(self, letter: Letter, now: int) -> None:
        self._wait(self._way(letter).add(letter), letter.id, now)

    def _wait(self, line: LetterLine, letter: str, due_s: int) -> None:
        self._order += 1
        line.wait(due_s, self._order, letter)

    def _try_due(self, now: int) -> None:
        for way in self._ways.values():
            at_once = 1 if way.pause.failures else self._terms.at_once
            while len(way.under_way) < at_once and (line := way.next_line(now)) is not None:
                self._tried += 1
                letter = line.pop(self._tried).letter
                way.under_way.add(letter.id)
                self._effects.tries.append(letter)

    def _ended(self, letter: Letter) -> LetterLine | None:
        """Return the line of a letter whose try has ended; None if none was under way."""
        way = self._way(letter)
        if letter.id not in way.under_way:
            return None
        way.under_way.remove(letter.id)
        return way.line_of(letter)

    def _block(self, way: Way, line: LetterLine, why: str, now: int) -> None:
        """The way is blocked; or, if others were taken since this address did not answer, only that."""
        alone = line.pause.failures > 0 and not way.pause.failures
        # What is left alone already was under way when another one found out.
        if not line.pause.covers(now):
            line.pause.fail(now + self._pause_s(line.pause.failures + 1))
        if not alone:
            way.soon_s = now + self._pause_s(1)
            if not way.pause.covers(now):
                way.pause.fail(now + self._pause_s(way.pause.failures + 1))
                if way.pause.failures == 1:
                    self._effects.ways[way.name] = why
        if alone and not line.told:
            line.told = True
            self._effects.ways[_address_of(way, line)] = why

    def _answered(self, way: Way, line: LetterLine, now: int) -> None:
        line.pause = Pause()
        if way.answered(now):
            self._effects.ways[way.name] = ""
        self._end_told(way, line)

    def _end_told(self, way: Way, line: LetterLine) -> None:
        if line.told:
            line.told = False
            if not way.told_of(line.user):
                self._effects.ways[_address_of(way, line)] = ""

    def _give_up_old(self, way: Way, now: int) -> None:
        """Give up what is too old to be told, also without another try: there is no way."""
        for line in list(way.silent()):
            for letter in line.take_old(now - self._terms.give_up_s):
                self._effects.done.append(letter.id)
                self._lose(letter, f"{letter.way} is blocked")
            self._forget_empty(way, line)

    def _drop(self, line: LetterLine, letter: Letter) -> None:
        del line.letters[letter.id]
        self._effects.done.append(letter.id)
        self._forget_empty(self._way(letter), line)

    def _forget_empty(self, way: Way, line: LetterLine) -> None:
        if not line.letters:
            self._end_told(way, line)
            way.forget(line)

    def _lose(self, letter: Letter, why: str, *, first: bool = True) -> None:
        self._effects.lost.append(Loss(letter, why, first))

    def _pause_s(self, tries: int) -> int:
        """Return how long to wait after so many tries; by chance up to half as much again."""
        pause_s = min(self._terms.pause_s << min(tries - 1, 20), self._terms.pause_s_max)
        return pause_s + int(pause_s * self._chance() / 2)


def _address_of(way: Way, line: LetterLine) -> str:
    """Return how an operator is told of it: the address itself may hold a secret of its user."""
    return f"an address of {line.user} at {way.name}"


def _last_of_hour(terms: OutboxTerms, now: int) -> str:
    next_hour = utc_text((now // HOUR_S + 1) * HOUR_S)
    return (
        f"\nThis is the last of {terms.hourly_max} notices that you get in an hour:"
        f" changes until {next_hour} are not reported.\n"
    )
