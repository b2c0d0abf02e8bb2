"""Access lists: who may see, hold and lock a resource, when, and up to how much.

A list is a set of rules; what a principal may do is the union of the rules that match them, and an
empty list allows nobody anything. No permission implies another: who may lock but not hold can only
lock what is held for them. A refusal names a rule that applies to the asker, never one of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kalends.calendars import profiles
from kalends.calendars.profiles import Step
from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.calendars.recurrence.windows import Windows
from kalends.core import identifiers, limits
from kalends.core.errors import InvalidInput, Refusal, RefusalCode
from kalends.core.intervals import Interval
from kalends.core.principals import Principal

ACTIONS: Final = ("see", "hold", "lock", "detail")
"""The actions of rules: `detail` shows who holds the slots, `see` only that they are taken."""

PRINCIPALS_MAX: Final = 4_096
"""Principals whose rules are remembered; beyond, the memory starts afresh."""

NO_RULE: Final = "access-list"
"""The rule that a refusal names when no rule of the list applies to the asker."""

_WHO = re.compile(identifiers.WHO_PATTERN)
_NAME = re.compile(identifiers.NAME_PATTERN)


def check_who(who: str, where: str) -> None:
    """Raises `InvalidInput` unless `who` is ``everyone``, ``user:NAME`` or ``group:NAME``."""
    if type(who) is not str or not _WHO.fullmatch(who):
        raise InvalidInput(
            f"unknown principal {who!r}",
            where=where,
            remedy="write everyone, user:NAME or group:NAME",
        )


def is_meant(who: str, principal: Principal) -> bool:
    """Return whether a rule for `who` (see `check_who`) is about `principal`."""
    kind, _, name = who.partition(":")
    if kind == "everyone":
        return True
    return name == principal.user if kind == "user" else name in principal.groups


class Membership(NamedTuple):
    """A user's time in a rule: until `until` (seconds UTC), the end of `last_day` in the owner's zone."""

    until: int
    last_day: str


@dataclass(frozen=True, slots=True)
class AccessRule:
    """An access rule: `who` (``everyone``, ``user:NAME``, ``group:NAME``) `may` do these actions.

    At most `units_max` units in one booking (0: no limit), within `windows` (empty: always). With `members`
    it is about these users only, and for each to the end of the membership. Raises `InvalidInput` for
    anything else.
    """

    name: str
    who: str
    may: frozenset[str] | tuple[str, ...]
    units_max: int = 0
    windows: tuple[Recurrence, ...] = ()
    members: Mapping[str, Membership] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        where = f"access.{self.name}"
        if type(self.name) is not str or not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"{self.name!r} is not a rule's name",
                where="access",
                remedy="use lower-case letters, digits, dots, dashes and underscores",
            )
        check_who(self.who, f"{where}.who")
        if isinstance(self.may, str) or not set(self.may) <= set(ACTIONS) or not self.may:
            raise InvalidInput(
                f"{self.may!r} are not actions",
                where=f"{where}.may",
                remedy=f"choose from {', '.join(ACTIONS)}",
            )
        if type(self.units_max) is not int or not 0 <= self.units_max <= limits.UNITS_MAX:
            raise InvalidInput(
                f"{self.units_max!r} is not an amount",
                where=f"{where}.units_max",
                remedy="give whole units, or 0 for no limit",
            )
        if not all(isinstance(window, Recurrence) for window in self.windows):
            raise InvalidInput("windows are recurrences", where=f"{where}.windows")
        object.__setattr__(self, "may", frozenset(self.may))
        object.__setattr__(self, "windows", tuple(self.windows))

    def matches(self, principal: Principal) -> bool:
        return is_meant(self.who, principal) and (
            not self.members or principal.user in self.members
        )

    @property
    def timeless(self) -> bool:
        """Whether the rule holds always, for all whom it is about."""
        return not (self.windows or self.members)

    @property
    def units(self) -> int:
        """The most units in one booking."""
        return self.units_max or limits.UNITS_MAX


@dataclass(frozen=True, slots=True)
class _Grant:
    """The rules that let one principal do one action."""

    always: int
    """The most units that timeless rules allow; 0 when there is no such rule."""
    rules: tuple[AccessRule, ...]


class AccessList:
    """The rules of one resource; raises `InvalidInput` when two have the same name.

    Principals that match one of `barred` (written as a rule's `who`) may do nothing.
    Immutable but for a cache of who matches what; not thread-safe.
    """

    def __init__(self, rules: Iterable[AccessRule] = (), barred: Iterable[str] = ()) -> None:
        self.rules = tuple(rules)
        self._barred = [AccessRule(f"barred-{n}", who, ("see",)) for n, who in enumerate(barred, 1)]
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(
                f"two rules are called {twice}",
                where="access",
                remedy="give each rule its own name, because refusals name them",
            )
        self._windows = {rule.name: Windows(rule.windows) for rule in self.rules if rule.windows}
        self._grants: dict[Principal, dict[str, _Grant]] = {}

    def sees(self, principal: Principal) -> bool:
        """Return whether the resource exists for `principal`."""
        return self.may_ever(principal, "see")

    def sees_detail(self, principal: Principal) -> bool:
        """Return whether `principal` may see who holds slots."""
        return self.may_ever(principal, "detail")

    def may_ever(self, principal: Principal, action: str) -> bool:
        """Return whether some rule allows `action`, whenever and up to however much."""
        return bool(self._grant(principal, action).rules)

    def units_ever(self, principal: Principal, action: str) -> int:
        """Return the most units of one `action` that some rule allows, whenever; 0 if none does."""
        return max((rule.units for rule in self._grant(principal, action).rules), default=0)

    def refusal(
        self,
        principal: Principal,
        action: str,
        resource_name: str,
        start: int,
        end: int,
        units: int,
    ) -> Refusal | None:
        """Return why `principal` may not do `action` with `units` in ``[start, end)``, or None.

        Every moment must be allowed by some rule. Raises `InvalidInput` as `Windows.between`.
        """
        grant = self._grant(principal, action)
        if units <= grant.always:
            return None
        if not grant.rules:
            return _refusal(resource_name, NO_RULE, f"no rule of the owner lets you {action} here")
        large = max(grant.rules, key=lambda rule: rule.units)
        if units > large.units:
            detail = f"rule {large.name} lets you {action} at most {large.units} units at once"
            return _refusal(resource_name, large.name, detail)
        allowed = profiles.at_least(self.permitted(principal, action, start, end), units)
        if allowed == [(start, end)]:
            return None
        fitting = [rule for rule in grant.rules if rule.units >= units]
        hours = " or ".join(self._times(rule, principal) for rule in fitting)
        amount = f" {units} units" if any(rule.units_max for rule in grant.rules) else ""
        detail = f"rule {fitting[0].name} lets you {action}{amount} only {hours}"
        return _refusal(resource_name, fitting[0].name, detail)

    def windows(
        self, principal: Principal, action: str, start: int, end: int, units: int
    ) -> list[Interval] | None:
        """Return when in ``[start, end)`` `principal` may do `action` with `units`; None means always.

        Sorted, disjoint, not touching. Raises `InvalidInput` as `Windows.between`.
        """
        if units <= self._grant(principal, action).always:
            return None
        return profiles.at_least(self.permitted(principal, action, start, end), units)

    def describe_for(self, principal: Principal) -> list[str]:
        """Return in words what `principal` may do: ``guests (everyone): hold and lock, at most 32 units``."""
        grants = {action: self._grant(principal, action).rules for action in ACTIONS}
        told = [
            self._described(rule, principal)
            for rule in self.rules
            if rule in grants["hold"] or rule in grants["lock"]
        ]
        return told or (["no rule lets you book here"] if grants["see"] else [])

    def _times(self, rule: AccessRule, principal: Principal) -> str:
        """Return in words when a rule that is not timeless holds for `principal`."""
        words = [self._windows[rule.name].describe()] if rule.windows else []
        if rule.members:
            words.append(f"until the end of {rule.members[principal.user].last_day}")
        return " ".join(words)

    def _open_at(
        self, rule: AccessRule, principal: Principal, start: int, end: int
    ) -> Iterable[Interval]:
        """Return when in ``[start, end)`` a rule that matches `principal` holds for them."""
        if rule.members:
            end = min(end, rule.members[principal.user].until)
            if end <= start:
                return ()
        return (
            self._windows[rule.name].between(start, end)
            if rule.windows
            else (Interval(start, end),)
        )

    def _described(self, rule: AccessRule, principal: Principal) -> str:
        may = " and ".join(action for action in ("hold", "lock") if action in rule.may)
        words = [f"you may {may}"]
        if rule.units_max:
            words.append(f"at most {rule.units_max} units at once")
        if not rule.timeless:
            words.append(f"only {self._times(rule, principal)}")
        return f"{rule.name} ({rule.who}): {', '.join(words)}"

    def permitted(self, principal: Principal, action: str, start: int, end: int) -> Iterator[Step]:
        """Return the most units with which `principal` may do `action`, as a profile of ``[start, end)``."""
        grant = self._grant(principal, action)
        profile: Iterator[Step] = iter([(start, end, grant.always)])
        for rule in grant.rules:
            if rule.units > grant.always:
                open_at = self._open_at(rule, principal, start, end)
                profile = profiles.combine(
                    profile, profiles.from_windows(open_at, start, end, rule.units), max
                )
        return profiles.join(profile)

    def _grant(self, principal: Principal, action: str) -> _Grant:
        grants = self._grants.get(principal)
        if grants is None:
            if len(self._grants) >= PRINCIPALS_MAX:
                self._grants.clear()
            grants = self._grants[principal] = {
                each: self._work_out(principal, each) for each in ACTIONS
            }
        return grants[action]

    def _work_out(self, principal: Principal, action: str) -> _Grant:
        if any(rule.matches(principal) for rule in self._barred):
            return _Grant(0, ())
        rules = tuple(rule for rule in self.rules if action in rule.may and rule.matches(principal))
        return _Grant(max((rule.units for rule in rules if rule.timeless), default=0), rules)


def open_access() -> AccessList:
    """Allow everyone to see, hold and lock, always; holders are hidden."""
    return AccessList([AccessRule("open", "everyone", ("see", "hold", "lock"))])


def _refusal(where: str, rule: str, detail: str) -> Refusal:
    return Refusal(where=where, code=RefusalCode.NOT_ALLOWED, detail=detail, rule=rule)
