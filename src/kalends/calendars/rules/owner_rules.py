"""An owner's rules for one resource, except its access list and opening hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from kalends.calendars.rules.access import check_who, is_meant
from kalends.calendars.rules.blackouts import Blackouts
from kalends.calendars.rules.buffers import Buffer
from kalends.calendars.rules.prices import Prices
from kalends.calendars.rules.usage_limits import Limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.money import CancelRule
from kalends.core.principals import Principal

HEAD_START_MS_MAX: Final = 7 * 86_400_000
"""A week: a request that has waited longer is never overtaken."""


@dataclass(frozen=True, slots=True)
class HeadStart:
    """A head start: in the wait queue `who` counts as having asked `head_start_ms` earlier.

    A finite head start delays others and never starves them. Raises `InvalidInput` for any other.
    """

    who: str
    head_start_ms: int

    def __post_init__(self) -> None:
        check_who(self.who, "who")
        if not 0 <= self.head_start_ms <= HEAD_START_MS_MAX:
            raise InvalidInput("not a head start", where="head_start", remedy="give from 0s to 7d")

    def describe(self) -> str:
        """Describe in words: ``group:staff waits as if it had asked 10m earlier``."""
        return f"{self.who} waits as if it had asked {format_duration(self.head_start_ms // 1000)} earlier"


@dataclass(frozen=True, slots=True)
class RuleScript:
    """An owner's script whose ``decide`` is asked about each booking; `words` tell users what it is about.

    If it fails, `on_failure` says what holds: the other "rules" alone, "ask" the owner, or "no".
    """

    source: str
    words: str
    on_failure: Literal["rules", "ask", "no"] = "rules"

    def describe(self) -> str:
        """Describe in words: ``the owner's script decides: Beginners book by day.``."""
        return f"the owner's script decides: {self.words}"


class OwnerRules:
    """Limits, blackouts and head starts of one resource, its owner's script, and what it costs."""

    def __init__(
        self,
        limits: Limits | None = None,
        blackouts: Blackouts | None = None,
        head_starts: Iterable[HeadStart] = (),
        script: RuleScript | None = None,
        prices: Prices | None = None,
        cancel: CancelRule | None = None,
        no_show_s: int = 0,
        buffer: Buffer | None = None,
        comes_with: tuple[str, ...] = (),
    ) -> None:
        self.limits = limits or Limits()
        self.blackouts = blackouts or Blackouts()
        self.head_starts = tuple(head_starts)
        self.script = script
        self.prices = prices or Prices()
        self.cancel = cancel or CancelRule()
        self.buffer = buffer or Buffer()
        self.comes_with = comes_with
        self.no_show_s = no_show_s
        """A slot for which nobody checks in for so long is given back; 0: never."""

    def head_start_ms(self, principal: Principal) -> int:
        """Return the head start by the first rule that matches `principal`; 0 without one."""
        for each in self.head_starts:
            if is_meant(each.who, principal):
                return each.head_start_ms
        return 0

    def describe_for(self, principal: Principal) -> tuple[str, ...]:
        """Return the rules that hold for `principal` in words; of limits, those that decide."""
        meant = (each for each in self.head_starts if is_meant(each.who, principal))
        return (
            *(rule.describe() for rule in self.limits.holding(principal)),
            *(blackout.describe() for blackout in self.blackouts.planned),
            *(each.describe() for each in islice(meant, 1)),
            *self.prices.describe_for(principal),
            *((self.cancel.describe(),) if self.prices.terms(principal) else ()),
            *self._of_all(),
        )

    def describe(self) -> tuple[str, ...]:
        """Return every rule in words, for those who may see the resource."""
        return (
            *(rule.describe() for rule in self.limits.rules),
            *(blackout.describe() for blackout in self.blackouts.planned),
            *(each.describe() for each in self.head_starts),
            *self.prices.describe(),
            *self._of_all(),
        )

    def _of_all(self) -> tuple[str, ...]:
        """Describe what holds for all users."""
        told = [self.script.describe()] if self.script is not None else []
        if self.comes_with:
            told.append(f"always together with {', '.join(self.comes_with)}")
        if buffer := self.buffer.describe():
            told.append(buffer)
        if self.no_show_s:
            within = format_duration(self.no_show_s)
            told.append(f"given back if nobody checks in within {within}")
        return tuple(told)
