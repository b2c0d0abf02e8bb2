"""A site's own past: its lives, and the last position of each.

A life is one opening of the site's store; its name is drawn at random, so that an old image of the
store, put back, begins a life that nobody has heard of, and knows nothing of those it has forgotten.
The position counts the facts about stakes that are durable. Brokers are told both, and remember them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kalends.contract import proofs
from kalends.contract.messages import Mark
from kalends.resource_servers.participation.effects import SiteFact

FIRST_LIFE = "0" * 32


class Past(NamedTuple):
    """`ended` has the last position of each earlier life, in their order; `position` is that of the store at
    its opening. `secret` is the store's own: it proves what brokers show of what they were told.
    """

    life: str = FIRST_LIFE
    position: int = 0
    ended: Mapping[str, int] = MappingProxyType({})
    secret: str = ""

    @property
    def first_life(self) -> str:
        """That in which the store was made: all images of it have it in common, and no other store has it."""
        return next(iter(self.ended), self.life)

    def mark(self, register: str, position: int) -> Mark:
        """Return this site's `position`, with its proof, for the broker of `register`."""
        proof = proofs.of_mark(self.secret, register, self.life, position)
        return Mark(self.life, position, proof)

    def includes(self, register: str, mark: Mark, position: int) -> bool:
        """Whether a site that is at `position` now remembers what `register` remembers of it.

        What the site has not said itself is no mark of it: no broker can make it forget.
        """
        true = proofs.of_mark(self.secret, register, mark.life, mark.position)
        if not proofs.same(mark.proof, true):
            return True
        if mark.life == self.life:
            return mark.position <= position
        return mark.position <= self.ended.get(mark.life, -1)


class RecoveryChanged(SiteFact, frozen=True):
    """Fact: promises may be forgotten here, so that nothing new is taken (`on`); or that is over."""

    on: bool
