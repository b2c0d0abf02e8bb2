"""A question to the manager of a virtual site, and what is done where it gives no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kalends.contract.messages import Refer


class Referral(NamedTuple):
    """A `question` to the manager of `virtual`; its answer goes to `Solicitation.referred`."""

    virtual: str
    question: Refer


@dataclass(frozen=True, slots=True)
class OwnChoice:
    """Referral by the broker alone: ask the sites `own`, of those at the ends of the ways in `site_at`."""

    own: tuple[str, ...]
    site_at: Mapping[str, str]

    def named(self, ways: Sequence[str]) -> tuple[str, ...]:
        """Return the sites that a manager has named; none where it has named others, or too many."""
        if len(ways) > len(self.own) or not self.site_at.keys() >= set(ways):
            return ()
        return tuple(dict.fromkeys(self.site_at[way] for way in ways))
