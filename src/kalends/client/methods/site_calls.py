"""The client's calls about the sites of a broker, for their owners and for its operators."""

from __future__ import annotations

from kalends.client.transports.call_line import CallLine
from kalends.contract.site_calls import (
    AddSite,
    AnnounceSite,
    BrokerSites,
    BrokerSiteView,
    ListBrokerSites,
    RemoveSite,
)


class SiteCalls:
    """The part of `kalends.Client` about the sites of a broker."""

    def __init__(self, line: CallLine) -> None:
        self._line = line

    async def broker_sites(self) -> tuple[BrokerSiteView, ...]:
        """Return the sites of the broker, and those that were announced; needs the scope ``audit``."""
        return (await self._line.call(ListBrokerSites(), "sites_list", BrokerSites)).sites

    async def announce_site(self, site: str, card: str) -> BrokerSiteView:
        """Show the `card` of `site` to the operators of the broker.

        If they have added the site before, the addresses of a newer card by the same key are used at once.
        Raises `InvalidInput` for a card that is none, `Conflict` for an older one, and `LimitExceeded`.
        """
        body = AnnounceSite(site=site, card=card)
        return await self._line.call(body, "sites_announce", BrokerSiteView)

    async def add_site(self, site: str, *, key: str = "", card: str = "") -> BrokerSiteView:
        """Add `site` by its `card`, or by the one that it was announced with, signed by `key`.

        Needs the scope ``admin``; repeating it changes nothing. Raises `InvalidInput` for a card that is none
        or of another key, `NotFound`, `Conflict` for a name that is taken, and `Unavailable` if the site
        cannot be reached.
        """
        body = AddSite(site=site, key=key, card=card)
        return await self._line.call(body, "sites_add", BrokerSiteView)

    async def remove_site(self, site: str, *, key: str = "") -> BrokerSiteView:
        """Book nothing more at `site`, and forget it once all that is booked there has ended.

        Of a site that was only announced, forget the cards that `key` ("": anybody) has signed. Needs the
        scope ``admin``. Raises `NotFound`, and `Conflict` for a site that is configured.
        """
        body = RemoveSite(site=site, key=key)
        return await self._line.call(body, "sites_remove", BrokerSiteView)
