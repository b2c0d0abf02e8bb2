"""Owners who keep time free around bookings, and a judge who measures it after every step of a site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kalends.calendars import Buffer, OwnerRules, ResourceCalendar
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from tests.simulation.auditor import Auditor
from tests.simulation.kernel import Violation
from tests.simulation.nodes import SiteNode

if TYPE_CHECKING:
    from tests.simulation.world import World

CLAIMED: Final = ("held", "intended", "prepared", "locked")

BUFFERS: Final = (
    Buffer(after_s=900),
    Buffer(before_s=600, after_s=1_200),
    Buffer(before_s=1_800, after_s=900, shared=True),
    Buffer(gap_s=3_600),
)


class BuffersKept:
    """`gaps_s` are the seconds between two bookings of one unit, by site and resource."""

    _auditor: Auditor

    def __init__(self, gaps_s: Mapping[str, Mapping[str, int]]) -> None:
        self.met: Counter[str] = Counter()
        """How often two bookings of a resource were as near to one another as may be."""
        self._gaps_s = gaps_s

    def attach(self, world: World) -> None:
        """Measure after each step of a site of `world`."""
        self._auditor = world.auditor
        stepped = world.auditor.site_stepped

        def stepping(node: SiteNode, alarms: Sequence[str]) -> None:
            stepped(node, alarms)
            stakes = dict(node.participant.book.stakes.items())
            for resource, gap_s in self._gaps_s[node.name].items():
                self._measure(resource, gap_s, stakes)

        world.auditor.site_stepped = stepping  # type: ignore[method-assign]
        world.judges.append(self)

    def finish(self) -> Iterable[str]:
        """Nothing more is wrong than was found at once."""
        return ()

    def _measure(self, resource: str, gap_s: int, stakes: Mapping[str, Stake]) -> None:
        """With its buffer behind it, each booking has a unit that no other one has at that time."""
        taken: Counter[int] = Counter()
        starts, ready = set(), set()
        for stake in stakes.values():
            new = [c for c in stake.claims if c.resource == resource and c.state in CLAIMED]
            if not new:
                continue
            old = stakes.get(stake.replaces)
            standing = [c for c in (old.claims if old is not None else ()) if c.state == "locked"]
            standing = [c for c in standing if c.resource == resource and not stake.decided]
            times = {t for c in (*new, *standing) for t in (c.start, c.end + gap_s)}
            for begin, end in pairwise(sorted(times)):
                more = _most_at(new, begin, gap_s) - _most_at(standing, begin, gap_s)
                if more > 0:
                    taken[begin] += more
                    taken[end] -= more
            starts |= {claim.start for claim in new}
            ready |= {claim.end + gap_s for claim in new}
        self.met[resource] += bool(starts & ready)
        units = 0
        for at in sorted(taken):
            units += taken[at]
            if units > self._auditor.capacities[resource]:
                raise Violation(f"{resource}: bookings are nearer than {gap_s} s at {at}")


def _most_at(claims: Iterable[Claim], at: int, gap_s: int) -> int:
    """Of alternatives at most one is ever promised."""
    needed: Counter[int] = Counter()
    for claim in claims:
        if claim.start <= at < claim.end + gap_s:
            needed[claim.common] += claim.units
    return max(needed.values(), default=0)


def owners_keep_buffers(world: World) -> None:
    """Every owner keeps time free around the bookings of each resource; every fault strikes."""
    random = world.kernel.random
    # What is free may be too short with its buffer: their judges do not know of it.
    world.limited = True
    gaps_s: dict[str, dict[str, int]] = {}
    for site in world.sites:
        chosen = {name: random.choice(BUFFERS) for name in sorted(site._calendars())}
        gaps_s[site.name] = {name: buffer.between_s for name, buffer in chosen.items()}
        site._calendars = _buffered(site._calendars, chosen)
    BuffersKept(gaps_s).attach(world)


def _buffered(
    make: Callable[[], dict[str, ResourceCalendar]], chosen: Mapping[str, Buffer]
) -> Callable[[], dict[str, ResourceCalendar]]:
    def buffered() -> dict[str, ResourceCalendar]:
        return {
            name: ResourceCalendar(
                each.info, each.access, (), OwnerRules(buffer=chosen.get(name, Buffer()))
            )
            for name, each in make().items()
        }

    return buffered
