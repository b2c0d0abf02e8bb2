"""Ways by which deliveries go, and on each way the queue of each user to each address.

A way that is blocked is tried by one delivery at a time. It is the turn of the user who was tried least
recently, and of that user's address that was: so an address that never answers is found out by the next
delivery of somebody else, and holds up no deliveries but its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from kalends.notices.delivery import Delivery


@dataclass(slots=True)
class WaitingDelivery:
    delivery: Delivery
    tries: int = 0


@dataclass(slots=True)
class Pause:
    """A way that does not answer is left alone for a while."""

    failures: int = 0
    """Since it answered last."""
    until_s: int = 0

    def fail(self, until_s: int) -> None:
        self.failures += 1
        self.until_s = until_s

    def covers(self, now: int) -> bool:
        return self.failures > 0 and now < self.until_s


@dataclass(slots=True)
class DeliveryLine:
    """The deliveries of one user to one address."""

    user: str
    to: str
    deliveries: dict[str, WaitingDelivery] = field(default_factory=dict)
    """All, in the order in which they came."""
    due: list[tuple[int, int, str]] = field(default_factory=list)
    """The deliveries that are not being tried now, by the time of their next try."""
    pause: Pause = field(default_factory=Pause)
    tried: int = 0
    """The number of its last try among all; 0: none."""
    told: bool = False
    """Whether it is known that this address does not answer where others do."""

    def wait(self, due_s: int, order: int, delivery: str) -> None:
        heappush(self.due, (due_s, order, delivery))

    def next_try_s(self) -> int | None:
        """Return from when on it may be tried; one that does not answer by one delivery at a time."""
        under_way = len(self.deliveries) - len(self.due)
        if not self.due or (self.pause.failures and under_way):
            return None
        return max(self.due[0][0], self.pause.until_s if self.pause.failures else 0)

    def pop(self, number: int) -> WaitingDelivery:
        """Take out the delivery whose try is due, and which is tried as `number` of all."""
        self.tried = number
        waiting = self.deliveries[heappop(self.due)[2]]
        waiting.tries += 1
        return waiting

    def take_old(self, made_before_s: int) -> list[Delivery]:
        """Take out what was made before and is not under way."""
        waiting = {each for _, _, each in self.due}
        old = []
        for each in self.deliveries.values():
            if each.delivery.made_s > made_before_s:
                break
            if each.delivery.id in waiting:
                old.append(each.delivery)
        for delivery in old:
            del self.deliveries[delivery.id]
        if old:
            self.due = sorted(entry for entry in self.due if entry[2] in self.deliveries)
        return old


@dataclass(slots=True)
class Way:
    """A way of deliveries: an obstacle to one of them may be one to all."""

    name: str
    lines: dict[tuple[str, str], DeliveryLine] = field(default_factory=dict)
    under_way: set[str] = field(default_factory=set)
    pause: Pause = field(default_factory=Pause)
    soon_s: int = 0
    """A user who was not tried yet does not wait for all of a long pause: only until then."""

    def line_of(self, delivery: Delivery) -> DeliveryLine | None:
        return self.lines.get((delivery.user, delivery.to))

    def add(self, delivery: Delivery) -> DeliveryLine:
        line = self.lines.setdefault(
            (delivery.user, delivery.to), DeliveryLine(delivery.user, delivery.to)
        )
        line.deliveries[delivery.id] = WaitingDelivery(delivery)
        return line

    def forget(self, line: DeliveryLine) -> None:
        del self.lines[line.user, line.to]

    def __len__(self) -> int:
        return sum(len(line.deliveries) for line in self.lines.values())

    def next_line(self, now: int) -> DeliveryLine | None:
        """Return the line whose turn it is, of those that may be tried by now."""
        due = [each for each in self._next_tries() if each[0] <= now]
        if not due:
            return None
        return min(due, key=lambda each: (each[1], each[2].tried, each[2].due[0]))[2]

    def next_due_s(self, at_once: int, give_up_s: int) -> int | None:
        """Return when there is something to do here; None: only after a try has ended."""
        if len(self.under_way) >= (1 if self.pause.failures else at_once):
            return None
        times = []
        for at_s, _, line in self._next_tries():
            if self.pause.failures or line.pause.failures:
                oldest = next(iter(line.deliveries.values())).delivery
                at_s = min(at_s, oldest.made_s + give_up_s)
            times.append(at_s)
        return min(times, default=None)

    def _next_tries(self) -> Iterator[tuple[int, int, DeliveryLine]]:
        """Yield from when on each line may be tried, and when its user was tried last."""
        tried: dict[str, int] = {}
        for line in self.lines.values():
            tried[line.user] = max(tried.get(line.user, 0), line.tried)
        for line in self.lines.values():
            at_s = line.next_try_s()
            if at_s is not None:
                open_s = self.pause.until_s if tried[line.user] else self.soon_s
                yield max(at_s, open_s if self.pause.failures else 0), tried[line.user], line

    def silent(self) -> Iterator[DeliveryLine]:
        """Yield what has not answered lately; all of it if the way is blocked."""
        for line in self.lines.values():
            if self.pause.failures or line.pause.failures:
                yield line

    def answered(self, now: int) -> bool:
        """The way is free; return whether it was not. Blocked users may try again at once."""
        if not self.pause.failures:
            return False
        self.pause = Pause()
        for line in self.lines.values():
            if line.pause.failures:
                line.pause = Pause(1, now)
        return True

    def told_of(self, user: str) -> bool:
        return any(line.told for line in self.lines.values() if line.user == user)
