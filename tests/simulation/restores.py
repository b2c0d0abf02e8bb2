"""Stores of sites that are put back to an earlier image while a schedule runs.

What a site has stored since is forgotten there, and remembered by the register: in the end all that it has
committed is locked, and everything else is free. The judges read the store of such a site as it is then, and
what it had promised before as its word all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.auditor import SiteBooks
from tests.simulation.disks import DiskImage, SiteDisk
from tests.simulation.nodes import SiteNode

if TYPE_CHECKING:
    from tests.simulation.world import World

AGES_MS: Final = (100, 2_000, 10_000, 30_000)
"""How old an image is when it is put back: younger than a promise, or older than most reservations."""


def stores_put_back(world: World, until_ms: int) -> None:
    """Put the stores of some sites back, once or twice each.

    Sessions are streams, as shipped: no frame outlives the life of a site that has forgotten what it says.
    """
    world.forgetful = world.network.stream = True
    world.auditor.expected_alarms += (
        ": commit of attempt",
        ": cancel of slots that are only promised",
    )
    random = world.kernel.random
    for site in random.sample(world.sites, random.randrange(1, len(world.sites) + 1)):
        site.disk.close()
        site.disk = SiteDisk(world.kernel, world.auditor, site.name, files=False)
        for _ in range(random.choice((1, 1, 2))):
            age_ms = random.choice(AGES_MS)
            begin_ms = random.randrange(2_000, until_ms - age_ms)
            world.kernel.after(begin_ms, _copy, world, site, age_ms)


def _copy(world: World, site: SiteNode, age_ms: int) -> None:
    world.kernel.after(
        age_ms, _put_back, world, site, site.disk.image(), world.auditor.books_of(site.name)
    )


def _put_back(world: World, site: SiteNode, image: DiskImage, books: SiteBooks) -> None:
    world.kernel.fault("store put back", site.name)
    site.crash()
    site.disk.put_back(image)
    world.auditor.put_back(site.name, books)
