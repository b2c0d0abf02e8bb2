"""Calls that are made of a site itself, not of the broker."""

from __future__ import annotations

from dataclasses import replace

from kalends.cli._settings import Settings
from kalends.core.errors import NotFound

SITE_HELP = "The site's address, or its name at the broker."


def site_settings(settings: Settings, site: str) -> Settings:
    """`settings`, for calls of `site`: an address as it is, a name as the broker knows it.

    Raises `NotFound` for a name that the broker does not know.
    """
    if "://" in site:
        return replace(settings, broker=site)
    with settings.connect() as client:
        sites = {status.site: status.url for status in client.resources().sites}
    if site not in sites:
        raise NotFound(
            f"the broker knows no site {site}",
            where="--site",
            remedy=f"give its address, or one of {', '.join(sorted(sites))}",
        )
    return replace(settings, broker=sites[site])
