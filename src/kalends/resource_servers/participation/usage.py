"""What counts against the limits of users and groups: claims held, and their share of each week.

Amounts are kept in accounts: of one user, or of all whom a rule with `together` means. A request adds
to each account what it claims there; one that is to replace another adds what it claims beyond that,
so that what is being changed counts once. Of alternatives the largest counts, for one of them at most
is ever promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kalends.calendars import Limit, ResourceCalendar, State, weeks
from kalends.calendars.profiles import Step
from kalends.calendars.rules.usage_limits import Kind
from kalends.contract.messages import Want
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Interval
from kalends.core.principals import Principal
from kalends.core.times import format_time, zone_named
from kalends.resource_servers.participation.claim_sets import Claim, Stake

AT_ONCE: Final = Interval(-1, -1)
"""In place of a week: the account counts claims that are held or promised, whenever they are."""


class Account(NamedTuple):
    """The usage of `user`, or of all who share by `rule` (the other is ""); of one week, or `AT_ONCE`."""

    resource: str
    user: str
    rule: str
    week: Interval


Amounts = Counter[Account]


class Usage:
    """The accounts of one site. Pure; what is noted follows from what is booked."""

    def __init__(self, calendars: Mapping[str, ResourceCalendar]) -> None:
        self._calendars = {
            name: calendar for name, calendar in calendars.items() if calendar.rules.limits.counts
        }
        self._noted: dict[str, Amounts] = {}
        self._used: Amounts = Counter()

    @property
    def counts(self) -> bool:
        """Whether any resource has limits: if not, there is nothing to note."""
        return bool(self._calendars)

    def note(self, stake: Stake, state: State, standing: Sequence[Claim]) -> None:
        """Count `stake`, whose claims are in `state`, beyond the locked claims that it is to replace.

        What was noted of it before is over.
        """
        if not self._calendars:
            return
        self.drop(stake.rid)
        amounts = self._beyond(stake.principal, stake.claims, state, standing)
        if amounts:
            self._noted[stake.rid] = amounts
            self._used.update(amounts)

    def drop(self, rid: str) -> None:
        """Nothing of `rid` counts any more."""
        for account, amount in self._noted.pop(rid, Amounts()).items():
            self._used[account] -= amount
            if not self._used[account]:
                del self._used[account]

    def accounts(self) -> Amounts:
        """Claims, or unit-seconds, of every account that is not empty."""
        return self._used.copy()

    def refusals(
        self,
        principal: Principal,
        wants: Iterable[Want],
        standing: Sequence[Claim] = (),
        rid: str = "",
    ) -> list[Refusal]:
        """Why limits do not allow `wants` besides what is used; what counts for `rid` is left out."""
        if not self._calendars:
            return []
        claims = [Claim(0, want.resource, want.start, want.end, want.units) for want in wants]
        own = self._noted.get(rid, Amounts())
        refusals = []
        for account, amount in self._beyond(principal, claims, "held", standing).items():
            calendar = self._calendars[account.resource]
            if amount > self._left(calendar, principal, account) + own[account]:
                rule = _rule_of(calendar, principal, account)
                refusals.append(_refusal(calendar, rule, account.week))
        return refusals

    def caps(
        self,
        principal: Principal,
        resource: str,
        window: Interval,
        length_s: int,
        amounts: Collection[int],
    ) -> list[list[Step]]:
        """Return what accounts leave for one more booking of at least `length_s`, in steps of `window`.

        A list for each account. The steps are right for a booking of one of `amounts` units, and bound no
        other amount that may be booked.
        """
        calendar = self._calendars.get(resource)
        if calendar is None or not length_s:
            return []
        bounds = []
        for user, rule in _owners(calendar, principal, "held_max"):
            if self._left(calendar, principal, Account(resource, user, rule, AT_ONCE)) < 1:
                bounds.append([(*window, 0)])
        for user, rule in _owners(calendar, principal, "share"):
            steps: list[Step] = []
            for week in weeks(*window, zone_named(calendar.info.zone)):
                left = self._left(calendar, principal, Account(resource, user, rule, week))
                steps += share_steps(week, max(left, 0), length_s, amounts)
            bounds.append(steps)
        return bounds

    def _left(self, calendar: ResourceCalendar, principal: Principal, account: Account) -> int:
        rule = _rule_of(calendar, principal, account)
        return _most(calendar, rule, account.week) - self._used[account]

    def check(self, stakes: Iterable[tuple[Stake, State, Sequence[Claim]]]) -> None:
        """Raises `AssertionError` unless the accounts are the sums over `stakes`, which are booked."""
        together: Amounts = Counter()
        noted = 0
        for stake, state, standing in stakes:
            amounts = self._beyond(stake.principal, stake.claims, state, standing)
            assert amounts == self._noted.get(stake.rid, Amounts()), (stake, amounts)
            noted += bool(amounts)
            together.update(amounts)
        assert together == self._used, (together, self._used)
        assert noted == len(self._noted), self._noted.keys()

    def _beyond(
        self,
        principal: Principal,
        claims: Sequence[Claim],
        state: State,
        standing: Sequence[Claim],
    ) -> Amounts:
        """What `claims` add to the accounts where `standing` counts already."""
        amounts: Amounts = Counter()
        for common in {claim.common for claim in claims if claim.resource in self._calendars}:
            # The largest of alternatives, account by account.
            amounts |= self._sum(principal, [c for c in claims if c.common == common], state)
        return amounts - self._sum(principal, standing, "locked") if amounts else amounts

    def _sum(self, principal: Principal, claims: Iterable[Claim], state: State) -> Amounts:
        """Every account that is limited for `principal`, with what `claims` use of it."""
        amounts: Amounts = Counter()
        for claim in claims:
            calendar = self._calendars.get(claim.resource)
            if calendar is None:
                continue
            if state != "locked":
                for user, rule in _owners(calendar, principal, "held_max"):
                    amounts[Account(claim.resource, user, rule, AT_ONCE)] += 1
            for user, rule in _owners(calendar, principal, "share"):
                for week in weeks(claim.start, claim.end, zone_named(calendar.info.zone)):
                    length_s = min(claim.end, week.end) - max(claim.start, week.start)
                    account = Account(claim.resource, user, rule, week)
                    amounts[account] += claim.units * length_s
        return amounts


def share_steps(
    week: Interval, left_unit_s: int, length_s: int, amounts: Collection[int]
) -> list[Step]:
    """Return the bounds on a booking of `length_s` in a week of which `left_unit_s` are left.

    A booking across a border of the week counts with its part, so more units are bounded in more of the
    week: those whose part would be too much even if the booking ended, or began, there.
    """
    inside = left_unit_s // length_s + 1
    denied = sorted({inside, *(units for units in amounts if units > inside)}, reverse=True)
    borders = [
        (week.start + left_unit_s // units, week.end - left_unit_s // units) for units in denied
    ]
    nested = list(zip(denied[:-1], pairwise(borders), strict=True))
    steps = [(outer[0], inner[0], units - 1) for units, (outer, inner) in nested]
    steps.append((*borders[-1], denied[-1] - 1))
    steps += [(inner[1], outer[1], units - 1) for units, (outer, inner) in reversed(nested)]
    return [step for step in steps if step[0] < step[1]]


def _owners(calendar: ResourceCalendar, principal: Principal, kind: Kind) -> list[tuple[str, str]]:
    """The accounts that limit `principal`: their own, and that of those with whom they share."""
    limits = calendar.rules.limits
    owners = []
    if limits.deciding(principal, kind) is not None:
        owners.append((principal.user, ""))
    shared = limits.deciding(principal, kind, together=True)
    if shared is not None:
        owners.append(("", shared.name))
    return owners


def _rule_of(calendar: ResourceCalendar, principal: Principal, account: Account) -> Limit:
    kind: Kind = "held_max" if account.week == AT_ONCE else "share"
    rule = calendar.rules.limits.deciding(principal, kind, together=bool(account.rule))
    assert rule is not None, account
    return rule


def _most(calendar: ResourceCalendar, rule: Limit, week: Interval) -> int:
    if week == AT_ONCE or rule.share is None:
        return rule.held_max
    return rule.share.of(calendar.info.capacity, week.length_s)


def _refusal(calendar: ResourceCalendar, rule: Limit, week: Interval) -> Refusal:
    """It names the rule and the week, and not what others have booked."""
    whom = f"all of {rule.who} together" if rule.together else "each user"
    if week == AT_ONCE:
        detail = f"rule {rule.name} lets {whom} hold at most {rule.held_max} claims at once"
        code = RefusalCode.LIMIT
    else:
        begins = format_time(week.start, calendar.info.zone)
        detail = (
            f"rule {rule.name} lets {whom} use at most {rule.describe_share()} of a week:"
            f" this would be more in the one from {begins}"
        )
        code = RefusalCode.SHARE
    return Refusal(where=calendar.info.name, code=code, detail=detail, rule=rule.name)
