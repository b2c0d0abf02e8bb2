"""Calls to a site itself instead of the broker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kalends.cli.console.settings import Settings
from kalends.core.errors import NotAuthenticated, NotFound
from kalends.core.near_names import near

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient

SITE_HELP = "Site address, or its name at the broker, e.g. sdsc."


def site_settings(settings: Settings, site: str) -> Settings:
    """Return `settings` for calls to `site`, an address or a name known to the broker.

    Raises `NotFound` for an unknown name.
    """
    if "://" in site:
        return replace(settings, broker=site)
    with settings.connect() as client:
        return replace(settings, broker=site_url(client, site))


class RefusedBySite(NotAuthenticated):
    """A site refuses a token that its broker takes: to log in at the broker again would not help."""


def site_url(client: SyncClient, site: str) -> str:
    """Return the address of `site` as the broker of `client` knows it; raises `NotFound`."""
    sites = {status.site: status.url for status in client.resources().sites}
    if site not in sites:
        raise NotFound(
            f"the broker knows no site {site}",
            remedy=near(site, sites) or f"give its address, or one of {', '.join(sorted(sites))}",
        )
    return sites[site]
