"""Who lies in one play: some sites, both replicas of one broker, and one of the virtual sites."""

from __future__ import annotations

import random
from typing import Final

from tests.shells import lying_brokers, lying_sites, lying_ways
from tests.shells.facility import Facility
from tests.shells.lying import CHARACTERS, Liar, Rumours
from tests.shells.lying_brokers import LyingBroker
from tests.shells.lying_sites import LyingSite
from tests.shells.lying_ways import LyingWay

LYING_SITES: Final = 3
LYING_BROKER: Final = "broker2"


class Liars:
    """Drawn by `chance`, before anything of `facility` has started."""

    def __init__(self, facility: Facility, chance: random.Random) -> None:
        rumours = Rumours(facility, chance)
        self._facility = facility
        sites = chance.sample(facility.sites, LYING_SITES)
        replicas = [each for each in facility.replicas if each.startswith(LYING_BROKER)]
        way = chance.choice(list(facility.plan.virtual))
        self.sites = {each: LyingSite(rumours, each, chance.choice(CHARACTERS)) for each in sites}
        self.brokers = {
            each: LyingBroker(rumours, each, chance.choice(CHARACTERS)) for each in replicas
        }
        self.way = LyingWay(rumours, way, CHARACTERS[0])
        self.way.garbles = chance.random() < 0.5
        self.all: list[Liar] = [*self.sites.values(), *self.brokers.values(), self.way]
        lying_sites.lie(self.sites)
        lying_brokers.lie(self.brokers)
        lying_ways.lie({way: self.way})
        for each in self.all:
            each.begin()

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.all]

    @property
    def astray(self) -> list[str]:
        """Sites that are reached through the virtual site that lies: what it withholds comes late."""
        return self._below(self.way.name)

    @property
    def untrue(self) -> set[str]:
        """Sites of which what is heard may be a lie, their own or that of the way to them."""
        return {*self.sites, *(self.astray if self.way.garbles else ())}

    def _below(self, virtual: str) -> list[str]:
        members = self._facility.plan.virtual
        found = []
        for name in members[virtual]:
            found += self._below(name) if name in members else [name]
        return found

    def invent(self) -> None:
        """From now on they also say what nobody has asked."""
        for each in self.all:
            self._facility.world.nodes[each.name].run(each.live())

    def fall_silent(self) -> None:
        """They are honest from now on."""
        for each in self.all:
            each.silent = True
            for how, count in each.said.items():
                self._facility.counts[how] += count
