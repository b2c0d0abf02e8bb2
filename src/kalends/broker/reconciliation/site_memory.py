"""A broker's memory of each site: its last life and position, in memory and in the register.

The register remembers before, or together with, every commit that rests on what a site has said. So
whatever a site may forget of what was promised to this register, it cannot come back without it unseen.
"""

from __future__ import annotations

from collections.abc import Iterable

from kalends.broker.coordination.record.decision_record import Remember
from kalends.contract.messages import Mark


class Memories:
    """Memory of one replica of its sites. It changes with each frame that says how far a site is."""

    def __init__(self) -> None:
        self._known: dict[str, Mark] = {}
        self._changed: set[str] = set()

    def of(self, site: str, stored: Mark | None) -> tuple[Mark, ...]:
        """What is said in Welcome; `stored` is what the register has, perhaps from another replica."""
        mine = self._known.get(site)
        both = {(each.life, each.position): each for each in (stored, mine) if each is not None}
        return tuple(both.values())

    def at(self, site: str, mark: Mark) -> None:
        """The site, which has been welcomed, says how far it is; within a life it only gets further."""
        known = self._known.get(site)
        if known is None or known.life != mark.life or known.position < mark.position:
            self._known[site] = mark
            self._changed.add(site)

    def to_store(self) -> Iterable[Remember]:
        """What the register does not have yet; each time only what is new."""
        changed, self._changed = self._changed, set()
        return [Remember(site, self._known[site]) for site in sorted(changed)]
