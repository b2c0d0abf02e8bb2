"""Room that the queues of a site have planned for jobs that wait: new claims do not get it.

Who wins where a reservation and a planned job meet is the owner's to say (`may_delay` of a machine); what is
kept here is what is not to be delayed. It comes free by no waiting: unlike the room in `earmarks` it is not
for somebody who might still decline it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kalends.resource_servers.participation.earmarks import Order
from kalends.resource_servers.participation.occupancy import Piece, peak_units


@dataclass(eq=False)
class PlannedRoom:
    """The pieces that are planned, by resource."""

    _pieces: dict[str, tuple[Piece, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._pieces)

    def plan(self, resource: str, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Keep `pieces` of `resource`, and nothing else; return what was kept before."""
        before = self._pieces.pop(resource, ())
        if pieces:
            self._pieces[resource] = pieces
        return before

    def before(self, order: Order, resource: str) -> Iterator[Piece]:
        """Yield the pieces of `resource`: they are kept from everybody, whatever their order."""
        return iter(self._pieces.get(resource, ()))

    def units(self, resource: str, start: int, end: int) -> int:
        """Return the most units that are planned at one time of ``[start, end)``."""
        spans = [
            (begin, finish, units) for _, begin, finish, units in self._pieces.get(resource, ())
        ]
        return peak_units(spans, start, end)
