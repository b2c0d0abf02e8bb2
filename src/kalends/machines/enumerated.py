"""Topologies that can list every place for a partition: the base class of new architectures.

A subclass defines which extents serve a request, where an extent may lie, and which units are neighbours.
Searching, caching and low fragmentation are provided here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kalends.core.errors import InvalidInput
from kalends.machines.partitions import Partition
from kalends.machines.topology import Location, Topology

MOST_UNITS: Final = 2_048
"""Units of the largest machine that is enumerated, as many nodes as the largest Cray T3D had."""
MOST_CACHED: Final = 60_000
"""Sites kept ready, of some 200 bytes each on a machine of 64 units, 700 on the largest."""
MOST_REQUESTS: Final = 10_000
"""Different requests whose sites are kept ready."""


class EnumeratedTopology(Topology):
    """A topology whose partitions are few enough to be listed.

    Best fit takes the free site with the most contact: the site whose border touches the most units that
    are taken, out of service, or beyond the machine's edge, so that free units stay together. First fit,
    for comparison, takes the first free site. Ties go to the site listed first.
    """

    def __init__(
        self, spec: str, units: int, unit_nodes: int = 1, *, first_fit: bool = False
    ) -> None:
        if units > MOST_UNITS:
            raise InvalidInput(
                f"{units} units are more than {MOST_UNITS}",
                where="machine",
                remedy="give larger units, or count nodes with pool:N",
            )
        super().__init__(f"{spec}:fit=first" if first_fit else spec, units, unit_nodes)
        self.first_fit = first_fit
        neighbours = [set(self.links(unit)) for unit in range(units)]
        self._neighbours = [sum(1 << other for other in each) for each in neighbours]
        degree = max(len(each) for each in neighbours)
        self._edges = [degree - len(each) for each in neighbours]
        self._choices: dict[tuple[int, tuple[int, ...]], list[list[Location]]] = {}
        self._sites: dict[Any, list[Location]] = {}
        self._partitions: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, Partition]] = {}
        """Units and nodes of a site, by its origin and shape."""
        self._cached = 0

    @abstractmethod
    def extents(self, nodes: int, shape: tuple[int, ...]) -> Iterable[Sequence[Any]]:
        """Return the extents that may serve a request, in groups, the preferred group first.

        Extents of a group are equally good. All take the same number of units, the fewest that can
        serve the request. Without groups it could never be configured. An extent is any hashable value
        that `sites` understands.
        """

    @abstractmethod
    def sites(self, extent: Any) -> Iterable[tuple[tuple[int, ...], tuple[int, ...], list[int]]]:
        """Return every place where an extent may lie: the origin and shape in nodes, and the units."""

    @abstractmethod
    def links(self, unit: int) -> Iterable[int]:
        """Return the neighbours of a unit. Units with fewer neighbours than others lie at the edge."""

    def granted(self, nodes: int, shape: tuple[int, ...]) -> int:
        choices = self._choices_for(nodes, shape)
        return choices[0][0].units.bit_count() * self.unit_nodes if choices else 0

    def search(self, busy: int, nodes: int, shape: tuple[int, ...]) -> Location | None:
        for sites in self._choices_for(nodes, shape):
            best, most = None, -1
            for site in sites:
                if not site[0] & busy:
                    if self.first_fit:
                        return site
                    contact = (site[1] & busy).bit_count() + site[2]
                    if contact > most:
                        best, most = site, contact
            if best is not None:
                return best
        return None

    def partition(self, site: Location) -> Partition:
        place = site.origin, site.shape
        known = self._partitions.get(place)
        if known is None or known[0] != site.units:
            known = self._partitions[place] = site.units, super().partition(site)
        return known[1]

    def units_of(self, partition: Partition) -> int:
        units, known = self._partitions.get((partition.origin, partition.shape), (0, None))
        # Nearly always the same object that was given out: comparing all nodes would take longer.
        return units if known is partition else super().units_of(partition)

    def _choices_for(self, nodes: int, shape: tuple[int, ...]) -> list[list[Location]]:
        """Return the sites for a request, in groups, the preferred group first."""
        choices = self._choices.get((nodes, shape))
        if choices is None:
            if self._cached > MOST_CACHED or len(self._choices) > MOST_REQUESTS:
                self._forget()
            groups = [self._listed(tuple(group)) for group in self.extents(nodes, shape)]
            choices = [sites for sites in groups if sites]
            self._choices[nodes, shape] = choices
        return choices

    def _listed(self, group: tuple[Any, ...]) -> list[Location]:
        sites = self._sites.get(group)
        if sites is None:
            sites = [self._site(*place) for extent in group for place in self.sites(extent)]
            self._sites[group] = sites
            self._cached += len(sites)
        return sites

    def _forget(self) -> None:
        """Empty the cache; sites that are needed again are listed again."""
        self._choices.clear()
        self._sites.clear()
        self._partitions.clear()
        self._cached = 0

    def _site(self, origin: tuple[int, ...], shape: tuple[int, ...], units: list[int]) -> Location:
        mask = touching = edge = 0
        for unit in units:
            mask |= 1 << unit
            touching |= self._neighbours[unit]
            edge += self._edges[unit]
        return Location(mask, touching & ~mask, edge, shape, origin)
