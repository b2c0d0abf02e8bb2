"""An owner's prices: what a unit costs in an hour, for whom and when.

The first rule that means the user *and* covers the second decides, as for limits; an interval costs the sum
over its seconds. What no rule prices is free.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kalends.calendars import profiles
from kalends.calendars.profiles import Step
from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.calendars.recurrence.windows import Windows
from kalends.calendars.rules.access import PRINCIPALS_MAX, check_who, is_meant
from kalends.core import money
from kalends.core.errors import InvalidInput
from kalends.core.money import Piece, Pieces
from kalends.core.principals import Principal

TERMS_CHARACTERS: Final = 16
"""Characters of the name of a price list: a hash of its rules."""


@dataclass(frozen=True, slots=True)
class PriceRule:
    """A price rule: a unit costs `who` (see `check_who`) `rate` parts in each second within `windows`.

    Without `windows` it always applies. With a `priority`, only to jobs of that priority class. Raises
    `InvalidInput` for anything else.
    """

    name: str
    who: str
    rate: int
    windows: tuple[Recurrence, ...] = ()
    priority: str = ""

    def __post_init__(self) -> None:
        check_who(self.who, "who")
        if type(self.rate) is not int or not 0 <= self.rate <= money.RATE_MAX:
            raise InvalidInput(
                f"{self.rate!r} is not a price",
                where="credits",
                remedy=f"give 0 to {money.format_rate(money.RATE_MAX)}, with at most three decimals",
            )

    def describe(self) -> str:
        """Describe in words: ``night (everyone): 2.5 credits for a unit and an hour, daily ...``."""
        words = [f"{money.format_rate(self.rate)} credits for a unit and an hour"]
        if self.priority:
            words.append(f"for jobs of the class {self.priority}")
        if self.windows:
            words.append(Windows(self.windows).describe())
        return f"{self.name} ({self.who}): {', '.join(words)}"


class Prices:
    """The price rules of one resource, in order of precedence; raises `InvalidInput` for a name given twice.

    Immutable but for a cache of who is meant; not thread-safe.
    """

    def __init__(self, rules: Iterable[PriceRule] = ()) -> None:
        self.rules = tuple(rules)
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(
                f"two prices are called {twice}",
                where="prices",
                remedy="give each price its own name, because statements name them",
            )
        self._windows = [Windows(rule.windows) if rule.windows else None for rule in self.rules]
        self._meant: dict[tuple[Principal, str], tuple[int, ...]] = {}

    def __bool__(self) -> bool:
        """Whether the owner has written any price."""
        return bool(self.rules)

    def steps(
        self, principal: Principal, start: int, end: int, priority: str = ""
    ) -> Iterator[Step]:
        """Yield ``(start, end, rate)`` for all of ``[start, end)``.

        Neighbours differ. Raises as `Windows.between`.
        """
        profile: Iterator[Step] = iter([(start, end, 1)])
        # Rates are one higher on the way, so that 0 is "not covered": a rule may well say that nothing is
        # to pay.
        for number in reversed(self._of(principal, priority)):
            windows, rate = self._windows[number], self.rules[number].rate + 1
            opened = iter([(start, end, rate)])
            if windows is not None:
                opened = profiles.from_windows(windows.between(start, end), start, end, rate)
            profile = profiles.combine(profile, opened, lambda below, above: above or below)
        return profiles.join((first, last, rate - 1) for first, last, rate in profile)

    def dearest(self, principal: Principal, priority: str) -> int:
        """Return the highest rate at which such a job of `principal` may be charged; 0: it costs nothing."""
        return max((self.rules[number].rate for number in self._of(principal, priority)), default=0)

    def pieces(
        self, principal: Principal, units: int, start: int, end: int, priority: str = ""
    ) -> Pieces:
        """Return the pieces of `units` during ``[start, end)``, in order; () if no rule means the user.

        Raises `InvalidInput` for more than `money.PIECES_MAX` pieces or `money.COST_MAX` parts.
        """
        if not self._of(principal, priority):
            return ()
        found = tuple(
            Piece((last - first) * units, rate)
            for first, last, rate in self.steps(principal, start, end, priority)
        )
        if len(found) > money.PIECES_MAX or money.cost_of(found) > money.COST_MAX:
            raise InvalidInput(
                f"its price has {len(found)} pieces, and is"
                f" {money.format_credits(money.cost_of(found))} credits: at most {money.PIECES_MAX} and"
                f" {money.COST_MAX // money.CREDIT:,} are allowed",
                where="units" if len(found) <= money.PIECES_MAX else "end",
                remedy="book it in several shorter parts",
            )
        return found

    def terms(self, principal: Principal) -> str:
        """Return a name for what holds for `principal`: one for the same rules, "" if nothing is priced."""
        meant = self._of(principal, "")
        if not meant:
            return ""
        told = repr(
            [
                (
                    rule.rate,
                    [
                        (w.rrule, w.start, w.duration_s, w.zone, w.first, w.last)
                        for w in rule.windows
                    ],
                )
                for rule in (self.rules[number] for number in meant)
            ]
        )
        return hashlib.sha256(told.encode()).hexdigest()[:TERMS_CHARACTERS]

    def describe_for(self, principal: Principal) -> tuple[str, ...]:
        """Return in words the rules that mean `principal`."""
        return tuple(each.describe() for each in self.rules if is_meant(each.who, principal))

    def describe(self) -> tuple[str, ...]:
        """Return in words the rules that mean everyone: what groups pay, their members alone are shown."""
        return tuple(each.describe() for each in self.rules if each.who == "everyone")

    def _of(self, principal: Principal, priority: str) -> tuple[int, ...]:
        """Return the numbers of the rules that mean `principal`, up to the first that always applies."""
        key = (principal, priority)
        if key not in self._meant:
            if len(self._meant) >= PRINCIPALS_MAX:
                self._meant.clear()
            self._meant[key] = tuple(self._work_out(principal, priority))
        return self._meant[key]

    def _work_out(self, principal: Principal, priority: str) -> Iterator[int]:
        for number, rule in enumerate(self.rules):
            if rule.priority in ("", priority) and is_meant(rule.who, principal):
                yield number
                if not rule.windows:
                    return
