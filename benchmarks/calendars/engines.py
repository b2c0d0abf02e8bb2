"""What an engine must do to be measured, and kalends as one.

An operation is prepared outside the clock and carried out inside it; `meaning` turns what came back
into the number that all engines must agree on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from benchmarks.calendars.workload import Operation, Workload
from kalends.calendars import Booking, Calendar, new_calendar

NO_START: Final = -1
"""The answer of a search that finds nothing."""

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Engine(ABC):
    """One calendar that a workload is replayed on."""

    name: ClassVar[str]
    module: ClassVar[str]
    """What has to be installed for it."""

    @abstractmethod
    def prepare_load(self, workload: Workload) -> Callable[[], object]:
        """What loads the bookings; calling it is timed."""

    @abstractmethod
    def prepare(self, operation: Operation) -> Call | None:
        """What carries `operation` out; calling it is timed. None: it cannot do that."""

    def meaning(self, operation: Operation, returned: Any) -> int:
        """The answer as one number, by which engines are compared.

        For `min` this is the units; for `fit` and `plan` the start, or `NO_START`; for `list` the sum of
        the ids; for `steps` the free node-seconds. A change gives 0.
        """
        word = operation.word
        if word in ("fit", "plan"):
            return NO_START if returned is None else int(returned)
        return int(returned) if word in ("min", "list", "steps") else 0

    def prepare_copy(self) -> Call | None:
        """Fork, book, and throw the fork away."""
        return None


class Kalends(Engine):
    """The calendars of this project, through their public interface, with all checks."""

    name = "kalends"
    module = "kalends"

    def __init__(self, nodes: int) -> None:
        self._calendar: Calendar = new_calendar(nodes)
        self._nodes = nodes

    def prepare_load(self, workload: Workload) -> Callable[[], object]:
        self._calendar = new_calendar(self._nodes)
        bookings = [locked(*workload.booking(each)) for each in workload.loaded]
        return lambda: self._calendar.load(bookings)

    def prepare(self, operation: Operation) -> Call | None:
        calendar, word, arguments = self._calendar, operation.word, operation.arguments
        if word == "add":
            return calendar.book, (locked(*arguments),)
        if word == "rem":
            return calendar.release, arguments
        if word == "state":
            return _renew, (calendar, *arguments)
        if word == "min":
            return calendar.free, arguments
        if word == "fit":
            return calendar.earliest_fit, arguments
        if word == "plan":
            return self._plan, arguments
        return (calendar.listing if word == "list" else calendar.steps), arguments

    def meaning(self, operation: Operation, returned: Any) -> int:
        if operation.word == "list":
            return sum(booking.id for booking in returned)
        if operation.word == "steps":
            return sum((end - start) * free for start, end, free in returned)
        return super().meaning(operation, returned)

    def prepare_copy(self) -> Call | None:
        end = 32_000_000_000
        return self._try, (locked(-1, end, end + 60, 1),)

    def _try(self, booking: Booking) -> None:
        self._calendar.copy().book(booking)

    def _plan(self, number: int, units: int, length_s: int, *window: int) -> int | None:
        start = self._calendar.earliest_fit(units, length_s, *window)
        if start is not None:
            self._calendar.book(locked(number, start, start + length_s, units))
        return start


def _renew(calendar: Calendar, booking_id: int) -> None:
    calendar.change_state(booking_id, "held")


def locked(booking_id: int, start: int, end: int, units: int) -> Booking:
    """A booking as a site would keep it."""
    return Booking(
        id=booking_id,
        start=start,
        end=end,
        units=units,
        state="locked",
        holder="somebody",
        reservation="r1",
    )
