"""The standbys of a server's database, looked at again and again: commits, and beats, wait for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kalends.core.errors import Unavailable
from kalends.servers.database_address import address_at
from kalends.serving.alarms import Report
from kalends.serving.configuration import BrokerConfiguration, SiteConfiguration

if TYPE_CHECKING:
    from kalends.stores.postgres.address import Address

LOOK_EVERY_S: Final = 5.0
ABOUT: Final = "standbys of the database"


class StandbyWatch:
    """`detail` is what is wrong with them now, or ""; `report` hears of it."""

    def __init__(self, address: Address, report: Report) -> None:
        self._address = address
        self._report = report
        self.detail = ""

    async def run(self) -> None:
        """Look until this is cancelled."""
        while True:
            self.detail = await asyncio.to_thread(self._look)
            self._report(ABOUT, self.detail)
            await asyncio.sleep(LOOK_EVERY_S)

    def _look(self) -> str:
        from kalends.stores.postgres.standbys import missing_at

        try:
            return missing_at(self._address)
        except Unavailable:
            # The server itself says that.
            return self.detail


def watch_of(
    configuration: BrokerConfiguration | SiteConfiguration, section: str, report: Report
) -> StandbyWatch | None:
    """Return the watch for a store in a database; None for a file. Raises as `address_at`."""
    if configuration.store.path is not None:
        return None
    return StandbyWatch(address_at(configuration.store.url, section), report)


def detail_of(watch: StandbyWatch | None, *others: str) -> str:
    """Return the first of `others` that says something, behind what `watch` knows."""
    known = watch.detail if watch is not None else ""
    return "; ".join(filter(None, (known, next(filter(None, others), ""))))
