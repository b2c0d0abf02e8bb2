"""The kinds of stores that servers keep in files."""

from __future__ import annotations

from typing import Final

from kalends.broker.register.sqlite import broker_store
from kalends.resource_servers.journal.sqlite import site_store

KINDS: Final = (broker_store.KIND, site_store.KIND)
