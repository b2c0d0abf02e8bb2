"""The stores of a site, in the place that its configuration names: a file, or a PostgreSQL database."""

from __future__ import annotations

import hashlib

from kalends.core.hosts import Host
from kalends.resource_servers.journal.contract import SiteStorage
from kalends.resource_servers.journal.sqlite.site_journal import SqliteStorage
from kalends.servers.database_address import address_at
from kalends.serving.configuration import SiteConfiguration
from kalends.stores.sqlite.sqlite_file import runs_path


def home_of(configuration: SiteConfiguration, host: Host) -> Host:
    """Return the host to which machines of a site belong, whose process is on `host`.

    Next to a file is all that its machines have. A database has several processes of a site, perhaps on one
    host: each folder with records of jobs is then as a host of its own, with the name of that.
    """
    if configuration.store.path is not None:
        return host
    folder = configuration.store_file.parent.resolve()
    digest = hashlib.blake2b(f"{host.id} {folder}".encode(), digest_size=len(host.id) // 2)
    return Host(digest.hexdigest(), host.name)


def storage_of(configuration: SiteConfiguration, host: str) -> SiteStorage:
    """Return the stores of a site, whose process is on `host`.

    Raises `InvalidInput` for a URL that cannot be used, and `KalendsError` if the driver is not installed.
    """
    if configuration.store.path is not None:
        return SqliteStorage(configuration.store.path, configuration.name)
    address = address_at(configuration.store.url, "site")
    # Imported here because of the driver, which other stores do not need.
    from kalends.resource_servers.journal.postgres.site_journal import PostgresStorage

    units = {f"{configuration.name}/{each.name}": each.capacity for each in configuration.resources}
    return PostgresStorage(
        address,
        configuration.name,
        runs_path(configuration.store_file),
        units,
        host,
        guard_counted=configuration.guard_counted,
    )
