"""The sites of a running broker: those of its configuration, and those that the register lists.

Each replica has the same sites: it reads the list when it begins and with each beat. A site that is leaving
stays connected until nothing is booked there any more: what was promised is kept, can be cancelled, and is
compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.parts import CoordinatorPart
from kalends.broker.coordination.wings import Ground
from kalends.broker.effect_runner import Carriers
from kalends.broker.planning.directory import Directory
from kalends.broker.register.contract import Register
from kalends.broker.register.writes import LeaveSite, ListedSite, UnlistSite
from kalends.broker.replica.replica import Incarnation
from kalends.broker.sites.departures import Departure, departure_of
from kalends.broker.sites.reached_sites import ReachedSite
from kalends.broker.sites.site_link import LinkUser, SiteLink
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger

PAGE: Final = 500
"""Rows of the register that are looked at in one go."""

Connect = Callable[[ReachedSite], SiteLink]


class _NoParts:
    """The machine knows its sites by the directory."""

    parts: Sequence[CoordinatorPart] = ()


class SiteRoster:
    """The sites of one replica, with `configured` ones; `watch` is called with the name of each new one.

    It is a wing of the service: it learns of changes that others have made.
    """

    def __init__(
        self,
        configured: Sequence[ReachedSite],
        directory: Directory,
        *,
        watch: Callable[[str], None],
        logger: Logger,
    ) -> None:
        self.configured = {site.name: site for site in configured}
        self.reached = dict(self.configured)
        """All sites that are in use, by name; always the same mapping, as is `links`."""
        self.links: dict[str, SiteLink] = {}
        self.listed: Sequence[ListedSite] = ()
        self.carriers: Carriers = {}
        self._directory = directory
        self._watch = watch
        self._logger = logger
        self._struck: dict[str, ReachedSite] = {}
        """Sites that are configured no more, before the register lists them as leaving."""
        self._connect: Connect | None = None
        self._user: LinkUser | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        for name in self.reached:
            watch(name)

    # A server's life

    def begin(self, connect: Connect, user: LinkUser) -> None:
        """Make the links to all sites, and to those to come, by `connect`, and tell `user` of lost ones."""
        self._connect, self._user = connect, user
        for site in self.reached.values():
            self.links[site.name] = connect(site)

    def run(self) -> None:
        """Connect to all sites, now that the service can hear them."""
        for name, link in self.links.items():
            self._running.setdefault(name, asyncio.create_task(link.run()))

    async def end(self) -> None:
        """Give up all links."""
        running = [*self._running.values(), *self._ending]
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def candidate(self, site: ReachedSite) -> SiteLink:
        """Return a link to a site that may be added, which does not run."""
        assert self._connect is not None
        return self._connect(site)

    # The wing

    def machine(self, ground: Ground) -> _NoParts:
        return _NoParts()

    async def begun(self, coordinator: Coordinator, store: Register) -> None:
        self.take(await store.listed_sites())

    async def beat(self, current: Incarnation, now: Moment) -> Callable[[Moment], None]:
        await self._store_struck(current, now)
        for site in await current.store.listed_sites():
            due = site.state == "leaving" and site.until <= now.wall_s
            if due and site.name not in self.configured:
                await self._look_again(current, site, now)
        self.take(await current.store.listed_sites())
        return lambda now: None

    async def _store_struck(self, current: Incarnation, now: Moment) -> None:
        for name, site in [*self._struck.items()]:
            departure = await self.departure(current.store, name, now.wall_s)
            leaving = ListedSite(
                name, "", site.url, _text_of(site), site.takes_passes, 0, "leaving", now.wall_s, "",
                departure.until,
            )  # fmt: skip
            await current.store.writer.run((LeaveSite(leaving),))
            self._struck.pop(name, None)

    async def _look_again(self, current: Incarnation, site: ListedSite, now: Moment) -> None:
        """The site may have nothing left by now."""
        departure = await self.departure(current.store, site.name, now.wall_s)
        if departure.requests:
            later = LeaveSite(site._replace(until=departure.until))
            await current.store.writer.run((later,))
            return
        gone = UnlistSite(site.name, site.key, "leaving", site.until)
        await current.store.writer.run((gone,))
        self._logger.info("site_left", site=site.name)

    async def departure(self, store: Register, site: str, now_s: int) -> Departure:
        """Return what is still booked at `site`, by the whole register; raises `Unavailable`."""
        total, after = Departure(0, now_s), ""
        while rows := await store.page(after, PAGE):
            found = await asyncio.to_thread(departure_of, site, rows, now_s)
            total = Departure(total.requests + found.requests, max(total.until, found.until))
            after = rows[-1].rid
        return total

    # Changes

    def configure(self, sites: Sequence[ReachedSite]) -> None:
        """Take the sites of a changed configuration; those that it has no more leave."""
        configured = {site.name: site for site in sites}
        gone = {name: site for name, site in self.configured.items() if name not in configured}
        joined = {each.name for each in self.listed if each.state == "joined"}
        self._struck |= {name: site for name, site in gone.items() if name not in joined}
        for name in configured:
            self._struck.pop(name, None)
        self.configured = configured
        self.take(self.listed)

    def take(self, listed: Sequence[ListedSite]) -> None:
        """Let the sites be those that are configured, and those that `listed` has in use."""
        self.listed = listed
        wanted = dict(self.configured)
        for name, site in self._struck.items():
            wanted.setdefault(name, site._replace(leaving=True))
        for each in listed:
            if each.state != "announced":
                wanted.setdefault(each.name, _reached(each))
        for name in [name for name in self.reached if name not in wanted]:
            self._let_go(name)
        for name, site in wanted.items():
            if self.reached.get(name) != site:
                self._put(site)

    def _put(self, site: ReachedSite) -> None:
        """Use a site that is new, or reached in another way than before."""
        before = self.reached.get(site.name)
        if before is None:
            self._watch(site.name)
        self.reached[site.name] = site
        self._directory.add(site.name, site.url, leaving=site.leaving)
        if before is not None and before._replace(leaving=True) == site:
            return
        self._disconnect(site.name, "it is reached in another way now")
        if self._connect is None:
            return
        link = self.links[site.name] = self._connect(site)
        self._running[site.name] = asyncio.create_task(link.run())
        self._logger.info("site_added", site=site.name, url=site.url)

    def _let_go(self, name: str) -> None:
        del self.reached[name]
        self._disconnect(name, "it has left this broker")
        self._directory.remove(name)

    def _disconnect(self, name: str, reason: str) -> None:
        self.links.pop(name, None)
        task = self._running.pop(name, None)
        if task is None:
            return
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        assert self._user is not None
        self._user.site_lost(name, reason)


def _reached(site: ListedSite) -> ReachedSite:
    return ReachedSite(
        site.name, site.url, None, takes_passes=site.passes, ca_text=site.ca,
        leaving=site.state == "leaving",
    )  # fmt: skip


def _text_of(site: ReachedSite) -> str:
    """Return the certificates of the authority of a configured site; "" if they cannot be read any more."""
    try:
        return site.ca.read_text() if site.ca is not None else site.ca_text
    except (OSError, UnicodeDecodeError):
        return ""
