"""Owners who limit how much each user may have, and a judge who counts it after every step of a site."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from kalends.calendars import Limit, Limits, OwnerRules, ResourceCalendar
from kalends.calendars.rules.usage_limits import UsageShare
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from tests.simulation.kernel import Violation
from tests.simulation.nodes import SiteNode

if TYPE_CHECKING:
    from tests.simulation.world import World

HOUR_S: Final = 3_600
PROMISED: Final = ("intended", "prepared", "locked")
CLAIMED: Final = ("held", *PROMISED)

KINDS: Final = (
    Limit("few", "everyone", locked_max=2),
    Limit("hours", "everyone", locked_unit_s=3 * HOUR_S),
    Limit("at-once", "everyone", held_max=2),
    Limit("week", "everyone", share=UsageShare(unit_s=4 * HOUR_S)),
    Limit("few-together", "everyone", together=True, locked_max=3),
    Limit("week-together", "everyone", together=True, share=UsageShare(unit_s=7 * HOUR_S)),
)
"""Slots are hours of one week, and none of them is over when a schedule is."""


class LimitsKept:
    """`limits` are those of each site, for each of its resources by itself."""

    def __init__(self, limits: Mapping[str, Sequence[Limit]]) -> None:
        self.met: Counter[str] = Counter()
        """How often as much as a limit allows was used, by its name."""
        self._limits = limits

    def attach(self, world: World) -> None:
        """Count after each step of a site of `world`."""
        stepped = world.auditor.site_stepped

        def stepping(node: SiteNode, alarms: Sequence[str]) -> None:
            stepped(node, alarms)
            self._count(node.name, dict(node.participant.book.stakes.items()))

        world.auditor.site_stepped = stepping  # type: ignore[method-assign]
        world.judges.append(self)

    def finish(self) -> Iterable[str]:
        """Nothing more is wrong than was found at once."""
        return ()

    def _count(self, site: str, stakes: Mapping[str, Stake]) -> None:
        for limit in self._limits[site]:
            used: defaultdict[tuple[str, str], int] = defaultdict(int)
            for stake in stakes.values():
                user = "" if limit.together else stake.principal.user
                old = stakes.get(stake.replaces)
                standing = old.claims_in("locked") if old is not None else []
                for resource in {claim.resource for claim in stake.claims}:
                    more = _most(limit, [c for c in stake.claims if c.resource == resource])
                    more -= _amount(limit, [c for c in standing if c.resource == resource])
                    used[resource, user] += max(more, 0)
            for (resource, user), amount in used.items():
                self.met[limit.name] += amount == _allowed(limit)
                if amount > _allowed(limit):
                    raise Violation(
                        f"{user or 'all'} have {amount} of {_allowed(limit)} at {resource}: {limit.name}"
                    )


def _most(limit: Limit, claims: Sequence[Claim]) -> int:
    """Of alternatives at most one is ever promised."""
    commons = {claim.common for claim in claims}
    return max(_amount(limit, [c for c in claims if c.common == each]) for each in commons)


def _amount(limit: Limit, claims: Iterable[Claim]) -> int:
    if limit.held_max:
        return sum(claim.state in ("held", "intended", "prepared") for claim in claims)
    if limit.locked_max:
        return int(any(claim.state in PROMISED for claim in claims))
    counted = PROMISED if limit.locked_unit_s else CLAIMED
    return sum(c.units * (c.end - c.start) for c in claims if c.state in counted)


def _allowed(limit: Limit) -> int:
    share = limit.share.unit_s if limit.share is not None else 0
    return limit.held_max or limit.locked_max or limit.locked_unit_s or share


def owners_limit(world: World) -> None:
    """Every owner limits users in some ways; every fault strikes."""
    random = world.kernel.random
    world.limited = True
    limits = {site.name: _drawn(random) for site in world.sites}
    for site in world.sites:
        site._calendars = _limited(site._calendars, limits[site.name])
    LimitsKept(limits).attach(world)


def _drawn(random: Random) -> tuple[Limit, ...]:
    return tuple(random.sample(KINDS, random.randrange(2, 5)))


def _limited(
    make: Callable[[], dict[str, ResourceCalendar]], limits: Sequence[Limit]
) -> Callable[[], dict[str, ResourceCalendar]]:
    def limited() -> dict[str, ResourceCalendar]:
        return {
            name: ResourceCalendar(each.info, each.access, (), OwnerRules(Limits(limits)))
            for name, each in make().items()
        }

    return limited
