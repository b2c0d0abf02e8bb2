"""Many calendars searched as one: n of k free together, a slot common to m, the best starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kalends.calendars.bookings import Booking, State, check_booking, check_units
from kalends.calendars.engine import Calendar
from kalends.calendars.fleet import common
from kalends.calendars.fleet.column import NUMBER_BITS
from kalends.calendars.fleet.common import Party
from kalends.calendars.fleet.index import GapIndex
from kalends.calendars.fleet.terms import (
    Weight,
    check_whole,
    listed,
    starts_between,
    units_of,
    weigh,
    windows_of,
)
from kalends.calendars.unit import UnitCalendar
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.intervals import Interval, align_up

INDEXES_MAX: Final = 4
"""Amounts of units that are indexed at a time; the one used longest ago is dropped."""

STARTS_MAX: Final = 1_000_000
"""Starts that `Fleet.best_starts` looks at: ten days of single seconds, 28 years on a grain of 15 min."""

_BUCKET_GAPS_MIN: Final = 2_048
"""Gaps below which reading a bucket costs the same whatever is in it."""

_IDLE_NUMBERS: Final = 64
"""Numbers of removed calendars kept, in addition to one for each calendar."""

Heard = tuple[GapIndex, list[Interval]]
"""An index, and gaps of a calendar as it holds them."""


class Together(NamedTuple):
    """A start, and the calendars that are free there for the whole slot."""

    start: int
    names: tuple[str, ...]


class WeightedStart(NamedTuple):
    """A start and its weight."""

    start: int
    weight: float


class Fleet:
    """Calendars by name, changed through the fleet so that its searches stay quick.

    The calendars stay the truth; the fleet adds gaps by time, for each amount of units
    that was searched for (`GapIndex`), and follows every change. A calendar that somebody changed
    past the fleet is taken in again by `add` after `remove`. Not thread-safe.

    The order of a fleet is that in which its calendars were given and added: where more calendars
    are free than are wanted, the first in this order are named. Time begins at 0 and ends at
    `limits.TIME_S_MAX`; windows of search are cut to it. After any error the fleet, its calendars
    and their order are as before.

    Every search raises `InvalidInput` for an amount, count, length or grain that is not a whole
    number of at least 1, times that are not whole numbers, a count above the number of calendars
    asked; and `NotFound` for a name that is not in the fleet. A name given twice counts once.
    """

    FEW: ClassVar[int] = 16
    """Calendars up to which a fleet is searched one by one, without an index."""

    def __init__(
        self, calendars: Mapping[str, Calendar], *, bucket_gaps: int | None = None
    ) -> None:
        """`bucket_gaps` is the number of gaps in a bucket of an index; None: one for each calendar, the best.

        Raises `InvalidInput` for a name that is no text.
        """
        if bucket_gaps is not None:
            check_whole(1, bucket_gaps=bucket_gaps)
        self._bucket_gaps = bucket_gaps
        self._calendars: dict[str, Calendar] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._indexes: dict[int, GapIndex] = {}
        for name, calendar in calendars.items():
            self.add(name, calendar)

    def __len__(self) -> int:
        return len(self._calendars)

    def __iter__(self) -> Iterator[str]:
        """Return the names, in the order of the fleet."""
        return iter(self._calendars)

    def __contains__(self, name: object) -> bool:
        return name in self._calendars

    def __getitem__(self, name: str) -> Calendar:
        """Return the calendar of this name, to be read only; raises `NotFound`."""
        calendar = self._calendars.get(name) if type(name) is str else None
        if calendar is None:
            raise NotFound(f"no calendar {name!r} in this fleet", where="name")
        return calendar

    def add(self, name: str, calendar: Calendar) -> None:
        """Take in a calendar, the last in order; raises `Conflict` for a name that is taken."""
        if type(name) is not str:
            raise InvalidInput(f"{name!r} is not a calendar's name", where="name")
        if name in self._calendars:
            raise Conflict(f"{name} is in this fleet already", where="name")
        number = len(self._names)
        if number >> NUMBER_BITS:
            raise InvalidInput("the fleet is full", where="name", remedy="make a second fleet")
        whole = self._whole(calendar)
        self._calendars[name] = calendar
        self._numbers[name] = number
        self._names.append(name)
        for index in self._indexes.values():
            index.make_room(number + 1)
        for index, gaps in whole:
            index.change(number, [], gaps, freed=True)

    def remove(self, name: str) -> Calendar:
        """Take a calendar out and return it; raises `NotFound`."""
        calendar = self[name]
        number = self._numbers[name]
        for index, gaps in self._whole(calendar):
            index.change(number, gaps, [], freed=False)
        del self._calendars[name], self._numbers[name]
        if len(self._names) > 2 * len(self._calendars) + _IDLE_NUMBERS:
            # Numbers are not used twice; so many are idle that beginning afresh costs less.
            self._names = list(self._calendars)
            self._numbers = {name: number for number, name in enumerate(self._names)}
            self._indexes.clear()
        return calendar

    def book(self, name: str, booking: Booking) -> None:
        """Book in the calendar of this name, see `Calendar.book`; raises `NotFound` for the name."""
        calendar = self[name]
        if isinstance(calendar, UnitCalendar):
            calendar.book(booking)
            self._cut(name, calendar, booking, back=False)
            return
        check_booking(booking, calendar.capacity)
        free = self._near(calendar, booking)
        calendar.book(booking)
        self._tell(name, free, self._near(calendar, booking), freed=False)

    def load(self, name: str, bookings: Iterable[Booking]) -> None:
        """Load into the calendar of this name, see `Calendar.load`; raises `NotFound` for the name."""
        calendar = self[name]
        free = self._whole(calendar)
        calendar.load(bookings)
        self._tell(name, free, self._whole(calendar), freed=False)

    def release(self, name: str, booking_id: int) -> Booking:
        """Release in the calendar of this name, see `Calendar.release`; raises `NotFound` for the name."""
        calendar = self[name]
        if isinstance(calendar, UnitCalendar):
            booking = calendar.release(booking_id)
            self._cut(name, calendar, booking, back=True)
            return booking
        booking = calendar.get(booking_id)
        taken = self._near(calendar, booking)
        calendar.release(booking_id)
        self._tell(name, taken, self._near(calendar, booking), freed=True)
        return booking

    def change_state(
        self, name: str, booking_id: int, state: State, expires_ms: int | None
    ) -> Booking:
        """Change a state, see `Calendar.change_state`; raises `NotFound` for the name."""
        return self[name].change_state(booking_id, state, expires_ms)

    def expire(self, now_ms: int) -> list[tuple[str, Booking]]:
        """Expire holds of all calendars in order, with their names; see `Calendar.expire`."""
        check_whole(None, now_ms=now_ms)
        expired: list[tuple[str, Booking]] = []
        for name, calendar in self._calendars.items():
            next_ms = calendar.next_expiry_ms()
            if next_ms is not None and next_ms <= now_ms:
                due = calendar.copy().expire(now_ms)
                expired.extend((name, self.release(name, booking.id)) for booking in due)
        return expired

    def earliest_together(
        self,
        count: int,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        *,
        among: Collection[str] | None = None,
        grain_s: int = 1,
    ) -> Together | None:
        """Return the first start at which `count` calendars have `units` free for `length_s`, or None.

        The start is a multiple of `grain_s`, at or after `not_before`; the slot ends at or before
        `not_after`. Of the calendars free there (of those `among`, when given) the first `count` in
        order of the fleet are named.
        """
        first, last = starts_between(length_s, not_before, not_after, grain_s)
        names = self._asked(count, units, among)
        able = names if units == 1 else [n for n in names if self[n].capacity >= units]
        if first > last or len(able) < count:
            return None
        if self._are_few(names):
            parties = self._parties(able, units)
            start = common.first_of(parties, count, length_s, first, last, grain_s)
            if start is None:
                return None
            end = start + length_s
            free = [name for name in able if self[name].free(start, end) >= units]
            return Together(start, tuple(free[:count]))
        index = self._index(units)
        mask = self._mask(among, index)
        start = index.earliest(count, length_s, first, last, grain_s, mask)
        if start is None:
            return None
        numbers = index.holders(start, length_s)
        if mask is not None:
            numbers = [number for number in numbers if mask[number]]
        return Together(start, tuple(self._names[number] for number in numbers[:count]))

    def common_slot(
        self,
        names: Collection[str],
        units: int | Mapping[str, int],
        length_s: int,
        not_before: int,
        not_after: int,
        *,
        windows: Mapping[str, Sequence[Interval]] | None = None,
        grain_s: int = 1,
    ) -> int | None:
        """Return the first start at which all of `names` have their `units` free for `length_s`, or None.

        As `earliest_together`, for few calendars of different needs: `units` and `windows` can be
        given by name; a name without windows may be used always.
        """
        first, last = starts_between(length_s, not_before, not_after, grain_s)
        allowed = windows_of(windows, listed(names))
        parties = [
            Party(self[name], units_of(units, name), allowed.get(name))
            for name in dict.fromkeys(names)
        ]
        if not parties:
            raise InvalidInput("no calendars to search", where="names", remedy="name at least one")
        if first > last or any(party.units > party.calendar.capacity for party in parties):
            return None
        return common.first_common(parties, length_s, first, last, grain_s)

    def best_starts(
        self,
        best: int,
        weight: Weight,
        count: int,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        *,
        among: Collection[str] | None = None,
        grain_s: int = 1,
    ) -> list[WeightedStart]:
        """Return the `best` starts of highest `weight` of those that `earliest_together` could answer.

        Highest first; of equal weights the earlier start. `weight` is called at most once, with all
        possible starts in order. Raises `InvalidInput` for more than `STARTS_MAX` multiples of
        `grain_s` in the window, and when `weight` fails or answers anything but one number for each
        start.
        """
        check_whole(1, best=best)
        first, last = starts_between(length_s, not_before, not_after, grain_s)
        names = self._asked(count, units, among)
        first = align_up(first, grain_s)
        size = max((last - first) // grain_s + 1, 0)
        if size > STARTS_MAX:
            raise InvalidInput(
                f"{size} starts to weight, at most {STARTS_MAX} are allowed",
                where="grain_s",
                remedy="shorten the window or widen the grain",
            )
        able = [name for name in names if self[name].capacity >= units]
        if not size or len(able) < count:
            return []
        times = np.arange(first, last + 1, grain_s, dtype=np.int64)
        if self._are_few(names):
            tally = common.tally(self._parties(able, units), length_s, first, last + 1)
            times = times[tally.at(times) >= count]
        else:
            index = self._index(units)
            times = index.counted(count, length_s, times, self._mask(among, index))
        if not len(times):
            return []
        weights = weigh(weight, times)
        order = np.lexsort((times, -weights))[:best]
        pairs = zip(times[order].tolist(), weights[order].tolist(), strict=True)
        return [WeightedStart(*pair) for pair in pairs]

    def check(self) -> None:
        """Raises `AssertionError` when an invariant does not hold: a bug of ours. All gaps are read."""
        assert list(self._calendars) == list(self._numbers)
        assert sorted(self._numbers.values()) == list(self._numbers.values())
        assert all(self._names[number] == name for name, number in self._numbers.items())
        for calendar in self._calendars.values():
            calendar.check()
        for units, index in self._indexes.items():
            index.check(self._all_gaps(units))

    def _asked(self, count: int, units: int, among: Collection[str] | None) -> Collection[str]:
        """Return the names asked, in order of the fleet, after checking them, `count` and `units`."""
        check_units(units)
        check_whole(1, count=count)
        names: Collection[str] = self._calendars
        if among is not None:
            numbers = {self._number(name) for name in listed(among)}
            names = [self._names[number] for number in sorted(numbers)]
        if count > len(names):
            raise InvalidInput(
                f"{count} of {len(names)} calendars",
                where="count",
                remedy=f"ask for 1 to {len(names)}",
            )
        return names

    def _number(self, name: str) -> int:
        self[name]
        return self._numbers[name]

    def _are_few(self, names: Collection[str]) -> bool:
        return len(names) * self.FEW <= len(self._calendars)

    def _parties(self, names: Iterable[str], units: int) -> list[Party]:
        return [Party(self[name], units) for name in names]

    def _mask(self, among: Collection[str] | None, index: GapIndex) -> NDArray[np.bool_] | None:
        if among is None:
            return None
        mask = np.zeros(index.room, np.bool_)
        mask[[self._numbers[name] for name in among]] = True
        return mask

    def _index(self, units: int) -> GapIndex:
        index = self._indexes.pop(units, None)
        if index is None:
            bucket_gaps = self._bucket_gaps or max(len(self._calendars), _BUCKET_GAPS_MIN)
            index = GapIndex(self._all_gaps(units), len(self._names), bucket_gaps)
            if len(self._indexes) == INDEXES_MAX:
                del self._indexes[next(iter(self._indexes))]
        self._indexes[units] = index
        return index

    def _all_gaps(self, units: int) -> Iterator[tuple[int, list[Interval]]]:
        for name, calendar in self._calendars.items():
            if calendar.capacity >= units:
                yield self._numbers[name], calendar.gaps(units, 0, limits.TIME_S_MAX)

    def _whole(self, calendar: Calendar) -> list[Heard]:
        """Return all gaps of `calendar`, for each index that holds them."""
        return self._gaps(calendar, 0, limits.TIME_S_MAX)

    def _near(self, calendar: Calendar, booking: Booking) -> list[Heard]:
        """Return the gaps that overlap or touch `booking`, the only ones that change with it."""
        return self._gaps(calendar, booking.start - 1, booking.end + 1)

    def _gaps(self, calendar: Calendar, start: int, end: int) -> list[Heard]:
        capacity = calendar.capacity
        return [
            (index, calendar.gaps(units, start, end))
            for units, index in self._indexes.items()
            if units <= capacity
        ]

    def _tell(self, name: str, old: list[Heard], new: list[Heard], *, freed: bool) -> None:
        for (index, before), (_, after) in zip(old, new, strict=True):
            index.change(self._numbers[name], before, after, freed=freed)

    def _cut(self, name: str, calendar: UnitCalendar, booking: Booking, *, back: bool) -> None:
        """Report a change of a calendar of one unit, whose one gap around `booking` is enough."""
        index = self._indexes.get(1)
        if index is not None:
            start, end = booking.start, booking.end
            begin, until = calendar.around(start, end)
            index.cut(self._numbers[name], begin, until, start, end, back=back)
