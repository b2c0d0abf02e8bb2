"""Room on calendars that no claim has booked, but no user can have: foreign, or not returned yet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from kalends.calendars import Booking
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.occupancy import Piece, Placed


@dataclass(eq=False)
class KeptRoom:
    """Bookings that are of no stake, by what they are kept for; the only writer of them."""

    book: ClaimTable
    new_id: Callable[[], int]
    _placed: dict[Hashable, list[Placed]] = field(default_factory=dict)

    def keep(self, key: Hashable, holder: str, about: str, pieces: Iterable[Piece]) -> bool:
        """Keep `pieces`, and nothing else, for `key`; return False, and keep none, where one has no room."""
        self.give_up(key)
        placed = self._placed.setdefault(key, [])
        for resource, start, end, units in pieces:
            if self.book.calendars[resource].free(start, end) < units:
                self.give_up(key)
                return False
            placed.append(self._place(holder, about, (resource, start, end, units)))
        return True

    def keep_most(self, key: Hashable, holder: str, about: str, pieces: Iterable[Piece]) -> None:
        """Keep of `pieces`, and of nothing else, as much as there is room for at each time."""
        self.give_up(key)
        placed = self._placed.setdefault(key, [])
        for resource, start, end, units in pieces:
            steps = list(self.book.calendars[resource].calendar.walk(start, end))
            for begin, finish, free in steps:
                if most := min(units, free):
                    placed.append(self._place(holder, about, (resource, begin, finish, most)))

    def keep_also(self, key: Hashable, holder: str, about: str, pieces: Iterable[Piece]) -> None:
        """Keep `pieces`, which are free, for `key` in addition to its other room."""
        placed = self._placed.setdefault(key, [])
        placed += [self._place(holder, about, piece) for piece in pieces]

    def _place(self, holder: str, about: str, piece: Piece) -> Placed:
        resource, start, end, units = piece
        booking = Booking(
            id=self.new_id(), start=start, end=end, units=units, state="locked",
            holder=holder, reservation=about,
        )  # fmt: skip
        self.book.calendars[resource].book(booking)
        self.book.others[resource] += 1
        return resource, booking.id

    def give_up(self, key: Hashable) -> None:
        """Keep nothing for `key` any more."""
        freed: list[Piece] = []
        for resource, number in self._placed.pop(key, ()):
            booking = self.book.calendars[resource].release(number)
            self.book.others[resource] -= 1
            freed.append((resource, booking.start, booking.end, booking.units))
        self.book.note_freed(freed)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._placed

    def __iter__(self) -> Iterator[Hashable]:
        """Yield what room is kept for, as it is now."""
        return iter(list(self._placed))

    def bookings(self, resource: str) -> set[int]:
        return {each for kept in self._placed.values() for name, each in kept if name == resource}

    def placed(self, key: Hashable) -> list[Placed]:
        """Return the bookings that keep room for `key`."""
        return list(self._placed.get(key, ()))

    def kept(self, key: Hashable) -> list[Booking]:
        return [
            self.book.calendars[resource].calendar.get(number)
            for resource, number in self._placed.get(key, ())
        ]

    def units(self, key: Hashable) -> int:
        """Return the units that are kept for `key`, over all its pieces."""
        return sum(each.units for each in self.kept(key))
