"""Ways to use PostgreSQL wrongly, put into the simulated register, its replicas, and sites at run time."""

from __future__ import annotations

from typing import Any, Final

from kalends.broker.replica.leases import LEASE_MS
from tests.simulation.climates import REGISTER_ON_POSTGRES, SITES_ON_POSTGRES
from tests.simulation.mutations import Mutation
from tests.simulation.postgres_broker import PostgresBroker, PostgresWorld
from tests.simulation.postgres_register import PostgresRegister
from tests.simulation.postgres_site import PostgresSite, PostgresSitesWorld


class NoFence(PostgresRegister):
    """Whoever was retired is let in."""

    def lets_in(self, batch: Any) -> bool:
        return True

    def fence_rows(self, batch: Any) -> Any:
        return {key for key in super().fence_rows(batch) if key[0] != "fence"}


class BeginTogether(PostgresRegister):
    """Processes of one replica that begin at the same time do not see each other's rows."""

    def fence_rows(self, batch: Any) -> Any:
        return {key for key in super().fence_rows(batch) if key[0] != "replica"}


class NoRowLocks(PostgresRegister):
    """A batch is decided on rows that others change before it is stored; only keys stay unique."""

    def request_rows(self, batch: Any) -> Any:
        return {key for key in super().request_rows(batch) if key[0] == "key"}


class TwoTransactions(PostgresRegister):
    """The first half of what a batch changes is stored by itself."""

    def transaction(self, batch: Any, changes: Any, own: Any) -> None:
        half = len(changes) // 2
        if half:
            super().transaction(batch, changes[:half], ())
        super().transaction(batch, changes[half:], own)


class BelievesCancelledWaits(PostgresBroker):
    believes_warnings = True


class LeasesByWallClocks(PostgresBroker):
    """A beat says until when its owner lives, by the owner's clock; others compare it with their own."""

    def lease(self, wall_ms: int) -> Any:
        self.until_ms = {self.owner: wall_ms + LEASE_MS}
        return super().lease(wall_ms)

    def look_at_leases(self, outlook: Any, asked_ms: int) -> None:
        said: dict[str, int] = {}
        for broker in self.world.brokers:
            said |= getattr(broker, "until_ms", {})
        lives = {owner for owner in outlook.beats if said.get(owner, 0) > self.now().wall_ms}
        # Those who live have just beaten, whatever was seen before.
        beats = {owner: self.kernel.events for owner in outlook.beats if owner in lives}
        super().look_at_leases(outlook._replace(beats=beats), asked_ms)


class SitesWithoutFence(PostgresSite):
    """Whoever was taken over is let in."""

    def lets_in(self, life: int) -> bool:
        return True


class AnswersBesideTheFence(PostgresSite):
    """What has no facts leaves at once, whatever others make of it."""

    def waits(self, effects: Any) -> bool:
        return bool(effects.facts)


class CommandsWithoutLease(PostgresSite):
    """A command is given whenever its turn comes."""

    def is_ours(self) -> bool:
        return True


def _site_on_postgres(name: str, broken: type[PostgresSite]) -> Mutation:
    class Broken(PostgresSitesWorld):
        site_node = broken

    return Mutation(name, Broken, SITES_ON_POSTGRES)


def _on_postgres(
    name: str,
    *,
    register: type[PostgresRegister] = PostgresRegister,
    broker: type[PostgresBroker] = PostgresBroker,
) -> Mutation:
    class Broken(PostgresWorld):
        register_disk = register
        broker_node = broker

    return Mutation(name, Broken, REGISTER_ON_POSTGRES)


MUTATIONS_OF_POSTGRES: Final = (
    _on_postgres("no fence", register=NoFence),
    _on_postgres("two begin together", register=BeginTogether),
    _on_postgres("no lock on rows", register=NoRowLocks),
    _on_postgres("a batch in two transactions", register=TwoTransactions),
    _on_postgres("a cancelled wait is believed", broker=BelievesCancelledWaits),
    _on_postgres("a lease by wall clocks", broker=LeasesByWallClocks),
    _site_on_postgres("no fence of a site", SitesWithoutFence),
    _site_on_postgres("an answer beside the fence", AnswersBesideTheFence),
    _site_on_postgres("a command without a lease", CommandsWithoutLease),
)
