"""Usage that counts against limits of users and groups: holds, reservations, and shares of each week.

Amounts are kept in accounts: of one user, or of all whom a rule with `together` means. A request adds
to each account what it claims there; one that is to replace another adds what it claims beyond that,
so that what is being changed counts once. Of alternatives the largest counts, for one of them at most
is ever promised. A slot that is over counts no more among those that stand, though it is known still. What
has passed counts in its week for good: also of what was cancelled or moved while it ran.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Final, Literal, NamedTuple

from sortedcontainers import SortedList

from kalends.calendars import Limit, ResourceCalendar, State, weeks
from kalends.calendars.profiles import Step
from kalends.calendars.rules.usage_limits import Kind
from kalends.contract.messages import Want
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Interval
from kalends.core.principals import Principal
from kalends.core.times import format_time, zone_named
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake, claims_of
from kalends.resource_servers.participation.claims.occupancy import passed_of

AT_ONCE: Final = Interval(-1, -1)
"""In place of a week: the account counts claims that are held or promised, whenever they are."""

STANDING: Final = Interval(-2, -2)
"""In place of a week: it counts slots that are promised or locked, and not over."""

STANDING_TIME: Final = Interval(-3, -3)
"""In place of a week: it counts their unit-seconds."""

KIND_OF: Final[dict[Interval, Kind]] = {
    AT_ONCE: "held_max", STANDING: "locked_max", STANDING_TIME: "locked_unit_s",
}  # fmt: skip
"""What limits an account that is of no week."""


class Account(NamedTuple):
    """The usage of `user`, or of all who share by `rule` (the other is ""); of one week, or of `KIND_OF`."""

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
        self._ends: defaultdict[Account, SortedList] = defaultdict(SortedList)
        """For accounts that count only what is not over: ``(end, rid, amount)``, by end."""
        self._ends_of: dict[str, list[tuple[Account, int, int]]] = {}
        """For each request its entries in `_ends`: account, end and amount."""

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
        self._note(stake.rid, self._counted(stake, state, standing))
        ends = _ends_of(stake.claims, self._noted.get(stake.rid, Amounts()), standing)
        if ends:
            self._ends_of[stake.rid] = ends
        for account, end, amount in ends:
            self._ends[account].add((end, stake.rid, amount))

    def note_used(self, stake: Stake) -> None:
        """Count what was used of `stake`, which is booked no more; what was noted of it before is over."""
        if self._calendars:
            self._note(stake.rid, self._sum_of_used(stake))

    def _note(self, rid: str, amounts: Amounts) -> None:
        self.drop(rid)
        if amounts:
            self._noted[rid] = amounts
            self._used.update(amounts)

    def counted_until(self, rid: str) -> int:
        """Return the end of the last week in which `rid` counts; 0 if it counts in none."""
        return max((account.week.end for account in self._noted.get(rid, ())), default=0)

    def drop(self, rid: str) -> None:
        """Nothing of `rid` counts any more."""
        amounts = self._noted.pop(rid, Amounts())
        for account, end, amount in self._ends_of.pop(rid, ()):
            self._ends[account].remove((end, rid, amount))
            if not self._ends[account]:
                del self._ends[account]
        for account, amount in amounts.items():
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
        now_s: int,
        standing: Sequence[Claim] = (),
        rid: str = "",
    ) -> list[Refusal]:
        """Why limits do not allow `wants` besides what is used by now; what counts for `rid` is left out."""
        if not self._calendars:
            return []
        claims = claims_of(wants)
        own = self._noted.get(rid, Amounts())
        passed = [Claim(0, *piece) for piece in passed_of(standing, now_s, claims)]
        wanted = self._beyond(principal, claims, "prepared", standing, passed)
        refusals = []
        for account, amount in wanted.items():
            calendar = self._calendars[account.resource]
            if amount > self._left(calendar, principal, account, now_s) + own[account]:
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
        now_s: int,
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
            if self._left(calendar, principal, Account(resource, user, rule, AT_ONCE), now_s) < 1:
                bounds.append([(*window, 0)])
        for user, rule in _owners(calendar, principal, "locked_max"):
            if self._left(calendar, principal, Account(resource, user, rule, STANDING), now_s) < 1:
                bounds.append([(*window, 0)])
        for user, rule in _owners(calendar, principal, "locked_unit_s"):
            account = Account(resource, user, rule, STANDING_TIME)
            left = self._left(calendar, principal, account, now_s)
            bounds.append([(*window, max(left, 0) // length_s)])
        for user, rule in _owners(calendar, principal, "share"):
            steps: list[Step] = []
            for week in weeks(*window, zone_named(calendar.info.zone)):
                left = self._left(calendar, principal, Account(resource, user, rule, week), now_s)
                steps += share_steps(week, max(left, 0), length_s, amounts)
            bounds.append(steps)
        return bounds

    def described(self, principal: Principal, resource: str, now_s: int) -> list[str]:
        """Return in words how much is used of what may be: ``staff: 2 of 3 reservations are yours``.

        Of a share it is that of the present week, and of each later one in which some is used.
        """
        calendar = self._calendars.get(resource)
        if calendar is None:
            return []
        horizon_s = now_s + calendar.info.horizon_s
        present, *later = weeks(now_s, horizon_s, zone_named(calendar.info.zone))
        told = []
        for week in (AT_ONCE, STANDING, STANDING_TIME, present, *later):
            for user, rule_name in _owners(calendar, principal, KIND_OF.get(week, "share")):
                account = Account(resource, user, rule_name, week)
                rule = _rule_of(calendar, principal, account)
                most = _most(calendar, rule, week)
                used = most - self._left(calendar, principal, account, now_s)
                if used or week not in later:
                    whose = "are taken" if rule.together else "are yours"
                    told.append(
                        f"{rule.name}: {_used_of(calendar, rule, week, used, most)} {whose}"
                    )
        return told

    def _left(
        self, calendar: ResourceCalendar, principal: Principal, account: Account, now_s: int
    ) -> int:
        rule = _rule_of(calendar, principal, account)
        over = takewhile(lambda each: each[0] <= now_s, self._ends.get(account, ()))
        used: int = self._used[account] - sum(amount for _, _, amount in over)
        return _most(calendar, rule, account.week) - used

    def check(
        self, stakes: Iterable[tuple[Stake, State, Sequence[Claim]]], used: Iterable[Stake]
    ) -> None:
        """Raises `AssertionError` unless the accounts are the sums over `stakes`, which are booked.

        And over what was `used` of others.
        """
        together: Amounts = Counter()
        noted = 0
        for stake, state, standing in stakes:
            amounts = self._counted(stake, state, standing)
            assert amounts == self._noted.get(stake.rid, Amounts()), (stake, amounts)
            noted += bool(amounts)
            together.update(amounts)
        for stake in used:
            amounts = self._sum_of_used(stake)
            assert amounts == self._noted.get(stake.rid, Amounts()), (stake, amounts)
            noted += bool(amounts)
            together.update(amounts)
        assert together == self._used, (together, self._used)
        assert noted == len(self._noted), self._noted.keys()
        for account in _of_standing(together):
            ends = self._ends[account]
            assert sum(amount for _, _, amount in ends) == together[account], (account, ends)
        assert self._ends.keys() == set(_of_standing(together))

    def _counted(self, stake: Stake, state: State, standing: Sequence[Claim]) -> Amounts:
        """Amounts of `stake` beyond `standing`, and of the used part of `standing` once it is promised."""
        passed = claims_of(stake.passed) if standing else []
        return self._beyond(stake.principal, stake.claims, state, standing, passed)

    def _beyond(
        self,
        principal: Principal,
        claims: Sequence[Claim],
        state: State,
        standing: Sequence[Claim],
        passed: Sequence[Claim] = (),
    ) -> Amounts:
        """What `claims`, and what has `passed` of `standing`, add to accounts where `standing` counts."""
        amounts: Amounts = Counter()
        for common in {claim.common for claim in claims if claim.resource in self._calendars}:
            # The largest of alternatives, account by account.
            amounts |= self._sum(principal, [c for c in claims if c.common == common], state)
        amounts += self._sum(principal, passed, "used")
        return amounts - self._sum(principal, standing, "locked") if amounts else amounts

    def _sum_of_used(self, stake: Stake) -> Amounts:
        return self._sum(stake.principal, claims_of(stake.used), "used")

    def _sum(
        self, principal: Principal, claims: Iterable[Claim], state: State | Literal["used"]
    ) -> Amounts:
        """Every account that is limited for `principal`, with what `claims` use of it."""
        amounts: Amounts = Counter()
        for claim in claims:
            calendar = self._calendars.get(claim.resource)
            if calendar is None:
                continue
            if state in ("held", "prepared"):
                for user, rule in _owners(calendar, principal, "held_max"):
                    amounts[Account(claim.resource, user, rule, AT_ONCE)] += 1
            if state in ("prepared", "locked"):
                for user, rule in _owners(calendar, principal, "locked_max"):
                    amounts[Account(claim.resource, user, rule, STANDING)] += 1
                for user, rule in _owners(calendar, principal, "locked_unit_s"):
                    unit_s = claim.units * (claim.end - claim.start)
                    amounts[Account(claim.resource, user, rule, STANDING_TIME)] += unit_s
            for user, rule in _owners(calendar, principal, "share"):
                for week in weeks(claim.start, claim.end, zone_named(calendar.info.zone)):
                    length_s = min(claim.end, week.end) - max(claim.start, week.start)
                    account = Account(claim.resource, user, rule, week)
                    amounts[account] += claim.units * length_s
        return amounts


def _of_standing(amounts: Amounts) -> list[Account]:
    return [each for each in amounts if each.week in (STANDING, STANDING_TIME)]


def _ends_of(
    claims: Sequence[Claim], amounts: Amounts, standing: Sequence[Claim]
) -> list[tuple[Account, int, int]]:
    """Return when each slot counts no more among those that stand: account, end and amount.

    What a change adds counts until its last slot is over.
    """
    ends = []
    for account in _of_standing(amounts):
        there = [claim for claim in claims if claim.resource == account.resource]
        if standing:
            ends.append((account, max(claim.end for claim in there), amounts[account]))
            continue
        for claim in there:
            counted = account.week == STANDING
            amount = 1 if counted else claim.units * (claim.end - claim.start)
            ends.append((account, claim.end, amount))
    return ends


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
    kind = KIND_OF.get(account.week, "share")
    rule = calendar.rules.limits.deciding(principal, kind, together=bool(account.rule))
    assert rule is not None, account
    return rule


def _most(calendar: ResourceCalendar, rule: Limit, week: Interval) -> int:
    if week == STANDING:
        return rule.locked_max
    if week == STANDING_TIME:
        return rule.locked_unit_s
    if week == AT_ONCE or rule.share is None:
        return rule.held_max
    return rule.share.of(calendar.info.capacity, week.length_s)


def _used_of(calendar: ResourceCalendar, rule: Limit, week: Interval, used: int, most: int) -> str:
    """Return how much is `used`, of which maximum: ``2 of 3 reservations``."""
    if week == AT_ONCE:
        return f"{used} of {most} held at once"
    if week == STANDING:
        return f"{used} of {rule.describe_number()}"
    if week == STANDING_TIME:
        return f"{used / 3_600:g} of {rule.describe_time()}"
    begins = format_time(week.start, calendar.info.zone)
    return f"{used / 3_600:g} of {most / 3_600:g} unit-hours in the week from {begins}"


def _refusal(calendar: ResourceCalendar, rule: Limit, week: Interval) -> Refusal:
    """It names the rule and the week, and not what others have booked."""
    whom = f"all of {rule.who} together" if rule.together else "each user"
    if week == AT_ONCE:
        detail = f"rule {rule.name} lets {whom} hold at most {rule.held_max} claims at once"
        code = RefusalCode.LIMIT
    elif week in (STANDING, STANDING_TIME):
        most = rule.describe_number() if week == STANDING else f"{rule.describe_time()} reserved"
        have = "has" if week == STANDING and rule.locked_max == 1 else "have"
        detail = f"rule {rule.name} lets {whom} have at most {most} that {have} not ended"
        code = RefusalCode.LIMIT
    else:
        begins = format_time(week.start, calendar.info.zone)
        detail = (
            f"rule {rule.name} lets {whom} use at most {rule.describe_share()} of a week:"
            f" this would be more in the one from {begins}"
        )
        code = RefusalCode.SHARE
    return Refusal(where=calendar.info.name, code=code, detail=detail, rule=rule.name)
