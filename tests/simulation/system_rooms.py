"""What a simulated batch system has room for: whole nodes, cores of nodes, or licences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

from msgspec import structs

from kalends.backends.records import SystemReservation

LICENCE: Final = "solver"

Unit = Literal["nodes", "cores", "licences"]


@dataclass
class SystemRoom:
    """So many units of each of `names`; a `shortage` is what there is less of them for now."""

    unit: Unit
    names: tuple[str, ...]
    each: int = 1
    shortage: Counter[str] = field(default_factory=Counter)

    @property
    def capacity(self) -> int:
        return len(self.names) * self.each

    def units(self, reservation: SystemReservation) -> Counter[str]:
        """Return how many units of which name it has."""
        if self.unit == "licences":
            return Counter(dict(reservation.licences))
        cores = reservation.cores or (self.each,) * len(reservation.nodes)
        return Counter(dict(zip(reservation.nodes, cores, strict=True)))

    def with_units(self, reservation: SystemReservation, units: Counter[str]) -> SystemReservation:
        """Return it with these units, and no others."""
        some = sorted((+units).items())
        if self.unit == "licences":
            return structs.replace(reservation, licences=tuple(some))
        cores = tuple(count for _, count in some) if self.unit == "cores" else ()
        return structs.replace(reservation, nodes=tuple(name for name, _ in some), cores=cores)

    def drawn(self, random: Random, most: int) -> Counter[str]:
        """Return at least one unit, and at most so many, of some names."""
        every = [name for name in self.names for _ in range(self.each)]
        return Counter(random.sample(every, random.randrange(1, max(2, min(most, len(every)) + 1))))

    def has(self, name: str) -> int:
        """Return how many units of this name there are now."""
        return self.each - self.shortage[name] if name in self.names else 0

    def free(
        self, name: str, start: int, end: int, others: Iterable[SystemReservation], gap_s: int = 0
    ) -> int:
        """Return how many units of it `others` leave from start to end, and for a gap after that.

        Less than none where they have more than there is.
        """
        spans = [(each.start, each.end + gap_s, self.units(each)[name]) for each in others]
        meeting = [each for each in spans if each[0] < end + gap_s and start < each[1] and each[2]]
        times = {start, *(begin for begin, _, _ in meeting if start < begin)}
        loads = (
            sum(count for begin, finish, count in meeting if begin <= at < finish) for at in times
        )
        return self.has(name) - max(loads, default=0)


def drawn_room(random: Random, site: str, capacity: int) -> SystemRoom:
    """Return a room of this capacity: in most worlds of whole nodes."""
    each = random.choice([each for each in range(2, capacity + 1) if capacity % each == 0])
    unit: Unit = random.choices(("nodes", "cores", "licences"), (40, 40, 20))[0]
    if unit == "licences":
        return SystemRoom(unit, (LICENCE,), capacity)
    each = each if unit == "cores" else 1
    return SystemRoom(
        unit, tuple(f"{site}-{number}" for number in range(1, capacity // each + 1)), each
    )
