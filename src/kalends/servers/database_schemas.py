"""The tables of a server whose store is a database. Needs the driver of PostgreSQL."""

from __future__ import annotations

from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.resource_servers.journal.postgres import site_tables
from kalends.serving.configuration import BrokerConfiguration, SiteConfiguration
from kalends.stores.postgres.migrations import StoreSchema


def schema_of(server: BrokerConfiguration | SiteConfiguration) -> StoreSchema:
    """Return the tables that the store of `server` has to have."""
    return site_tables.SCHEMA if isinstance(server, SiteConfiguration) else REGISTER
