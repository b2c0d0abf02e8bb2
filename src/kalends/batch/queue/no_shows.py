"""Reservations whose jobs never come, or no more: their nodes go back to the queue.

A slot is used as soon as a job has had nodes of it, and stays so whatever its reservation is changed to. As
long as a job waits for a reservation, somebody has come. A slot that went back stays so when its reservation
is changed, unless that begins later. The slot of a part of a job in step goes back when that is over, unless
it keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from kalends.batch.queue.facts import NodeClaim
from kalends.batch.queue.reserved_jobs import Reserved, reserved_by


@dataclass(slots=True)
class NoShows:
    """The slots of one queue that are not over; `has_jobs` says whether jobs wait or run in a reservation."""

    has_jobs: Callable[[Reserved], bool]
    given_back: dict[int, NodeClaim] = field(default_factory=dict)
    """Reservations whose nodes the queue may use; the calendar shows them until they end."""
    _unused: dict[int, tuple[NodeClaim, int]] = field(default_factory=dict)
    """Slots of which no job has had nodes, and from when nobody uses them."""

    def change(
        self, gone: Collection[NodeClaim], came: Iterable[NodeClaim], now: int
    ) -> list[NodeClaim]:
        """Take other claims; return those of them that nodes are to be kept for."""
        back = {reserved_by(each) for each in gone if each.booking in self.given_back}
        used = {
            reserved_by(each)
            for each in gone
            if each.booking not in self._unused and each.booking not in self.given_back
        }
        before = dict(self._unused)
        for each in gone:
            self._unused.pop(each.booking, None)
            self.given_back.pop(each.booking, None)
        kept = []
        for each in came:
            if each.reservation and each.start <= now and reserved_by(each) in back:
                self.given_back[each.booking] = each
                continue
            kept.append(each)
            if each.reservation and reserved_by(each) not in used:
                known, since_s = before.get(each.booking, (None, 0))
                since_s = since_s if known == each else max(each.start, now)
                self._unused[each.booking] = (each, since_s)
        return kept

    def used_up(self, slots: Iterable[NodeClaim]) -> None:
        """All that was to run in these slots is over: the queue gets their nodes."""
        for each in slots:
            self._unused.pop(each.booking, None)
            self.given_back[each.booking] = each

    def use(self, booking: int) -> None:
        """A job has got nodes of a slot."""
        self._unused.pop(booking, None)

    def give_back(self, after_s: int, now: int) -> list[NodeClaim]:
        """Return the slots that nobody has used for `after_s` (0: never): the queue gets their nodes."""
        for over in [each.booking for each in self.given_back.values() if each.end <= now]:
            del self.given_back[over]
        for over in [each.booking for each, _ in self._unused.values() if each.end <= now]:
            del self._unused[over]
        found = [each for each, due_s in self._waited_for(after_s) if due_s <= now]
        for each in found:
            del self._unused[each.booking]
            self.given_back[each.booking] = each
        return found

    def next_due_s(self, after_s: int, now: int) -> int | None:
        """Return when the next unused slot goes back; None: never."""
        times = [due_s for _, due_s in self._waited_for(after_s) if due_s > now]
        return min(times, default=None)

    def _waited_for(self, after_s: int) -> list[tuple[NodeClaim, int]]:
        return [
            (slot, since_s + after_s)
            for slot, since_s in self._unused.values()
            if after_s and since_s + after_s < slot.end and not self.has_jobs(reserved_by(slot))
        ]
