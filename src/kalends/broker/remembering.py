"""What a broker remembers of each site: its last life and how far it was, in memory and in the register.

The register remembers before, or together with, every commit that rests on what a site has said. So
whatever a site may forget of what was promised to this register, it cannot come back without it unseen.
"""

from __future__ import annotations

from collections.abc import Iterable

from kalends.broker.record import Remember
from kalends.core.messages import Memory


class Memories:
    """Of one replica. A site's memory changes when it has been welcomed, and with each of its frames."""

    def __init__(self) -> None:
        self._known: dict[str, Memory] = {}
        self._lives: dict[str, str] = {}
        self._changed: set[str] = set()

    def of(self, site: str, stored: Memory | None) -> tuple[Memory, ...]:
        """What is said in Welcome; `stored` is what the register has, perhaps from another replica."""
        mine = self._known.get(site)
        both = {(each.life, each.position): each for each in (stored, mine) if each is not None}
        return tuple(both.values())

    def lives(self, site: str, life: str) -> None:
        """The site has said which life this session is with."""
        self._lives[site] = life

    def at(self, site: str, position: int) -> None:
        """A frame of the site was sent at `position`; before it is known in which life, it means nothing."""
        life = self._lives.get(site)
        if life is None:
            return
        known = self._known.get(site)
        if known is None or known.life != life or known.position < position:
            self._known[site] = Memory(life, position)
            self._changed.add(site)

    def lost(self, site: str) -> None:
        """The session is over: the next may be with another life."""
        self._lives.pop(site, None)

    def to_store(self) -> Iterable[Remember]:
        """What the register does not have yet; each time only what is new."""
        changed, self._changed = self._changed, set()
        return [Remember(site, *_fields(self._known[site])) for site in sorted(changed)]


def _fields(memory: Memory) -> tuple[str, int]:
    return memory.life, memory.position
