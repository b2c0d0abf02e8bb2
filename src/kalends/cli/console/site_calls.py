"""Calls to a site, instead of the broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from kalends.cli.console.settings import Settings
from kalends.core.errors import NotAllowed, NotAuthenticated
from kalends.core.identifiers import split_resource

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient

SITE_HELP = "Site address, or its name at the broker, e.g. sdsc."


class RefusedBySite(NotAuthenticated):
    """A site refused a token that its broker accepts; another login at the broker would not help."""


@contextmanager
def site_client(settings: Settings, site: str) -> Iterator[SyncClient]:
    """Open a client of `site`: an address, the server itself, or a site that the broker knows by that name.

    For a name, the broker gives a pass. Raises `NotFound` for an unknown name, and `RefusedBySite`.
    """
    if "://" in site:
        with replace(settings, broker=site).connect() as client:
            yield client
        return
    with settings.connect() as client:
        if client.health().role == "site":
            yield client
            return
        there = client.at_site(site)
    with there, _told_by_whom_it_is_refused(there, site):
        yield there


def client_at(settings: Settings, machine: str) -> AbstractContextManager[SyncClient]:
    """Open a client of the site of `machine`, as `site_client` does."""
    return site_client(settings, split_resource(machine)[0])


def settings_at(settings: Settings, machine: str) -> Settings:
    """Return the site of `machine` as settings, for code with an event loop."""
    site = split_resource(machine)[0]
    with settings.connect() as client:
        if client.health().role == "site":
            return settings
        way = client.at_site(site).settings
    return replace(settings, broker=way.access.url, way=way)


@contextmanager
def _told_by_whom_it_is_refused(there: SyncClient, site: str) -> Iterator[None]:
    """Add the site and a remedy to a refusal, because the site cannot name them."""
    url = there.settings.access.url
    try:
        yield
    except NotAuthenticated as error:
        raise RefusedBySite(
            f"the site {site} does not accept this token: {error.detail}",
            where=url,
            remedy="ask its owner, or log in there: "
            f"kalends login --profile {quote(site)} --broker {quote(url)}",
        ) from error
    except NotAllowed as error:
        if error.where == "token":
            error.detail = (
                f"the site {site} does not allow this for a broker's users: {error.detail}"
            )
            error.remedy = (
                f"ask the site's owner for a token, and use --broker {url} --token-file FILE;"
                " or ask for that scope for the broker's key"
            )
        raise
