"""The address of a store on PostgreSQL, as a configuration gives it.

PostgreSQL's driver is an extra, and takes a while to be imported: only servers with such a store load it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kalends.core.errors import InvalidInput
from kalends.serving.configuration import BrokerConfiguration, SiteConfiguration
from kalends.serving.logs import Logger
from kalends.stores.postgres.driver import need_driver

if TYPE_CHECKING:
    from kalends.stores.postgres.address import Address


def address_at(url: str, section: str) -> Address:
    """Return the address of the store of a `section` of the configuration.

    Raises `InvalidInput` for a URL that cannot be used, and `KalendsError` if the driver is not installed.
    """
    need_driver()
    from kalends.stores.postgres.address import Address

    try:
        return Address(url)
    except InvalidInput as error:
        error.where = f"{section}.store"
        raise


def log_opening(server: BrokerConfiguration | SiteConfiguration, logger: Logger) -> None:
    """Let the log say which database a start is about to wait for."""
    if server.store.url:
        section = "site" if isinstance(server, SiteConfiguration) else "broker"
        logger.info("opens_store", store=address_at(server.store.url, section).shown)


def check_folder(server: BrokerConfiguration | SiteConfiguration) -> None:
    """Raise `InvalidInput` unless `server` can write into the `folder` that its configuration names."""
    folder = server.folder
    if folder is None or os.access(folder, os.W_OK | os.X_OK):
        return
    why = "belongs to another user" if folder.is_dir() else "does not exist"
    section = "site" if isinstance(server, SiteConfiguration) else "broker"
    raise InvalidInput(
        f"the folder {folder} {why}",
        where=f"{section}.folder",
        remedy="make it for the user of the server, with mode 0700",
    )
