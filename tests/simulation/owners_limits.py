"""Owners who limit how much each user may have, and a judge who counts it after every step of a site.

What has passed counts in its week for good: the judge remembers it, whatever a site has forgotten since.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from kalends.calendars import Limit, Limits, OwnerRules, ResourceCalendar
from kalends.calendars.rules.usage_limits import UsageShare
from kalends.resource_servers.participation.claims.claim_sets import (
    Claim,
    Stake,
    StakeDropped,
    StakeStored,
    decode_stake,
)
from kalends.resource_servers.participation.effects import SiteFact
from tests.simulation.auditor import Auditor, Taken, units_at
from tests.simulation.kernel import Violation
from tests.simulation.nodes import SiteNode

if TYPE_CHECKING:
    from tests.simulation.world import World

HOUR_S: Final = 3_600
PROMISED: Final = ("intended", "prepared", "locked")
CLAIMED: Final = ("held", *PROMISED)


def limits_of(slot_s: int) -> tuple[Limit, ...]:
    """All kinds of limits, where slots are so long, and all of one week."""
    return (
        Limit("few", "everyone", locked_max=2),
        Limit("hours", "everyone", locked_unit_s=3 * slot_s),
        Limit("at-once", "everyone", held_max=2),
        Limit("week", "everyone", share=UsageShare(unit_s=4 * slot_s)),
        Limit("few-together", "everyone", together=True, locked_max=3),
        Limit("week-together", "everyone", together=True, share=UsageShare(unit_s=7 * slot_s)),
    )


class Used(NamedTuple):
    """What had passed of a reservation that is booked no more."""

    user: str
    pieces: Sequence[Taken]


class LimitsKept:
    """`limits` are those of each site, for each of its resources by itself."""

    _auditor: Auditor

    def __init__(self, limits: Mapping[str, Sequence[Limit]]) -> None:
        self.met: Counter[str] = Counter()
        """How often as much as a limit allows was used, by its name."""
        self._limits = limits
        self._locked: defaultdict[str, dict[str, Used]] = defaultdict(dict)
        """For each site what was locked after its last step."""
        self._passed: defaultdict[str, dict[str, Used]] = defaultdict(dict)
        """For each site what has been used of what is locked no more."""
        self._promised_s: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """For each site when changes were promised."""

    def attach(self, world: World) -> None:
        """Count after each step of a site of `world`."""
        self._auditor = world.auditor
        stepped = world.auditor.site_stepped

        def stepping(node: SiteNode, alarms: Sequence[str]) -> None:
            stepped(node, alarms)
            stakes = dict(node.participant.book.stakes.items())
            self._note_passed(node.name, stakes, self._auditor.true_s())
            # What an image had standing counts beside what passed since, until both have compared.
            if node.participant.recovery.refusal() is None:
                self._count(node.name, stakes)

        world.auditor.site_stepped = stepping  # type: ignore[method-assign]
        world.judges.append(self)

    def attach_to_stores(self, auditor: Auditor) -> None:
        """Count what each site has stored, whenever `auditor` hears of it: what is only held is not."""
        self._auditor = auditor
        stored = auditor.site_stored
        stakes: defaultdict[str, dict[str, Stake]] = defaultdict(dict)

        def storing(site: str, facts: Sequence[SiteFact]) -> None:
            stored(site, facts)
            for fact in facts:
                if isinstance(fact, StakeStored):
                    stakes[site][fact.rid] = decode_stake(fact.body)
                elif isinstance(fact, StakeDropped):
                    stakes[site].pop(fact.rid, None)
            self._note_passed(site, stakes[site], self._auditor.true_s())
            self._count(site, stakes[site])

        auditor.site_stored = storing  # type: ignore[method-assign]

    def finish(self) -> Iterable[str]:
        """Nothing more is wrong than was found at once."""
        return ()

    def _count(self, site: str, stakes: Mapping[str, Stake]) -> None:
        now_s = self._auditor.true_s()
        for limit in self._limits[site]:
            used: defaultdict[tuple[str, str], int] = defaultdict(int)
            for stake in stakes.values():
                user = "" if limit.together else stake.principal.user
                old = stakes.get(stake.replaces)
                standing = old.claims_in("locked") if old is not None else []
                for resource in {claim.resource for claim in stake.claims}:
                    more = _most(limit, now_s, [c for c in stake.claims if c.resource == resource])
                    more -= _amount(limit, now_s, [c for c in standing if c.resource == resource])
                    used[resource, user] += max(more, 0)
            for passed in self._passed[site].values() if limit.share is not None else ():
                for resource, start, end, units in passed.pieces:
                    used[resource, "" if limit.together else passed.user] += units * (end - start)
            for (resource, user), amount in used.items():
                self.met[limit.name] += amount == _allowed(limit)
                if amount > _allowed(limit):
                    raise Violation(
                        f"{user or 'all'} have {amount} of {_allowed(limit)} at {resource}: {limit.name}"
                    )

    def _note_passed(self, site: str, stakes: Mapping[str, Stake], now_s: int) -> None:
        """Remember what had passed of whatever is locked no more, when it ended or its heir was promised."""
        locked, heirs = {}, {}
        for rid, stake in stakes.items():
            if stake.replaces and (stake.has("intended") or stake.has("prepared")):
                self._promised_s[site].setdefault(rid, now_s)
            if taken := [(c.resource, c.start, c.end, c.units) for c in stake.claims_in("locked")]:
                locked[rid] = Used(stake.principal.user, taken)
                heirs[stake.replaces] = rid
        for rid, (user, taken) in self._locked[site].items():
            heir = heirs.get(rid, "")
            until_s = self._promised_s[site].get(heir, now_s)
            instead = locked[heir].pieces if heir else ()
            if rid not in locked:
                self._passed[site][rid] = Used(user, list(_passed(taken, until_s, instead)))
        for rid in locked:
            self._passed[site].pop(rid, None)
        self._locked[site] = locked


def _passed(taken: Sequence[Taken], until_s: int, instead: Sequence[Taken]) -> Iterator[Taken]:
    """Yield what of `taken` had passed by `until_s`, beyond what is had `instead`."""
    for resource in {each[0] for each in taken}:
        times = {t for each in (*taken, *instead) for t in each[1:3]} | {until_s}
        for start, end in pairwise(sorted(t for t in times if t <= until_s)):
            units = units_at(taken, resource, start) - units_at(instead, resource, start)
            if units > 0:
                yield resource, start, end, units


def _most(limit: Limit, now_s: int, claims: Sequence[Claim]) -> int:
    """Of alternatives at most one is ever promised."""
    commons = {claim.common for claim in claims}
    return max(_amount(limit, now_s, [c for c in claims if c.common == each]) for each in commons)


def _amount(limit: Limit, now_s: int, claims: Sequence[Claim]) -> int:
    if limit.held_max:
        return sum(claim.state in ("held", "intended", "prepared") for claim in claims)
    if limit.locked_max:
        return sum(claim.state in PROMISED and claim.end > now_s for claim in claims)
    if limit.locked_unit_s:
        claims = [claim for claim in claims if claim.end > now_s]
    counted = PROMISED if limit.locked_unit_s else CLAIMED
    return sum(c.units * (c.end - c.start) for c in claims if c.state in counted)


def _allowed(limit: Limit) -> int:
    share = limit.share.unit_s if limit.share is not None else 0
    return limit.held_max or limit.locked_max or limit.locked_unit_s or share


def owners_limit(world: World) -> None:
    """Every owner limits users in some ways; every fault strikes."""
    _limit(world, HOUR_S, range(2, 5))


def owners_limit_passed(world: World, slot_s: int) -> None:
    """The same, by the week among others, with slots that end, right clocks, and servers that die."""
    _limit(world, slot_s, range(1, 3), always=("week",))


def _limit(world: World, slot_s: int, count: range, always: Sequence[str] = ()) -> None:
    random = world.kernel.random
    world.limited = True
    kinds = limits_of(slot_s)
    limits = {site.name: _drawn(random, kinds, count, always) for site in world.sites}
    for site in world.sites:
        site._calendars = _limited(site._calendars, limits[site.name])
    LimitsKept(limits).attach(world)


def _drawn(
    random: Random, kinds: Sequence[Limit], count: range, always: Sequence[str]
) -> tuple[Limit, ...]:
    drawn = random.sample([each for each in kinds if each.name not in always], random.choice(count))
    return (*(each for each in kinds if each.name in always), *drawn)


def _limited(
    make: Callable[[], dict[str, ResourceCalendar]], limits: Sequence[Limit]
) -> Callable[[], dict[str, ResourceCalendar]]:
    def limited() -> dict[str, ResourceCalendar]:
        return {
            name: ResourceCalendar(each.info, each.access, (), OwnerRules(Limits(limits)))
            for name, each in make().items()
        }

    return limited
