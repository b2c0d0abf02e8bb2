"""The outbox: deliveries wait, are tried, tried again later, and given up after a day.

Nothing here sends or stores anything. A delivery that is posted comes out as one to be stored; when it is
(`stored`) it is due. What is due comes out as a try, whose end is told by `sent` or `failed`: until then it
is under way, and no more than `at_once` deliveries of a way are. A delivery that was neither sent nor given
up before a crash comes back from the store, and is sent then, perhaps again.

A way that is blocked (a relay that is away) is tried by one delivery at a time, after growing pauses, the
next time by another user's delivery if there is one. If that is taken, the way is free, and one address does
not answer: its deliveries wait, and no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from kalends.notices.delivery import Delivery, FailedTry, utc_text
from kalends.notices.ways import DeliveryLine, Pause, Way

HOUR_S: Final = 3_600


class OutboxTerms(NamedTuple):
    """Terms for deliveries: number of tries, time to give up, and maximum number."""

    pause_s: int = 30
    """After the first try; twice as long after each further one, up to `pause_s_max`."""
    pause_s_max: int = HOUR_S
    give_up_s: int = 86_400
    at_once: int = 2
    """Deliveries of one way that are under way."""
    waiting_max: int = 10_000
    hourly_max: int = 60
    """Deliveries to one user in an hour."""


class Loss(NamedTuple):
    """A delivery that is given up; if it is the `first` of its kind, it is worth a line in the log."""

    delivery: Delivery
    why: str
    first: bool = True


@dataclass(slots=True)
class OutboxEffects:
    """Effects to carry out: first `kept` must be stored."""

    kept: list[Delivery] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """To be removed from the store: the ids of deliveries that are sent or lost."""
    tries: list[Delivery] = field(default_factory=list)
    sent: int = 0
    lost: list[Loss] = field(default_factory=list)
    ways: dict[str, str] = field(default_factory=dict)
    """Ways, and single addresses, that are blocked since, and why; or that are free again ("")."""


class Outbox:
    """All deliveries of a site that are neither sent nor given up; `deliveries` are those that were stored.

    Not thread-safe. `now` is in whole seconds UTC, `chance` between 0 and 1: it spreads the pauses.
    """

    def __init__(
        self,
        terms: OutboxTerms,
        chance: Callable[[], float],
        deliveries: Iterable[Delivery],
        now: int,
    ) -> None:
        self._terms = terms
        self._chance = chance
        self._effects = OutboxEffects()
        self._unstored: dict[str, Delivery] = {}
        self._ways: dict[str, Way] = {}
        self._order = 0
        self._tried = 0
        self._hour = 0
        self._this_hour: Counter[str] = Counter()
        self._full = False
        for delivery in deliveries:
            self._take(delivery, now)
        self._try_due(now)

    def __len__(self) -> int:
        """Return how many deliveries are neither sent nor lost."""
        return len(self._unstored) + sum(map(len, self._ways.values()))

    def take_effects(self) -> OutboxEffects:
        """Return all effects since the last call."""
        taken, self._effects = self._effects, OutboxEffects()
        return taken

    def post(self, delivery: Delivery, now: int) -> None:
        """Take a delivery, or drop it if there are too many; one that is here already changes nothing."""
        line = self._way(delivery).line_of(delivery)
        if delivery.id in self._unstored or (line is not None and delivery.id in line.deliveries):
            return
        if len(self) >= self._terms.waiting_max:
            self._lose(delivery, f"{self._terms.waiting_max} notices wait", first=not self._full)
            self._full = True
            return
        self._full = False
        if now // HOUR_S != self._hour:
            self._hour = now // HOUR_S
            self._this_hour.clear()
        self._this_hour[delivery.user] += 1
        over = self._this_hour[delivery.user] - self._terms.hourly_max
        if over > 0:
            why = f"{delivery.user} has had {self._terms.hourly_max} notices in this hour"
            self._lose(delivery, why, first=over == 1)
            return
        if over == 0:
            delivery = structs.replace(
                delivery, text=delivery.text + _last_of_hour(self._terms, now)
            )
        self._unstored[delivery.id] = delivery
        self._effects.kept.append(delivery)

    def stored(self, ids: Iterable[str], now: int) -> None:
        """These deliveries are durable: they may be sent."""
        for each in ids:
            delivery = self._unstored.pop(each, None)
            if delivery is not None:
                self._take(delivery, now)
        self._try_due(now)

    def take_up(self, deliveries: Iterable[Delivery], now: int) -> None:
        """Take deliveries that are durable already; those that are here change nothing."""
        for each in deliveries:
            line = self._way(each).line_of(each)
            if each.id not in self._unstored and (line is None or each.id not in line.deliveries):
                self._take(each, now)
        self._try_due(now)

    def sent(self, delivery: Delivery, now: int) -> None:
        """A try has succeeded."""
        line = self._ended(delivery)
        if line is not None:
            self._answered(self._way(delivery), line, now)
            self._effects.sent += 1
            self._drop(line, delivery)
            self._try_due(now)

    def failed(self, delivery: Delivery, failure: FailedTry, now: int) -> None:
        """A try has failed: the delivery waits for the next one, or is given up."""
        line = self._ended(delivery)
        if line is None:
            return
        if failure.kind == "blocked":
            self._block(self._way(delivery), line, failure.why, now)
        else:
            self._answered(self._way(delivery), line, now)
        too_old = now >= delivery.made_s + self._terms.give_up_s
        if failure.kind == "refused" or too_old:
            self._drop(line, delivery)
            self._lose(delivery, failure.why)
        else:
            self._wait(line, delivery.id, now + self._pause_s(line.deliveries[delivery.id].tries))
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

    def _way(self, delivery: Delivery) -> Way:
        return self._ways.setdefault(delivery.way, Way(delivery.way))

    def _take(self, delivery: Delivery, now: int) -> None:
        self._wait(self._way(delivery).add(delivery), delivery.id, now)

    def _wait(self, line: DeliveryLine, delivery: str, due_s: int) -> None:
        self._order += 1
        line.wait(due_s, self._order, delivery)

    def _try_due(self, now: int) -> None:
        for way in self._ways.values():
            at_once = 1 if way.pause.failures else self._terms.at_once
            while len(way.under_way) < at_once and (line := way.next_line(now)) is not None:
                self._tried += 1
                delivery = line.pop(self._tried).delivery
                way.under_way.add(delivery.id)
                self._effects.tries.append(delivery)

    def _ended(self, delivery: Delivery) -> DeliveryLine | None:
        """Return the line of a delivery whose try has ended; None if none was under way."""
        way = self._way(delivery)
        if delivery.id not in way.under_way:
            return None
        way.under_way.remove(delivery.id)
        return way.line_of(delivery)

    def _block(self, way: Way, line: DeliveryLine, why: str, now: int) -> None:
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

    def _answered(self, way: Way, line: DeliveryLine, now: int) -> None:
        line.pause = Pause()
        if way.answered(now):
            self._effects.ways[way.name] = ""
        self._end_told(way, line)

    def _end_told(self, way: Way, line: DeliveryLine) -> None:
        if line.told:
            line.told = False
            if not way.told_of(line.user):
                self._effects.ways[_address_of(way, line)] = ""

    def _give_up_old(self, way: Way, now: int) -> None:
        """Give up deliveries that are too old, also without another try: there is no way."""
        for line in list(way.silent()):
            for delivery in line.take_old(now - self._terms.give_up_s):
                self._effects.done.append(delivery.id)
                self._lose(delivery, f"{delivery.way} is blocked")
            self._forget_empty(way, line)

    def _drop(self, line: DeliveryLine, delivery: Delivery) -> None:
        del line.deliveries[delivery.id]
        self._effects.done.append(delivery.id)
        self._forget_empty(self._way(delivery), line)

    def _forget_empty(self, way: Way, line: DeliveryLine) -> None:
        if not line.deliveries:
            self._end_told(way, line)
            way.forget(line)

    def _lose(self, delivery: Delivery, why: str, *, first: bool = True) -> None:
        self._effects.lost.append(Loss(delivery, why, first))

    def _pause_s(self, tries: int) -> int:
        """Return the wait after this number of tries; by chance up to half as much again."""
        pause_s = min(self._terms.pause_s << min(tries - 1, 20), self._terms.pause_s_max)
        return pause_s + int(pause_s * self._chance() / 2)


def _address_of(way: Way, line: DeliveryLine) -> str:
    """Return the address as operators see it: the address itself may hold a secret of its user."""
    return f"an address of {line.user} at {way.name}"


def _last_of_hour(terms: OutboxTerms, now: int) -> str:
    next_hour = utc_text((now // HOUR_S + 1) * HOUR_S)
    return (
        f"\nThis is the last of {terms.hourly_max} notices that you get in an hour:"
        f" changes until {next_hour} are not reported.\n"
    )
