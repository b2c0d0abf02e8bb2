"""Name, epoch and fence numbers of a site, for all of its parts."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, Literal, NamedTuple

from kalends.contract import messages as m
from kalends.core.errors import Refusal

OWNER_DRAINS: Final = "the owner accepts no new claims at present"
OWNER_DRAINS_UNTIL: Final = "the owner accepts no new claims until"

SEQUENCE_BITS: Final = 40
"""The bits of a fence number below its epoch: 10^12 claims between two restarts."""


class AnyAddress:
    """All of them."""

    def __contains__(self, url: object) -> bool:
        return True


class ThisSite(NamedTuple):
    """`epoch` is higher than at any earlier start of the site; it may ask others at `addresses`."""

    name: str
    epoch: int
    addresses: Container[str] = AnyAddress()

    def refusal(self, code: str, detail: str) -> Refusal:
        return Refusal(where=self.name, code=code, detail=detail)

    def visited(
        self,
        visit: m.Visit,
        *,
        vote: Literal["yes", "no", "none"] = "none",
        held: tuple[m.HeldSlot, ...] = (),
        refusals: tuple[Refusal, ...] = (),
        ahead: int = -1,
        approval: bool = False,
        cost: m.Cost | None = None,
    ) -> m.Visited:
        return m.Visited(
            rid=visit.rid, att=visit.att, epoch=self.epoch, vote=vote, held=held,
            refusals=refusals, ahead=ahead, approval=approval, cost=cost,
        )  # fmt: skip

    def turned_down(self, visit: m.Visit, refusals: tuple[Refusal, ...]) -> m.Visited:
        """Return the answer to a visit that is refused."""
        return self.visited(visit, vote="no" if visit.mode == "vote" else "none", refusals=refusals)

    def no_bid(self, solicit: m.Solicit, refusals: tuple[Refusal, ...]) -> m.Bid:
        """Return the answer to who asks for a place in vain."""
        return m.Bid(rid=solicit.rid, att=solicit.att, epoch=self.epoch, refusals=refusals)


class FenceNumbers:
    """Numbers of claims, runs and relays, each higher than all before, over restarts too."""

    def __init__(self, epoch: int) -> None:
        self._last = epoch << SEQUENCE_BITS

    def new(self) -> int:
        self._last += 1
        return self._last
