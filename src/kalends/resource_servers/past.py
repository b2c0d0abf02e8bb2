"""What a site knows of its own past: its lives, and how far each of them got.

A life is one opening of the site's store; its name is drawn at random, so that an old image of the
store, put back, begins a life that nobody has heard of, and knows nothing of those it has forgotten.
The position counts the facts about stakes that are durable. Brokers are told both, and remember them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from kalends.core.messages import Memory

FIRST_LIFE = "0" * 32


class Past(NamedTuple):
    """`ended` has the last position of each earlier life; `position` is that of the store at its opening."""

    life: str = FIRST_LIFE
    position: int = 0
    ended: Mapping[str, int] = MappingProxyType({})

    def includes(self, memory: Memory, position: int) -> bool:
        """Whether a site that is at `position` now remembers what another remembers of it."""
        if memory.life == self.life:
            return memory.position <= position
        return memory.position <= self.ended.get(memory.life, -1)


class RecoveryChanged(msgspec.Struct, frozen=True):
    """Fact: promises may be forgotten here, so that nothing new is taken (`on`); or that is over."""

    on: bool
