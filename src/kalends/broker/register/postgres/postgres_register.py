"""A broker's register on PostgreSQL, opened by one of its replicas.

Replicas on several hosts share its rows. A second process with the name of a replica begins when the first
one does not beat any more. A lock of the database would not do: a promoted standby knows nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kalends.broker.register.contract import WholeReservation
from kalends.broker.register.postgres.old_requests import put_aside
from kalends.broker.register.postgres.register_batches import RegisterBatches
from kalends.broker.register.postgres.register_reads import RegisterReads
from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.broker.register.writes import ForgetSettled, Result, Write
from kalends.core.errors import Conflict, Unavailable
from kalends.stores.group_commit import STUCK_DATABASE, Committed, GroupCommit, store_failed
from kalends.stores.postgres import settings
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.batches import Batches
from kalends.stores.postgres.fence import OwnerMark
from kalends.stores.postgres.migrations import (
    OpenedStore,
    accept_cluster,
    believe,
    open_store,
)
from kalends.stores.postgres.readers import Readers
from kalends.stores.postgres.session import (
    BEGIN,
    Statement,
    WriterSession,
    asked,
    does_not_commit,
    sound,
)
from kalends.stores.postgres.settings import Fault
from kalends.stores.postgres.stillness import is_silent, others_standing_still, present

STANDS_IN_THE_WAY_S: Final = 4.0
"""A replica that keeps rows locked for so long without a beat is stopped: also who has nothing to do beats
each three seconds. If it lives after all, it begins anew."""

CLOSE_S_MAX: Final = 5.0
"""A database that does not answer keeps no replica from its end."""

OPEN_S_MAX: Final = 10.0
"""An opening takes no longer than this, and the lease of an earlier process of the same name."""

PUT_ASIDE_S_MAX: Final = 10.0
"""A database that does not answer keeps no rows locked for longer, and no replica from its end."""

_NOTHING: Final = ForgetSettled(())
"""It changes nothing, and is committed like other writes."""

_BEGINNING: Final = "$1::integer, hashtext(current_schema() || ' ' || $2::text)"
_NUMBER: Final = 0x6B616C32  # "kal2"
_FIRST: Final = f"select pg_try_advisory_lock({_BEGINNING})"
_BEGUN: Final = f"select pg_advisory_unlock({_BEGINNING})"
"""Two processes that begin as one replica do not see each other's rows yet: the first of them goes on."""

_OPENING: Final = Statement("select nextval('opening'), identity, secret from register")


class _Begun(NamedTuple):
    session: WriterSession
    batches: Batches[Write, Result]
    epoch: int
    identity: str
    secret: str
    store: OpenedStore
    advice: Sequence[Fault]


class PostgresRegister(RegisterReads):
    """See `kalends.broker.register.contract.Register`. Made and used on one event loop.

    `advice` are settings of the database that should be better.
    """

    def __init__(
        self, begun: _Begun, address: Address, observe: Callable[[Committed], None]
    ) -> None:
        self.writer: GroupCommit[Write, Result] = GroupCommit(
            begun.batches, observe=observe, stuck_because=STUCK_DATABASE
        )
        super().__init__(Readers(address), self._confirmed)
        self._closed = False
        self._session, self._address, self._store = begun.session, address, begun.store
        self.promoted = begun.store.is_promoted
        self.epoch = begun.epoch
        self.identity = begun.identity
        self.secret = begun.secret
        self.advice = begun.advice

    @classmethod
    async def open(
        cls,
        address: Address,
        broker: str,
        replica: str,
        observe: Callable[[Committed], None],
        *,
        lease_s: float,
    ) -> PostgresRegister:
        """Open the register of `broker` at `address`, or make it, as its `replica`.

        Another process that is this replica, and has not beaten for `lease_s`, is ended. Raises `Conflict`
        where it beats, or begins too, and as `settings.check` and `migrations.open_store`.
        """
        session = await asyncio.to_thread(WriterSession.open, address)
        late = asyncio.get_running_loop().call_later(lease_s + OPEN_S_MAX, session.cut)
        opening = asyncio.create_task(_begin(session, address, broker, replica, lease_s))
        try:
            begun = await asyncio.shield(opening)
        except asyncio.CancelledError:
            session.cut()
            await asyncio.gather(opening, return_exceptions=True)
            raise
        except Unavailable as error:
            if late.when() > asyncio.get_running_loop().time():
                raise
            raise does_not_commit(address) from error
        finally:
            late.cancel()
        return cls(begun, address, observe)

    async def put_aside(self, settled: Sequence[WholeReservation]) -> int:
        session = await asyncio.to_thread(WriterSession.open, self._address)
        late = asyncio.get_running_loop().call_later(PUT_ASIDE_S_MAX, session.cut)
        try:
            return await asyncio.to_thread(put_aside, session, self._address, settled)
        finally:
            late.cancel()
            session.cut()

    async def believe(self) -> None:
        await asyncio.to_thread(believe, self._address, self._store.cluster)

    async def _confirmed(self) -> None:
        """Return when a standby has all rows that were read before: it has a later commit."""
        if self._closed:
            raise store_failed("it is closed")
        await self.writer.run([_NOTHING])

    async def close(self) -> None:
        self._closed = True
        cutting = asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._session.cut)
        try:
            await self.writer.close()
            await self.close_readers()
            await asyncio.to_thread(self._session.close)
        finally:
            cutting.cancel()


async def _begin(
    session: WriterSession, address: Address, broker: str, replica: str, lease_s: float
) -> _Begun:
    try:
        with asked(address):
            store, advice = await asyncio.to_thread(_prepare, session, address, broker)
            first = Statement(_FIRST, (_NUMBER, replica))
            [[(is_first,)]] = await asyncio.to_thread(session.message, [first])
            if not (is_first and await is_silent(session, replica, lease_s)):
                raise _served_elsewhere(address, replica)
            return await asyncio.to_thread(_enrol, session, replica, store, advice)
    except BaseException:
        session.close()
        raise


def _prepare(
    session: WriterSession, address: Address, broker: str
) -> tuple[OpenedStore, Sequence[Fault]]:
    advice = settings.check(session, address)
    sound(session, address)
    return open_store(address, REGISTER, broker), advice


def _enrol(
    session: WriterSession, replica: str, store: OpenedStore, advice: Sequence[Fault]
) -> _Begun:
    ((epoch, identity, secret),) = session.commit([BEGIN, _OPENING])[1]
    owner = f"{replica}:{epoch}"
    still = others_standing_still(session, owner, STANDS_IN_THE_WAY_S)
    batches: Batches[Write, Result] = Batches(session, owner, RegisterBatches(replica), still)
    batches.enrol(OwnerMark())
    session.message([Statement(_BEGUN, (_NUMBER, replica))])
    return _Begun(session, batches, epoch, identity, secret, store, advice)


def _served_elsewhere(address: Address, replica: str) -> Conflict:
    return Conflict(
        f"another process serves as {replica} on this store",
        where=address.shown,
        remedy="give each replica of a broker its own `replica`, or stop the other process;"
        " pg_stat_activity shows from which host it is connected",
    )


def is_served(address: Address, replica: str) -> bool:
    """Return whether a process that is `replica` has the register open; raises `Unavailable`."""
    session = WriterSession.open(address)
    try:
        with asked(address):
            there = session.message([Statement("select to_regclass('replica') is not null")])[0]
            return there == [(True,)] and bool(present(session, replica))
    finally:
        session.close()


def accept_restored(address: Address) -> None:
    """Let a register be served that was brought back from a backup, perhaps into another cluster.

    Nothing new is taken until it is compared with all sites. Raises `Unavailable`.
    """
    accept_cluster(address, [Statement("update register set put_back = true")])
