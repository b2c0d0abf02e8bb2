"""Room that the queues of a site have planned for jobs that wait: new claims do not get it.

Who wins where a reservation and a planned job meet is the owner's to say (`may_delay` of a machine); what is
kept here is what is not to be delayed. It comes free by no waiting: unlike the room in `earmarks` it is not
for somebody who might still decline it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.earmarks import Order
from kalends.resource_servers.participation.claims.occupancy import Piece, peak_units

Plan = Callable[[], tuple[Piece, ...]]
"""Returns the pieces that a queue has planned by now."""


@dataclass(eq=False)
class PlannedRoom:
    """The plans, by resource. Queues change often: what one plans is worked out when somebody asks."""

    _plans: dict[str, Plan] = field(default_factory=dict)
    _seen: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    """The pieces of plans that somebody has asked for since they changed."""

    def __len__(self) -> int:
        return len(self._plans)

    def changed(self, resource: str, plan: Plan) -> tuple[Piece, ...]:
        """Keep what `plan` says, and nothing else of `resource`; return where less may be kept than before.

        That is anywhere, where nobody has asked what was kept.
        """
        anywhere = ((resource, 0, TIME_S_MAX, 0),) if resource in self._plans else ()
        self._plans[resource] = plan
        return self._seen.pop(resource, anywhere)

    def before(self, order: Order, resource: str) -> Iterator[Piece]:
        """Yield the pieces of `resource`: they are kept from everybody, whatever their order."""
        return iter(self._pieces(resource))

    def units(self, resource: str, start: int, end: int) -> int:
        """Return the most units that are planned at one time of ``[start, end)``."""
        spans = [(begin, finish, units) for _, begin, finish, units in self._pieces(resource)]
        return peak_units(spans, start, end)

    def _pieces(self, resource: str) -> tuple[Piece, ...]:
        if resource not in self._seen and resource in self._plans:
            self._seen[resource] = self._plans[resource]()
        return self._seen.get(resource, ())
