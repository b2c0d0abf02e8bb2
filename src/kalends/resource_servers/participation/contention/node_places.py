"""Whether machines have a place for claims: on a topology, units that are free need not make a partition.

Calendars count units. Who knows the nodes says, for each such machine, whether a claim would get some; where
it would not, the claim is refused at once, for a promise without nodes would be none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from kalends.resource_servers.participation.claims.occupancy import Piece

HavePlace = Callable[[Sequence[Piece], Collection[int]], bool]
"""Whether there is a place for all these, once some bookings are gone."""


@dataclass(eq=False)
class NodePlaces:
    """Whom to ask, by resource; without anybody, every free unit will do."""

    _ask: dict[str, HavePlace] = field(default_factory=dict)

    def ask(self, resource: str, have_place: HavePlace) -> None:
        """From now on, ask this of every claim on `resource`."""
        self._ask[resource] = have_place

    def are_asked(self, resource: str) -> bool:
        """Whether it matters which units of `resource` are free."""
        return resource in self._ask

    def lacking(self, wanted: Iterable[Piece], gone: Collection[int] = ()) -> str:
        """Return a resource that has no place for what is `wanted` of it, or ""."""
        if not self._ask:
            return ""
        of_one: dict[str, list[Piece]] = {}
        for piece in wanted:
            if piece[0] in self._ask:
                of_one.setdefault(piece[0], []).append(piece)
        return next((name for name in of_one if not self._ask[name](of_one[name], gone)), "")
