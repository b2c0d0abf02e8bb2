"""Whether the register was restored to an earlier state: what its sites remember of it, and its own past.

Each start of a replica is a life with a random name; its position counts what it has stored. Sites are
told both, with a proof that only the register can make, and say them back with `Known`. A register whose past
does not include what a site was told has forgotten something. Then it takes nothing new, and gives
nothing up, until it has been compared with all its sites.

Until its sites have come, a register that was just opened cannot know. So long it does not say that a request
was never decided because it finds no decision: somebody may have been told of one. Sites that do not come are
waited for some seconds. But after a failover of its database, or where that was brought back to an earlier
time, they are waited for to the last one, unless the operator goes on without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kalends.contract import messages as m
from kalends.contract import proofs

LISTEN_MS: Final = 10_000
"""The longest wait for the sites after an opening: each is tried every five seconds."""


class Live(NamedTuple):
    """To be stored: `life` is known to have come to `position`."""

    life: str
    position: int


class Recognition:
    """Reports of sites about the register after one opening of it.

    `sites` are the broker's, which may change. `promoted`: the database is one that may lack what was stored
    last. `monotonic_ms` is the time of the opening.
    """

    def __init__(
        self,
        secret: str,
        sites: Collection[str],
        *,
        put_back: bool,
        promoted: bool = False,
        monotonic_ms: int,
    ) -> None:
        self.put_back = put_back
        """The register has forgotten something, and is not compared with all its sites yet."""
        self.promoted = promoted
        """Whatever a site has not confirmed may be forgotten."""
        self._secret = secret
        self._sites = sites
        self._listens_until_ms = monotonic_ms + LISTEN_MS
        self._heard: dict[str, tuple[m.Mark, ...]] = {}
        self._settled: set[str] = set()

    def hear(self, site: str, marks: Sequence[m.Mark], lives: Mapping[str, int]) -> bool:
        """Take what `site` remembers; False when some of it is forgotten here.

        What the register has not said itself is no mark of it. `lives` are how far those of the marks have
        come, as far as they are known.
        """
        said = tuple(mark for mark in marks if self._has_said(site, mark))
        self._heard[site] = said
        return all(mark.life in lives and mark.position <= lives[mark.life] for mark in said)

    def settle(self, site: str) -> None:
        """`site` has been compared, to the end."""
        self._settled.add(site)

    def unsettled(self) -> list[str]:
        """The sites that are to be compared yet, in order of name."""
        return sorted({*self._sites} - self._settled) if self.put_back else []

    def accounted(self) -> list[Live]:
        """What the sites that are settled remember, and is made good now."""
        return [
            Live(mark.life, mark.position)
            for site in sorted(self._settled)
            for mark in self._heard.get(site, ())
        ]

    def unheard(self) -> list[str]:
        """The sites that have not said what they remember, in order of name."""
        return sorted({*self._sites} - self._heard.keys())

    def has_listened(self, monotonic_ms: int) -> bool:
        """Whether all sites have come, or were waited for, and nothing is known to be forgotten."""
        listened = self._listens_until_ms <= monotonic_ms or not self.unheard()
        return listened and not self.put_back

    def is_certain(self, monotonic_ms: int) -> bool:
        """Whether what the register has no decision of was never decided."""
        return self.has_listened(monotonic_ms) and not (self.promoted and self.unheard())

    def _has_said(self, site: str, mark: m.Mark) -> bool:
        true = proofs.of_mark(self._secret, site, mark.life, mark.position)
        return proofs.same(mark.proof, true)


def mark_for(secret: str, site: str, life: str, position: int) -> m.Mark:
    """Return the register's position for `site`; `secret` is the register's."""
    return m.Mark(life, position, proofs.of_mark(secret, site, life, position))
