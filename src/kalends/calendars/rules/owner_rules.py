"""An owner's rules for one resource, except its access list and opening hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kalends.calendars.rules.access import check_who, is_meant
from kalends.calendars.rules.blackouts import Blackouts
from kalends.calendars.rules.usage_limits import Limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
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


class OwnerRules:
    """Limits, blackouts and head starts of one resource."""

    def __init__(
        self,
        limits: Limits | None = None,
        blackouts: Blackouts | None = None,
        head_starts: Iterable[HeadStart] = (),
    ) -> None:
        self.limits = limits or Limits()
        self.blackouts = blackouts or Blackouts()
        self.head_starts = tuple(head_starts)

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
        )

    def describe(self) -> tuple[str, ...]:
        """Return every rule in words, for those who may see the resource."""
        return (
            *(rule.describe() for rule in self.limits.rules),
            *(blackout.describe() for blackout in self.blackouts.planned),
            *(each.describe() for each in self.head_starts),
        )
