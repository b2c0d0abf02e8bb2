"""Free room by order of requests: no request gets room that is kept for an earlier one.

Requests stand in order of their stamps, less the head start that an owner gives. What they wait for in line,
and what is offered to them on a waiting list, is kept from everybody behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kalends.agents.world.visible_calendar import Shown, look, steps_each
from kalends.calendars import Booking, Calendar, ResourceCalendar
from kalends.calendars.profiles import Change, total
from kalends.contract import messages as m
from kalends.core.errors import Conflict
from kalends.core.limits import TIME_S_MAX
from kalends.core.principals import Principal
from kalends.core.scripts import Ask
from kalends.resource_servers.participation.claims.claim_sets import Claim
from kalends.resource_servers.participation.claims.earmarks import Earmarks, Order
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.contention.planned_room import PlannedRoom

HavePlace = Callable[[Sequence[Piece], Collection[int]], bool]
"""Whether there is a place for all these, once some bookings are gone."""


@dataclass(eq=False)
class NodePlaces:
    """Questions about nodes, by resource: on a topology, free units need not make a partition.

    A claim that would get no nodes is refused at once: a promise without nodes would be none.
    """

    _ask: dict[str, HavePlace] = field(default_factory=dict)

    def ask(self, resource: str, have_place: HavePlace) -> None:
        """Ask this of every claim on `resource` from now on."""
        self._ask[resource] = have_place

    def are_asked(self, resource: str) -> bool:
        """Whether it matters which units of `resource` are free."""
        return resource in self._ask

    def lacking(self, wanted: Iterable[Piece], gone: Collection[int] = ()) -> str:
        """Return a resource that has no place for its pieces of `wanted`, or ""."""
        if not self._ask:
            return ""
        of_one: dict[str, list[Piece]] = {}
        for piece in wanted:
            if piece[0] in self._ask:
                of_one.setdefault(piece[0], []).append(piece)
        return next((name for name in of_one if not self._ask[name](of_one[name], gone)), "")


@dataclass(eq=False)
class FreeRoom:
    """A reading view of the calendars and of the earmarks on them."""

    calendars: Mapping[str, ResourceCalendar]
    earmarks: Sequence[Earmarks]
    planned: PlannedRoom
    places: NodePlaces = field(default_factory=NodePlaces)

    @property
    def kept(self) -> Sequence[Earmarks | PlannedRoom]:
        """All reasons to keep room from a request."""
        return (*self.earmarks, self.planned)

    def order_of(
        self, principal: Principal, stamp: int, rid: str, wanted: Iterable[Claim | m.Want | Ask]
    ) -> Order:
        """Return the place of a request among those that wait.

        Owners may give it a head start; of several resources the one that gives least decides.
        """
        calendars = (self.calendars.get(each.resource) for each in wanted)
        head_start_ms = min(
            (each.head_start_ms(principal) for each in calendars if each is not None), default=0
        )
        return stamp - head_start_ms, rid

    def is_for(self, order: Order, piece: Piece) -> bool:
        """Whether `piece` is free, and not kept for those before `order`."""
        resource, start, end, units = piece
        calendar = self.calendars[resource]
        return all(
            calendar.free(begin, finish) - taken >= units
            for begin, finish, taken in total(self._kept_before(order, resource), start, end)
        )

    def show(
        self, principal: Principal, resources: Sequence[str], start: int, end: int, wall_s: int,
        order: Order | None = None,
    ) -> dict[str, Shown]:  # fmt: skip
        """Return those of `resources` that `principal` may see, as an agent is shown them.

        With an `order`, what is kept for those before it is not free.
        """
        found = {}
        steps_max = steps_each(len(resources))
        for name in sorted(set(resources)):
            calendar = self.calendars.get(name)
            shown = calendar and look(
                calendar, principal, max(start, 0), min(end, TIME_S_MAX), wall_s, steps_max,
                self._kept_before(order, name) if order is not None else (),
            )  # fmt: skip
            if shown:
                found[name] = shown
        return found

    def _kept_before(self, order: Order, resource: str) -> list[Change]:
        """Return start, end and units of all that is kept there for those before `order`."""
        return [
            (start, end, units)
            for each in self.kept
            for _, start, end, units in each.before(order, resource)
        ]


def have_room(calendars: Mapping[str, Calendar], needs: Sequence[Piece]) -> bool:
    """Whether all of `needs` fit on `calendars` together, which are left as they were."""
    booked: list[tuple[str, int]] = []
    try:
        for number, (resource, start, end, units) in enumerate(needs):
            calendars[resource].book(
                Booking(
                    id=-1 - number, start=start, end=end, units=units, state="held", holder="",
                    reservation="",
                )
            )  # fmt: skip
            booked.append((resource, -1 - number))
    except Conflict:
        return False
    finally:
        for resource, booking_id in booked:
            calendars[resource].release(booking_id)
    return True
