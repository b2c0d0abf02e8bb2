"""The revocations of a server with a database, which all its processes follow there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kalends.servers.database_address import address_at
from kalends.serving.alarms import Report
from kalends.serving.auth.claims import Revoked
from kalends.serving.configuration import BrokerConfiguration, SiteConfiguration
from kalends.serving.http.reload import REVOKED

if TYPE_CHECKING:
    from kalends.serving.auth.stored_revocations import StoredRevocations


def stored_revocations(
    configuration: SiteConfiguration | BrokerConfiguration, report: Report
) -> StoredRevocations | None:
    """Return those in the database of a server, or None if its store is a file; raises as `address_at`."""
    if not configuration.store.url:
        return None
    role = "site" if isinstance(configuration, SiteConfiguration) else "broker"
    address = address_at(configuration.store.url, role)
    from kalends.serving.auth.stored_revocations import StoredRevocations

    return StoredRevocations(address, lambda text: report("revoked", text))


def follow(application: web.Application, revocations: StoredRevocations | None) -> None:
    """Let `application` follow them from its start on, once its store is open."""
    if revocations is None:
        return
    followed = revocations

    async def begin(application: web.Application) -> None:
        await followed.begin()

    async def end(application: web.Application) -> None:
        await followed.end()

    is_revoked: Revoked = followed
    application[REVOKED] = is_revoked
    application.on_startup.append(begin)
    application.on_cleanup.append(end)
