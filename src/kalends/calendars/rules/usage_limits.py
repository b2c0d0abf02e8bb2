"""An owner's limits: how early, how late, how long and how much one user, or a group together, may book.

Also whose bookings wait for the owner's approval.

Of the rules that name a limit of one kind and that match a principal, the first decides; so rules for
few stand before rules for many. A rule says nothing about the kinds that it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final, Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

from kalends.calendars.rules.access import check_who, is_meant
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.local_clocks import instant
from kalends.core.principals import Principal

HELD_MAX: Final = 1_000_000
"""More claims at once than any store has seen."""

Approval = Literal["", "needed", "two", "waived"]
"""Whether the owner approves each booking, or two people of the owner; "": the rule does not say."""

Kind = Literal[
    "ahead_s", "lead_s", "longest_s", "shortest_s", "held_max", "locked_max", "locked_unit_s", "share",
    "approval",
]  # fmt: skip

_APPROVAL: Final[dict[Approval, str]] = {
    "needed": "with the owner's approval",
    "two": "with the approval of two people of the owner",
    "waived": "without the owner's approval",
}

COUNTED: Final[tuple[Kind, ...]] = ("held_max", "locked_max", "locked_unit_s", "share")
"""Limits that depend on existing bookings; users may share them."""


class UsageShare(NamedTuple):
    """A share of a calendar week: a fraction of its units, or unit-seconds (the other is 0)."""

    fraction: float = 0.0
    unit_s: int = 0

    def of(self, capacity: int, week_s: int) -> int:
        """Return the unit-seconds in a week of `week_s`, which a clock change makes longer or shorter."""
        return self.unit_s or int(self.fraction * capacity * week_s)


@dataclass(frozen=True, slots=True)
class Limit:
    """The maximum usage of `who`; 0 (or None) means no limit.

    A booking ends at most `ahead_s` from now, starts at least `lead_s` from now, and is at most
    `longest_s` and at least `shortest_s` long. At most `held_max` claims are held or promised at once. At
    most `locked_max` reservations, and `locked_unit_s` unit-seconds of reservations, are promised or locked
    and not over. At most `share` of a calendar week is held, promised or locked. The last four hold for each
    user, or with `together` for all whom `who` means in one. `approval`: a booking waits for the owner's
    word, or for that of two people, or is exempt from a later rule that wants it. Raises `InvalidInput` for
    anything else.
    """

    name: str
    who: str
    together: bool = False
    ahead_s: int = 0
    lead_s: int = 0
    longest_s: int = 0
    held_max: int = 0
    locked_max: int = 0
    locked_unit_s: int = 0
    share: UsageShare | None = None
    approval: Approval = ""
    shortest_s: int = 0

    def __post_init__(self) -> None:
        check_who(self.who, "who")
        for where, value, most in (
            ("ahead", self.ahead_s, limits.WINDOW_S_MAX),
            ("lead", self.lead_s, limits.WINDOW_S_MAX),
            ("longest", self.longest_s, limits.DURATION_S_MAX),
            ("shortest", self.shortest_s, limits.DURATION_S_MAX),
            ("held_max", self.held_max, HELD_MAX),
            ("locked_max", self.locked_max, HELD_MAX),
            ("locked_hours", self.locked_unit_s, limits.UNITS_MAX * limits.WINDOW_S_MAX),
        ):
            if type(value) is not int or not 0 <= value <= most:
                raise InvalidInput(
                    f"{value!r} is not a limit", where=where, remedy=f"give at most {most}"
                )
        if self.ahead_s and self.lead_s >= self.ahead_s:
            raise InvalidInput(
                f"users who must book {format_duration(self.lead_s)} before and at most"
                f" {format_duration(self.ahead_s)} ahead can book nothing",
                where="lead",
                remedy="make ahead longer than lead, or exclude them by access rules",
            )
        if 0 < self.longest_s < self.shortest_s:
            raise InvalidInput(
                f"at least {format_duration(self.shortest_s)} and at most"
                f" {format_duration(self.longest_s)} long: no booking is both",
                where="shortest",
                remedy="make longest longer than shortest",
            )
        if self.share is not None and not (
            (0 < self.share.fraction <= 1 and not self.share.unit_s)
            or (not self.share.fraction and self.share.unit_s > 0)
        ):
            raise InvalidInput(
                "a share is a fraction of the week above 0, up to 1, or a number of hours",
                where="week_share",
                remedy="give week_share = 0.25, or week_hours = 40, and not both",
            )
        if not any(getattr(self, kind) for kind in get_args(Kind)):
            raise InvalidInput(
                "the rule limits nothing",
                where="name",
                remedy="give ahead, lead, longest, shortest, held_max, locked_max, locked_hours, week_share,"
                " week_hours or approval",
            )
        if self.together and not any(getattr(self, kind) for kind in COUNTED):
            raise InvalidInput(
                "only held_max, locked_max, locked_hours, week_share and week_hours can be shared",
                where="together",
                remedy="leave it out: the other limits apply to each booking",
            )

    def describe(self) -> str:
        """Describe in words: ``guests (group:guests): at most 2h long, at least 1d before``."""
        each = "together" if self.together else "each"
        words = []
        if self.longest_s:
            words.append(f"at most {format_duration(self.longest_s)} long")
        if self.shortest_s:
            words.append(f"at least {format_duration(self.shortest_s)} long")
        if self.lead_s:
            words.append(f"at least {format_duration(self.lead_s)} before")
        if self.ahead_s:
            words.append(f"at most {format_duration(self.ahead_s)} ahead")
        if self.held_max:
            words.append(f"{each} at most {self.held_max} held at once")
        if self.locked_max:
            words.append(f"{each} at most {self.describe_number()} not over")
        if self.locked_unit_s:
            words.append(f"{each} at most {self.describe_time()} reserved and not over")
        if self.share is not None:
            words.append(f"{each} at most {self.describe_share()} of a week")
        if self.approval:
            words.append(_APPROVAL[self.approval])
        return f"{self.name} ({self.who}): {', '.join(words)}"

    def describe_number(self) -> str:
        """Format as ``3 reservations``."""
        return f"{self.locked_max} reservation{'s' * (self.locked_max > 1)}"

    def describe_time(self) -> str:
        """Format as ``40 unit-hours``."""
        return f"{self.locked_unit_s / 3_600:g} unit-hours"

    def describe_share(self) -> str:
        """Format as ``25 %``, or ``40 unit-hours``."""
        if self.share is None:
            return "all"
        if self.share.unit_s:
            return f"{self.share.unit_s / 3_600:g} unit-hours"
        return f"{100 * self.share.fraction:g} %"


class Limits:
    """The limits of one resource, in order of precedence; raises `InvalidInput` for a name given twice."""

    def __init__(self, rules: Iterable[Limit] = ()) -> None:
        self.rules = tuple(rules)
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(
                f"two limits are called {twice}",
                where="limits",
                remedy="give each limit its own name, because refusals name them",
            )
        self.counts = any(getattr(rule, kind) for rule in self.rules for kind in COUNTED)
        """Whether any rule depends on existing bookings."""
        self.shortest = any(rule.shortest_s for rule in self.rules)
        """Whether any rule refuses short bookings."""

    def holding(self, principal: Principal) -> list[Limit]:
        """Return what limits `principal`: each rule with the kinds alone that it decides."""
        found = []
        for rule in self.rules:
            decided = {
                kind: getattr(rule, kind)
                for kind in get_args(Kind)
                if self.deciding(principal, kind, together=rule.together) is rule
            }
            if decided:
                found.append(Limit(rule.name, rule.who, rule.together, **decided))
        return found

    def needs_approval(self, principal: Principal) -> bool:
        """Whether a booking of `principal` waits for the owner's word."""
        return self._approval(principal) in ("needed", "two")

    def needs_two_approvals(self, principal: Principal) -> bool:
        """Whether it waits for the words of two people of the owner."""
        return self._approval(principal) == "two"

    def _approval(self, principal: Principal) -> Approval:
        rule = self.deciding(principal, "approval")
        return rule.approval if rule is not None else ""

    def deciding(self, principal: Principal, kind: Kind, *, together: bool = False) -> Limit | None:
        """Return the rule that limits `kind` for `principal`, individually or for all `together`."""
        counted = kind in COUNTED
        for rule in self.rules:
            if (
                getattr(rule, kind)
                and (not counted or rule.together == together)
                and is_meant(rule.who, principal)
            ):
                return rule
        return None


_WEEK = timedelta(days=7)


def weeks(start: int, end: int, zone: ZoneInfo) -> Iterator[Interval]:
    """Yield the weeks that overlap ``[start, end)``, whole, in order; they touch."""
    shown = datetime.fromtimestamp(start, zone).date()
    monday = datetime.combine(shown - timedelta(days=shown.weekday()), time())
    while True:
        week = Interval(instant(monday, zone), instant(monday + _WEEK, zone))
        if week.start >= end:
            return
        # A clock that is set back over midnight shows Sunday again when Monday has begun.
        if week.end > start:
            yield week
        monday += _WEEK
