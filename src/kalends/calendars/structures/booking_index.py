"""Bookings in order of time: which of them overlap a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge

from kalends.calendars.bookings import Booking
from kalends.calendars.structures.shared import SharedSortedList

Entry = tuple[int, int, int]
"""Start, end and id of a booking: what listings are ordered by."""


class BookingIndex:
    """The entries of a calendar's bookings, by length class: the bits of their length.

    A booking of a class that overlaps a window starts at most one class width before it. Changes
    are only noted, and worked in when somebody looks: a calendar that is never listed pays a
    dict entry for a booking. Always: classes, less `_removed`, and `_added`, are the bookings.
    """

    def __init__(self) -> None:
        self._classes: dict[int, SharedSortedList[Entry]] = {}
        self._added: dict[int, Booking] = {}
        self._removed: list[Booking] = []

    def add(self, booking: Booking) -> None:
        """Add a booking. O(1)."""
        self._added[booking.id] = booking

    def add_all(self, bookings: list[Booking]) -> None:
        self._added.update((booking.id, booking) for booking in bookings)

    def remove(self, booking: Booking) -> None:
        """Remove a booking that was added. O(1)."""
        if self._added.pop(booking.id, None) is None:
            self._removed.append(booking)

    def overlapping(self, start: int, end: int) -> Iterator[Entry]:
        """Return the entries of bookings that overlap ``[start, end)``, in order. Lazy.

        O(classes log n + m log m) for m changes since it was last asked.
        """
        self._work_in()
        return merge(
            *(
                (
                    entry
                    for entry in entries.between((start - (1 << bits),), (end,))
                    if entry[1] > start
                )
                for bits, entries in self._classes.items()
            )
        )

    def copy(self) -> BookingIndex:
        """Return an independent one. O(changes since it was last asked or copied + blocks)."""
        self._work_in()
        twin = BookingIndex()
        twin._classes = {bits: entries.copy() for bits, entries in self._classes.items()}
        return twin

    def check(self, bookings: Iterable[Booking]) -> None:
        """Raises `AssertionError` unless exactly these are in it: else a bug of ours."""
        listed: set[Entry] = set()
        for bits, entries in self._classes.items():
            entries.check()
            assert entries, bits
            assert all((end - start).bit_length() == bits for start, end, _ in entries), bits
            listed.update(entries)
        removed = set(map(_entry, self._removed))
        assert len(removed) == len(self._removed)
        assert removed <= listed
        added = set(map(_entry, self._added.values()))
        assert not added & (listed - removed)
        assert (listed - removed) | added == set(map(_entry, bookings))

    def _work_in(self) -> None:
        for booking in self._removed:
            bits = (booking.end - booking.start).bit_length()
            self._classes[bits].remove(_entry(booking))
            if not self._classes[bits]:
                del self._classes[bits]
        added: dict[int, list[Entry]] = {}
        for booking in self._added.values():
            bits = (booking.end - booking.start).bit_length()
            added.setdefault(bits, []).append(_entry(booking))
        for bits, entries in added.items():
            self._classes.setdefault(bits, SharedSortedList()).update(entries)
        self._removed, self._added = [], {}


def _entry(booking: Booking) -> Entry:
    return booking.start, booking.end, booking.id
