"""Messages without an answer, which are sent again: less and less often, and never all at one time."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from kalends.core.intervals import Moment

REMIND_AFTER_MS: Final = 10_000
REMIND_EVERY_MS_MAX: Final = 60_000

K = TypeVar("K")


class Repeat(NamedTuple):
    """Time of the next sending of a message (monotonic; 0: at once), and the number of sendings so far."""

    due_ms: int = 0
    times: int = 0

    def is_due(self, now: Moment) -> bool:
        return self.due_ms <= now.monotonic_ms

    def next(self, now: Moment, jitter: float, first_ms: int, most_ms: int) -> Repeat:
        """Return the one after this: the waits double up to `most_ms`, each with a fifth of jitter."""
        every_ms = min(first_ms << min(self.times, 20), most_ms)
        return Repeat(now.monotonic_ms + int(every_ms * (1 + 0.2 * jitter)), self.times + 1)

    def reminded(self, now: Moment, jitter: float) -> Repeat:
        """Return the `next` one of a message that a broker has to note."""
        return self.next(now, jitter, REMIND_AFTER_MS, REMIND_EVERY_MS_MAX)


AT_ONCE: Final = Repeat()


class Repeats(dict[K, Repeat]):
    """Repeats of messages, by the subject of each."""

    def due(self, now: Moment) -> list[K]:
        return [key for key, turn in self.items() if turn.is_due(now)]

    def next_deadline_ms(self) -> int | None:
        return min((turn.due_ms for turn in self.values()), default=None)
