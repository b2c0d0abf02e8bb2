"""The register of a broker, in the store that its configuration names: a file, or a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from kalends.broker.register.contract import Register
from kalends.broker.register.sqlite.broker_store import BrokerStore
from kalends.broker.replica.leases import LEASE_MS, ReplicaLock
from kalends.servers.database_address import address_at
from kalends.serving.configuration import BrokerConfiguration
from kalends.serving.logs import Logger
from kalends.stores.group_commit import Committed


def replica_name(configuration: BrokerConfiguration) -> str:
    """Return the name of this replica at its sites and in the register."""
    return f"{configuration.name}-{configuration.replica}"


def register_opener(
    configuration: BrokerConfiguration, observe: Callable[[Committed], None], logger: Logger
) -> Callable[[], Coroutine[None, None, Register]]:
    """Return the way to open the register of this replica, after each failure again.

    Raises `InvalidInput` for a URL that cannot be used, and `KalendsError` if the driver is not installed.
    """
    if configuration.store.path is not None:
        path = configuration.store.path
        return lambda: BrokerStore.open(path, configuration.name, observe)
    address = address_at(configuration.store.url, "broker")
    replica = replica_name(configuration)

    async def opened() -> Register:
        from kalends.broker.register.postgres.postgres_register import PostgresRegister

        register = await PostgresRegister.open(
            address, configuration.name, replica, observe, lease_s=LEASE_MS / 1_000
        )
        for fault in register.advice:
            logger.warning("store_setting", reason=str(fault))
        return register

    return opened


def replica_lock(configuration: BrokerConfiguration) -> ReplicaLock | None:
    """Keep other processes with this name out of a store on this host.

    None on PostgreSQL, where the register itself does that. Raises as `ReplicaLock`.
    """
    path = configuration.store.path
    return ReplicaLock(path, replica_name(configuration)) if path is not None else None
