"""Sites that join and leave a running broker: what owners announce, and what operators decide."""

from __future__ import annotations

from kalends.broker.planning.directory import Directory
from kalends.broker.register.writes import (
    JoinSite,
    KeepCard,
    LeaveSite,
    ListedSite,
    Result,
    SiteWrite,
    UnlistSite,
)
from kalends.broker.service import BrokerService
from kalends.broker.sites.departures import LOOK_AGAIN_S
from kalends.broker.sites.reached_sites import ReachedSite
from kalends.broker.sites.roster import SiteRoster
from kalends.broker.sites.site_link import LinkLost
from kalends.contract import site_calls as calls
from kalends.core.errors import Conflict, InvalidInput, LimitExceeded, NotFound, Unavailable
from kalends.core.near_names import unknown_site
from kalends.serving.auth.callers import Caller
from kalends.serving.auth.site_cards import SiteCard, read_card

OLDER_CARD = "a newer card of this site is known"


class SiteCommands:
    """The calls about the sites of the broker with this `service`; they are those of `roster`."""

    def __init__(self, service: BrokerService, roster: SiteRoster) -> None:
        self._service = service
        self._roster = roster

    async def list(self, caller: Caller, body: calls.ListBrokerSites) -> calls.BrokerSites:
        listed = await self._listed()
        known = self._roster.configured
        configured = (self._configured(site) for site in known.values())
        named = [
            self._view(site)
            for site in listed
            if site.name not in known or site.state == "announced"
        ]
        return calls.BrokerSites(sites=(*configured, *named))

    async def announce(self, caller: Caller, body: calls.AnnounceSite) -> calls.BrokerSiteView:
        """Raises `InvalidInput`, `Conflict` for an older card, `LimitExceeded` where too many wait."""
        site = self._site(self._card(body.site, body.card), caller, "announced")
        result = await self._write(KeepCard(site))
        if result == 0:
            raise LimitExceeded(
                "too many announced sites wait for the operator of this broker",
                where="card",
                remedy="ask the operator to add the site by its card: kalends admin sites add",
            )
        if result == -1:
            raise _older_card()
        return await self._stands(site.name, site.key)

    async def add(self, caller: Caller, body: calls.AddSite) -> calls.BrokerSiteView:
        """Raises `InvalidInput`, `NotFound`, `Conflict` for a name that is taken, and `Unavailable`."""
        if body.card:
            card = self._card(body.site, body.card)
            if body.key not in ("", card.key):
                raise InvalidInput(
                    f"the card of {card.name} is signed by the key {card.key}, not by {body.key}",
                    where="key",
                    remedy="ask the owner of the site for its card, and for the id of its key",
                )
            site = self._site(card, caller, "joined")
        else:
            announced = await self._announced(body.site, body.key)
            site = announced._replace(
                state="joined", since=self._now_s(), named_by=caller.principal.user
            )
        self._check_free(site)
        await self._check_reached(site)
        result = await self._write(JoinSite(site))
        if result == 0:
            raise _taken(site.name, "a site with another key has joined by this name")
        if result == -1:
            raise _older_card()
        return await self._stands(site.name, site.key)

    async def remove(self, caller: Caller, body: calls.RemoveSite) -> calls.BrokerSiteView:
        """Raises `NotFound`, and `Conflict` for a site that is configured."""
        if body.site in self._roster.configured:
            raise Conflict(
                f"{body.site} is in the configuration of this broker",
                where="site",
                remedy="take it out of [[broker.sites]], and let the broker reload it (SIGHUP)",
            )
        found = [
            each
            for each in await self._listed()
            if each.name == body.site and body.key in ("", each.key)
        ]
        if not found:
            raise unknown_site(body.site, [*self._roster.reached, *_names(self._roster)])
        used = next((each for each in found if each.state != "announced"), None)
        if used is None:
            for each in found:
                await self._write(UnlistSite(each.name, each.key, "announced"))
            return self._view(found[0])
        if used.state == "joined":
            now_s = self._now_s()
            leaving = used._replace(
                state="leaving", since=now_s, named_by=caller.principal.user,
                until=now_s + LOOK_AGAIN_S,
            )  # fmt: skip
            await self._write(LeaveSite(leaving))
        departure = await self._service.replica.read(
            lambda store: self._roster.departure(store, used.name, self._now_s())
        )
        view = await self._stands(used.name, used.key)
        until = max(view.until, departure.until)
        return calls.BrokerSiteView(
            site=view.site, url=view.url, state=view.state, up=view.up, detail=view.detail, key=view.key,
            passes=view.passes, since=view.since, named_by=view.named_by, until=until,
            reservations=departure.requests,
        )  # fmt: skip

    # Checks

    def _card(self, name: str, text: str) -> SiteCard:
        card = read_card(text, self._now_s())
        if card.name != name:
            raise InvalidInput(
                f"this is the card of {card.name}, not of {name}",
                where="card",
                remedy="name the site of the card",
            )
        return card

    async def _announced(self, name: str, key: str) -> ListedSite:
        listed = await self._listed()
        cards = [each for each in listed if each.name == name]
        if not cards:
            raise NotFound(
                f"no site {name} was announced here",
                where="site",
                remedy="give its card: kalends admin sites add NAME --card FILE",
            )
        if not key:
            raise InvalidInput(
                f"any user could have announced {name}",
                where="key",
                remedy="name the key that its owner says is theirs: kalends admin sites list shows those that"
                " have announced it",
            )
        site = next((each for each in cards if each.key == key), None)
        if site is None:
            raise NotFound(
                f"no card of {name} is signed by the key {key}",
                where="key",
                remedy="kalends admin sites list shows the keys that have announced it",
            )
        return site

    def _check_free(self, site: ListedSite) -> None:
        if site.name in self._roster.configured:
            raise _taken(site.name, "it is in the configuration of this broker")
        if site.name in self._directory.virtual:
            raise _taken(site.name, "a virtual site has this name")

    async def _check_reached(self, site: ListedSite) -> None:
        reached = ReachedSite(site.name, site.url, None, ca_text=site.ca)
        try:
            await self._roster.candidate(reached).look()
        except LinkLost as error:
            raise Unavailable(
                f"{site.name} was not added: {error}",
                where="card",
                remedy="ask its owner whether the site runs at this address, and lists this broker's key",
            ) from error

    # The list

    @property
    def _directory(self) -> Directory:
        return self._service.directory

    def _now_s(self) -> int:
        return self._service.moment().wall_s

    async def _listed(self) -> tuple[ListedSite, ...]:
        return tuple(await self._service.replica.read(lambda store: store.listed_sites()))

    async def _write(self, write: SiteWrite) -> Result:
        """Store, also while a restored register is not compared: it may lack the site that it needs."""
        (result,) = await self._service.runner.written((write,))
        self._roster.take(await self._listed())
        return result

    async def _stands(self, name: str, key: str) -> calls.BrokerSiteView:
        for site in await self._listed():
            if (site.name, site.key) == (name, key):
                return self._view(site)
        raise unknown_site(name, _names(self._roster))

    def _site(self, card: SiteCard, caller: Caller, state: str) -> ListedSite:
        return ListedSite(
            card.name, card.key, card.url, card.ca, card.passes, card.made_at,
            "joined" if state == "joined" else "announced", self._now_s(), caller.principal.user,
        )  # fmt: skip

    def _view(self, site: ListedSite) -> calls.BrokerSiteView:
        entry = self._directory.sites.get(site.name) if site.state != "announced" else None
        return calls.BrokerSiteView(
            site=site.name, url=site.url, state=site.state, up=entry is not None and entry.up,
            detail=entry.detail if entry is not None else "", key=site.key, passes=site.passes,
            since=site.since, named_by=site.named_by, until=site.until,
        )  # fmt: skip

    def _configured(self, site: ReachedSite) -> calls.BrokerSiteView:
        entry = self._directory.sites[site.name]
        return calls.BrokerSiteView(
            site=site.name, url=site.url, state="configured", up=entry.up, detail=entry.detail,
            passes=site.takes_passes,
        )  # fmt: skip


def _names(roster: SiteRoster) -> list[str]:
    return sorted({each.name for each in roster.listed})


def _taken(name: str, why: str) -> Conflict:
    return Conflict(
        f"the name {name} is taken: {why}",
        where="site",
        remedy="remove that site first, or let the owner choose another name for theirs",
    )


def _older_card() -> Conflict:
    return Conflict(
        OLDER_CARD, where="card", remedy="ask the owner for the newest card of the site"
    )
